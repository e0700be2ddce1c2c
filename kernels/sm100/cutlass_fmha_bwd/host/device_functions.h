// What the CUDA compiler declares by itself and headers name in device code, which the host never calls.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

static const uint3 threadIdx{}, blockIdx{};
static const dim3 blockDim{}, gridDim{};
void __syncthreads();
