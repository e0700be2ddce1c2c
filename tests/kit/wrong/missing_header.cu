// A header that is on no include path.
#ifndef RIGHT
#include <kernels/helpers_of_another_project.h>
#endif

namespace wrong {

__global__ void missing_header() {}

}  // namespace wrong
