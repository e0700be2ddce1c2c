// A host function called in a kernel.
#include <cstdlib>

namespace wrong {

#ifdef RIGHT
__device__
#endif
inline int host_scale(int value) { return value * 3; }

__global__ void host_function(int* out) { *out = host_scale(*out); }

}  // namespace wrong
