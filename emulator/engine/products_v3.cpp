// The tensor core's loops for x86-64-v3 (AVX2, FMA): CMakeLists.txt sets the flags.
#define LEVEL v3
#define BYTES 32
#include "products_kernel.hpp"
