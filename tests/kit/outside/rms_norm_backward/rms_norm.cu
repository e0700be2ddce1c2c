// RMS-norm backward: a warp has 32 rows, one per lane, and walks the columns twice.
//
//   rstd = rsqrt(mean(x^2) + eps), mean = sum(dy w x) / columns
//   dx = dy w rstd - x rstd^3 mean; dw of the warp's rows = sum over rows of dy x rstd

extern "C" __global__ void __launch_bounds__(32) TILEPROOF_ENTRY(
    const float* x, const float* dy, const float* w, float* rstd, float* mean, float* dx, float* dw,
    int columns, float eps) {
  const int row = blockIdx.x * 32 + threadIdx.x;
  const float* own_x = x + row * columns;
  const float* own_dy = dy + row * columns;
  float squares = 0.0f, dot = 0.0f;
  for (int k = 0; k < columns; ++k) {
    squares += own_x[k] * own_x[k];
    dot += own_dy[k] * w[k] * own_x[k];
  }
  const float r = rsqrtf(squares / columns + eps);
  const float m = dot / columns;
  rstd[row] = r;
  mean[row] = m;
  for (int k = 0; k < columns; ++k) {
    dx[row * columns + k] = own_dy[k] * w[k] * r - own_x[k] * (r * r * r * m);
    float sum = own_dy[k] * (own_x[k] * r);
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
    if (threadIdx.x == 0) dw[blockIdx.x * columns + k] = sum;
  }
}
