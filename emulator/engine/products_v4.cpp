// The tensor core's loops for x86-64-v4 (AVX-512): CMakeLists.txt sets the flags.
#define LEVEL v4
#define BYTES 64
#include "products_kernel.hpp"
