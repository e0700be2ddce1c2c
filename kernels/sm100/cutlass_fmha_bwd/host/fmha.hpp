// In the place of the example's own `device` header, which launches a kernel: this one reports what it
// would launch.
#pragma once

#include "cutlass/cutlass.h"

template <class Kernel>
void tileproof_launched(typename Kernel::Params const& params);

namespace cutlass::fmha::device {

template <class Kernel_>
class FMHA {
 public:
  using Kernel = Kernel_;
  using Arguments = typename Kernel::Arguments;
  using Params = typename Kernel::Params;

  static Status can_implement(Arguments const& arguments) {
    return Kernel::can_implement(arguments) ? Status::kSuccess : Status::kInvalid;
  }

  Status initialize(Arguments const& arguments, void* workspace, cudaStream_t stream) {
    Status status = Kernel::initialize_workspace(arguments, workspace, stream);
    if (status == Status::kSuccess) params_ = Kernel::to_underlying_arguments(arguments, workspace);
    return status;
  }

  Status run(cudaStream_t) {
    tileproof_launched<Kernel>(params_);
    return Status::kSuccess;
  }

 private:
  Params params_{};
};

}  // namespace cutlass::fmha::device
