// A constexpr host function in device code, compiled without --expt-relaxed-constexpr.
#include <algorithm>

namespace wrong {

constexpr int round_up(int value, int to) { return (value + to - 1) / to * to; }

__global__ void constexpr_host(int* out, int n) { *out = round_up(n, 64); }

}  // namespace wrong
