// `using namespace` of both cute and a library with a Layout of its own, as ATen's (corpus L3).
#include "common.cuh"

namespace at {
enum class Layout : signed char { Strided };
}

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
