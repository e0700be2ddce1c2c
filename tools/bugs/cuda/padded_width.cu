// Rows of 40 columns, padded to 64 in shared memory, a warp each.
extern "C" __global__ void k(float* out, const float* x) {
    __shared__ float tile[8][64];
    int row = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int c = lane; c < 64; c += 32) tile[row][c] = c < 40 ? 2 * x[row * 40 + c] : 0;
    __syncwarp();
#ifdef WRONG
    const int columns = 64;  // the padded width
#else
    const int columns = 40;
#endif
    for (int c = lane; c < columns; c += 32) out[row * 40 + c] = tile[row][c];
}
