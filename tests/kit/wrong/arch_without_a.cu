// tcgen05 compiled for sm_100, which has no tcgen05: sm_100a has.
#include <cstdint>

namespace wrong {

__global__ void arch_without_a(uint32_t* out) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(*out)
               : "memory");
}

}  // namespace wrong
