// What random kernels share: bits of every type, PTX instructions without an intrinsic, atomics of own words.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

template <class To, class From>
__device__ __forceinline__ To pun(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
template <class T>
__device__ __forceinline__ T load(unsigned long long word) {
  if constexpr (sizeof(T) == 8) return pun<T>(word);
  if constexpr (sizeof(T) == 4) return pun<T>(static_cast<unsigned>(word));
  if constexpr (sizeof(T) == 2) return pun<T>(static_cast<unsigned short>(word));
  if constexpr (sizeof(T) == 1) return word & 1;
}
template <class T>
__device__ __forceinline__ unsigned long long bits(T value) {
  if constexpr (sizeof(T) == 8) return pun<unsigned long long>(value);
  if constexpr (sizeof(T) == 4) return pun<unsigned>(value);
  if constexpr (sizeof(T) == 2) return pun<unsigned short>(value);
  if constexpr (sizeof(T) == 1) return value;
}

// A value that is a constant to ptxas alone.
template <class T>
__device__ __forceinline__ T hidden(unsigned long long word) {
  if constexpr (sizeof(T) == 8) {
    unsigned long long d;
    asm("mov.b64 %0, %1;" : "=l"(d) : "l"(word));
    return load<T>(d);
  } else {
    unsigned d;
    asm("mov.b32 %0, %1;" : "=r"(d) : "r"(static_cast<unsigned>(word)));
    return load<T>(d);
  }
}

#define ASM(T, to, from, op, list, ...)              \
  ({                                                 \
    T d_;                                            \
    asm(op " %0, " list ";" : to(d_) : __VA_ARGS__); \
    d_;                                              \
  })
#define asm1(op, a) ASM(unsigned, "=r", "r", op, "%1", "r"(unsigned(a)))
#define asm2(op, a, b) ASM(unsigned, "=r", "r", op, "%1, %2", "r"(unsigned(a)), "r"(unsigned(b)))
#define asm3(op, a, b, c) \
  ASM(unsigned, "=r", "r", op, "%1, %2, %3", "r"(unsigned(a)), "r"(unsigned(b)), "r"(unsigned(c)))
#define asm4(op, a, b, c, d)                                                                           \
  ASM(unsigned, "=r", "r", op, "%1, %2, %3, %4", "r"(unsigned(a)), "r"(unsigned(b)), "r"(unsigned(c)), \
      "r"(unsigned(d)))
#define lop3(a, b, c)                                                                          \
  ASM(unsigned, "=r", "r", "lop3.b32", "%1, %2, %3, 0x6a", "r"(unsigned(a)), "r"(unsigned(b)), \
      "r"(unsigned(c)))
#define asm1h(op, a) ASM(unsigned short, "=h", "h", op, "%1", "h"((unsigned short)(a)))
#define asm2h(op, a, b) \
  ASM(unsigned short, "=h", "h", op, "%1, %2", "h"((unsigned short)(a)), "h"((unsigned short)(b)))
#define wide16(op, a, b) \
  ASM(unsigned, "=r", "h", op, "%1, %2", "h"((unsigned short)(a)), "h"((unsigned short)(b)))
#define asm1f(op, a) ASM(float, "=f", "f", op, "%1", "f"(a))
#define asm1fu(op, a) ASM(unsigned, "=r", "f", op, "%1", "f"(a))
#define asm2f(op, a, b) ASM(float, "=f", "f", op, "%1, %2", "f"(a), "f"(b))
#define asm3f(op, a, b, c) ASM(float, "=f", "f", op, "%1, %2, %3", "f"(a), "f"(b), "f"(c))
#define asm2fu(op, a, b) ASM(unsigned, "=r", "f", op, "%1, %2", "f"(a), "f"(b))

__device__ __forceinline__ float2 pair(float a, float b) { return make_float2(a, b); }
__device__ __forceinline__ __half_raw raw(__half a) { return a; }
__device__ __forceinline__ __half2_raw raw(__half2 a) { return a; }
__device__ __forceinline__ __nv_bfloat16_raw raw(__nv_bfloat16 a) { return a; }
__device__ __forceinline__ __nv_bfloat162_raw raw(__nv_bfloat162 a) { return a; }

// An atomic on a word that no other thread uses: what it returned, mixed with what it left.
template <class T, class F>
__device__ __forceinline__ T own(void* place, T first, F operation) {
  T* word = static_cast<T*>(place);
  *word = first;
  const T old = operation(word);
  const T left = *word;
  const auto a = bits(old), b = bits(left);
  return load<T>(a ^ (b << 1));
}

// The word is the CTA's; the order of its threads does not matter.
#define ALL(name, operation, first)                          \
  __device__ __forceinline__ unsigned name(unsigned value) { \
    __shared__ unsigned word;                                \
    if (threadIdx.x == 0) word = first;                      \
    __syncthreads();                                         \
    operation(&word, value);                                 \
    __syncthreads();                                         \
    const unsigned all = word;                               \
    __syncthreads();                                         \
    return all;                                              \
  }
ALL(all_add, atomicAdd, 7u)
ALL(all_min, atomicMin, ~0u)
ALL(all_max, atomicMax, 0u)
ALL(all_and, atomicAnd, ~0u)
ALL(all_or, atomicOr, 0u)
ALL(all_xor, atomicXor, 5u)

__device__ __forceinline__ unsigned divergent_sum(bool here, unsigned value) {
  const unsigned lanes = __ballot_sync(~0u, here);
  unsigned sum = value;
  if (here) sum = __reduce_add_sync(lanes, value);
  __syncwarp();
  return sum;
}
__device__ __forceinline__ unsigned divergent_ballot(bool here, bool value) {
  const unsigned lanes = __ballot_sync(~0u, here);
  unsigned votes = 0;
  if (here) votes = __ballot_sync(lanes, value);
  __syncwarp();
  return votes;
}
