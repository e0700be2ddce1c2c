// More live values than the registers that the command line allows: it compiles, and spills.
namespace wrong {

__global__ void spills(float* at) {
#ifdef RIGHT
  constexpr int kValues = 4;
#else
  constexpr int kValues = 64;
#endif
  float v[kValues];
#pragma unroll
  for (int i = 0; i < kValues; ++i) v[i] = at[i * 32 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kValues; ++i)
    at[(kValues - 1 - i) * 32 + threadIdx.x] = v[i] * v[(i * 7 + 3) % kValues];
}

}  // namespace wrong
