// Cumulative products of 64 decays.
#include <cuda_bf16.h>
extern "C" __global__ void k(float* out, const float* x) {
#ifdef WRONG
    __nv_bfloat16 product = __float2bfloat16(1);
#else
    float product = 1;
#endif
    for (int j = 0; j < 64; ++j) {
#ifdef WRONG
        product = __float2bfloat16(__bfloat162float(product) * x[threadIdx.x * 64 + j]);
        out[threadIdx.x * 64 + j] = __bfloat162float(product);
#else
        product *= x[threadIdx.x * 64 + j];
        out[threadIdx.x * 64 + j] = product;
#endif
    }
}
