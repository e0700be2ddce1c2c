// Virtual functions and a table of function pointers, different in each lane.
#include "check.h"

struct Base {
  __device__ virtual int f(int x) const = 0;
  __device__ virtual ~Base() {}
};
struct A : Base {
  int k;
  __device__ A(int k) : k(k) {}
  __device__ int f(int x) const override { return x + k; }
};
struct B : Base {
  int k;
  __device__ B(int k) : k(k) {}
  __device__ int f(int x) const override { return x * k; }
};
typedef int (*Fn)(int);
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int thrice(int x) { return 3 * x; }
__device__ Fn table[2] = {twice, thrice};
__global__ void run(int* out, int n) {
  A a(5);
  B b(7);
  const Base* which[2] = {&a, &b};
  int i = threadIdx.x;
  const Base* p = which[(i + n) % 2];
  out[i] = p->f(i) + table[(i / 2 + n) % 2](i);
}
int main() {
  int *device, got[32];
  cudaMalloc(&device, sizeof(got));
  run<<<1, 32>>>(device, 4);
  cudaMemcpy(got, device, sizeof(got), cudaMemcpyDeviceToHost);
  bool right = true;
  for (int i = 0; i < 32; ++i) right &= got[i] == (i % 2 ? i * 7 : i + 5) + (i / 2 % 2 ? 3 * i : 2 * i);
  check("virtual functions and pointers", right);
  return failures();
}
