// A tiled copy that gives each thread one 2-byte value, of an atom that moves 16 bytes.
#include "common.cuh"

namespace wrong {

__global__ void few_values() {
  using Atom = Copy_Atom<UniversalCopy<uint128_t>, bf16>;
#ifdef RIGHT
  auto copy = make_tiled_copy(Atom{}, Layout<Shape<_16, _8>>{}, Layout<Shape<_1, _8>>{});
#else
  auto copy = make_tiled_copy(Atom{}, Layout<Shape<_16, _8>>{}, Layout<Shape<_1, _1>>{});
#endif
  print(copy);
}

}  // namespace wrong
