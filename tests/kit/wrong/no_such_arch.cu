// A target that does not exist.
namespace wrong {

__global__ void no_such_arch() {}

}  // namespace wrong
