// D = alpha A B^T + bias [N], D in bf16: the product of kernel.cu with another epilogue.
#define TILEPROOF_BIAS 1
#include "sm90/gemm/kernel.cu"
