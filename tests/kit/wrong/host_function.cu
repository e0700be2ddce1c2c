// A host function called in a kernel.
#ifdef RIGHT
#define ON_DEVICE __device__
#else
#define ON_DEVICE
#endif

namespace wrong {

ON_DEVICE inline int host_scale(int value) { return value * 3; }

__global__ void host_function(int* out) { *out = host_scale(*out); }

}  // namespace wrong
