// `using namespace` of both cute and a library with a Layout of its own, as ATen's (corpus L3).
#include "common.cuh"

#ifndef WRONG_AT_LAYOUT  // a unit may hold this kernel twice
#define WRONG_AT_LAYOUT
namespace at {
enum class Layout : signed char { Strided };
}
#endif

namespace wrong {
namespace ambiguous {

#ifndef RIGHT
using namespace at;
#endif

__global__ void layout_ambiguous() {
  Layout rows = make_layout(Shape<_128, _64>{});
  print(rows);
}

}  // namespace ambiguous
}  // namespace wrong
