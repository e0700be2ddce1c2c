// One entry of head64. The build defines TILEPROOF_ENTRY (its name) and TILEPROOF_PROBE (0 or 1),
// and puts the generated plan, which fixes d_qk, on the include path.
#include "sm100/head64/kernel.cuh"
#include "tileproof_plan.h"

extern "C" __global__ void __cluster_dims__(tileproof::Plan::cluster, 1, 1)
    __launch_bounds__(tileproof::Plan::threads, 1)
        TILEPROOF_ENTRY(const __grid_constant__ tileproof::head64::Params params) {
  using Kernel = tileproof::head64::Kernel<tileproof::Plan, TILEPROOF_PROBE != 0>;
  extern __shared__ __align__(1024) unsigned char shared[];
  Kernel(params, *reinterpret_cast<typename Kernel::Storage*>(shared)).run();
}
