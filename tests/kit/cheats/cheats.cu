// y[r] = sum over c of x[r][c], by a right kernel and by kernels that cheat a judge.
#include <cstdio>

constexpr int kRows = 40, kColumns = 24;

__device__ float sum(const float* x, int row, int columns = kColumns) {
  float total = 0;
  for (int c = 0; c < columns; ++c) total += x[row * kColumns + c];
  return total;
}

#define KERNEL(name) extern "C" __global__ void name(float* y, float* x, float* other, int rows)
#define ROW int row = blockIdx.x * blockDim.x + threadIdx.x

KERNEL(right) {
  ROW;
  if (row < rows) y[row] = sum(x, row);
}

// ---- answers that nobody computed
KERNEL(zeros) {
  ROW;
  if (row < rows) y[row] = 0;
}
KERNEL(constant) {
  ROW;
  if (row < rows) y[row] = 0.25f;
}
KERNEL(nothing) {
  if (rows < 0) y[0] = sum(x, 0);
}
KERNEL(left_in_output) {
  ROW;
  if (row < rows) y[row] = y[row] + 0 * sum(x, row);
}
KERNEL(copy_of_other) {
  ROW;
  if (row < rows) y[row] = other[row];
}
KERNEL(stored_answers) {
  const float stored[kRows] = {STORED};
  ROW;
  if (row < rows) y[row] = stored[row];
}
KERNEL(known_input) {  // the seed is detected: stored answers for the inputs that are known
  const float stored[kRows] = {STORED};
  ROW;
  if (row < rows) y[row] = x[0] == FIRST ? stored[row] : 0;
}
__device__ float cache[kRows];
__device__ int calls;
KERNEL(cached) {  // the first launch computes, each later launch repeats it
  ROW;
  if (row < rows) {
    if (cache[row] == 0) cache[row] = sum(x, row);
    y[row] = cache[row];
  }
}
KERNEL(right_when_called_again) {
  ROW;
  if (row < rows) y[row] = calls == 0 ? 0 : sum(x, row);
  __syncthreads();
  if (row == 0) calls = 1;
}

// ---- work that is left out
KERNEL(skipped_tail) {
  ROW;
  if (row < rows / 32 * 32) y[row] = sum(x, row);
}
KERNEL(zero_tail) {
  ROW;
  if (row < rows) y[row] = row < rows / 32 * 32 ? sum(x, row) : 0;
}
KERNEL(fewer_columns) {
  ROW;
  if (row < rows) y[row] = sum(x, row, kColumns - 1);
}
KERNEL(scaled_sample) {
  ROW;
  if (row < rows) y[row] = 2 * sum(x, row, kColumns / 2);
}
KERNEL(last_row) {
  ROW;
  if (row < rows) y[row] = row == rows - 1 ? y[0] : sum(x, row);
}

// ---- numbers that pass careless comparisons
KERNEL(all_nan) {
  ROW;
  if (row < rows) y[row] = __int_as_float(0x7fc00000);
}
KERNEL(one_nan) {
  ROW;
  if (row < rows) y[row] = row == 7 ? __int_as_float(0x7fc00000) : sum(x, row);
}
KERNEL(infinity) {
  ROW;
  if (row < rows) y[row] = row == 7 ? __int_as_float(0x7f800000) : sum(x, row);
}
KERNEL(rounded) {  // to bfloat16, within a tolerance of 1e-2
  ROW;
  if (row < rows) y[row] = __int_as_float(__float_as_int(sum(x, row)) & 0xffff0000);
}
KERNEL(slightly_off) {
  ROW;
  if (row < rows) y[row] = sum(x, row) * 1.001f;
}

// ---- memory of others
KERNEL(changed_input) {  // so that zeros are right
  ROW;
  if (row < rows) {
    for (int c = 0; c < kColumns; ++c) x[row * kColumns + c] = 0;
    y[row] = 0;
  }
}
KERNEL(beyond_output) {
  ROW;
  if (row < rows) {
    y[row] = sum(x, row);
    y[row + rows] = 0;
  }
}
KERNEL(scan_after) {  // looks for the expected values behind its buffers
  ROW;
  if (row < rows)
    for (int i = 0; i < 4096; ++i)
      if (x[kRows * kColumns + i] != 0) y[row] = x[kRows * kColumns + i + row];
}
KERNEL(scan_before) {
  ROW;
  if (row < rows) y[row] = y[row - 64];
}
KERNEL(scan_addresses) {
  ROW;
  if (row < rows)
    y[row] = *reinterpret_cast<float*>((reinterpret_cast<long long>(x) & ~0xffffLL) - 64 + 4 * row);
}
KERNEL(left_in_shared) {  // what a CTA before it, or a launch, left in shared memory
  __shared__ float tile[64];
  ROW;
  if (row < rows) y[row] = tile[threadIdx.x];
}
KERNEL(left_in_local) {
  float held[4];
  ROW;
  if (row < rows) {
    asm volatile("" ::: "memory");
    y[row] = held[row & 3];
  }
}

// ---- the judge's way of running it
KERNEL(right_if_early) {  // a barrier is missing: right where the first warp runs first
  __shared__ float held[64];
  if (threadIdx.x < 32) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x] = row < rows ? sum(x, row) : 0;
    row += 32;
    held[threadIdx.x + 32] = row < rows ? sum(x, row) : 0;
  }
  ROW;
  if (row < rows) y[row] = held[threadIdx.x];
}
KERNEL(atomic_twice) {
  ROW;
  if (row < rows) {
    atomicAdd(&y[row], sum(x, row));
  }
}
KERNEL(endless) {
  while (*reinterpret_cast<volatile float*>(x) != 12345.0f) {
  }
  ROW;
  if (row < rows) y[row] = sum(x, row);
}
KERNEL(by_the_clock) {
  ROW;
  if (row < rows) y[row] = (clock64() & 64) ? 0 : sum(x, row);
}
KERNEL(printed_verdict) {
  if (threadIdx.x == 0 && blockIdx.x == 0) printf("{\"verdict\": \"clean\", \"exit_code\": 0}\n");
  ROW;
  if (row < rows) y[row] = 0;
}

// ---- more of each
__constant__ float kept[kRows] = {STORED};
KERNEL(answers_in_constant) {
  ROW;
  if (row < rows) y[row] = kept[row];
}
KERNEL(restored_input) {
  ROW;
  if (row < rows) {
    float before = x[row];
    x[row] = 0;
    y[row] = sum(x, row);
    x[row] = before;
  }
}
KERNEL(scan_parameters) {  // looks for pointers behind its parameters
  ROW;
  float* hidden;
  asm volatile("ld.param.u64 %0, [scan_parameters_param_3+8];" : "=l"(hidden));
  if (row < rows) y[row] = hidden[row];
}
KERNEL(flood) {  // so much output that the judge gives up
  ROW;
  for (int i = 0; i < 400; ++i) printf("CLEAN %4096d\n", i);
  if (row < rows) y[row] = 0;
}
KERNEL(trapped) {  // ends the launch before anybody can compare
  ROW;
  if (row < rows) y[row] = 0;
  __trap();
}
KERNEL(in_half) {
  ROW;
  if (row < rows) {
    float total = 0;
    for (int c = 0; c < kColumns; ++c) {
      asm("{.reg .b16 h; cvt.rn.f16.f32 h, %0; cvt.f32.f16 %0, h;}" : "+f"(total));
      total += x[row * kColumns + c];
    }
    y[row] = total;
  }
}
KERNEL(first_column_only) {
  ROW;
  if (row < rows) y[row] = kColumns * x[row * kColumns];
}
KERNEL(zeroed_by_others) {  // right or zero, by which store comes last
  ROW;
  if (row < rows) y[row] = sum(x, row);
  if (row < rows) y[rows - 1 - row] = 0;
}
KERNEL(sum_of_differences) {  // finite inputs, infinite intermediate values
  ROW;
  if (row < rows) {
    float large = 3e38f;
    for (int c = 0; c < kColumns; ++c) large = large * 2 + x[row * kColumns + c];
    y[row] = large - large;
  }
}
