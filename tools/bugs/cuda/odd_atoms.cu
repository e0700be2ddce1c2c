// A tile of 16 rows and 24 columns in atoms of 8; odd rows exchange the atoms of a pair.
extern "C" __global__ void k(float* out, const float* x) {
    __shared__ float tile[16 * 24 + 8];
    const int atoms = 3;
    int row = threadIdx.x / 8, c = threadIdx.x % 8;
    for (int a = 0; a < atoms; ++a) {
        int at = a ^ (row & 1);
#ifndef WRONG
        if (at >= atoms) at = a;  // the last atom has no partner
#endif
        tile[row * 24 + at * 8 + c] = x[row * 24 + a * 8 + c];
    }
    __syncthreads();
    for (int a = 0; a < atoms; ++a) {
        int at = a ^ (row & 1);
#ifndef WRONG
        if (at >= atoms) at = a;
#endif
        out[row * 24 + a * 8 + c] = tile[row * 24 + at * 8 + c];
    }
}
