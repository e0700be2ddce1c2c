// _576, which CuTe does not have.
#include "common.cuh"

namespace wrong {

__global__ void no_such_integer() {
#ifdef RIGHT
  using Columns = Int<576>;
#else
  using Columns = _576;
#endif
  print(Shape<_64, Columns>{});
}

}  // namespace wrong
