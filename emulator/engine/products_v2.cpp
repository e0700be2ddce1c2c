// The tensor core's loops for x86-64-v2, or any other processor: CMakeLists.txt sets the flags.
#define LEVEL v2
#define BYTES 16
#include "products_kernel.hpp"
