// Log-sum-exp (base 2) of masked scores, two keys at a time.
extern "C" __global__ void k(float* out, const float* s) {
    const float* row = s + threadIdx.x * 8;
    float m = -INFINITY, sum = 0;
    for (int j = 0; j < 8; j += 2) {
        float most = fmaxf(m, fmaxf(row[j], row[j + 1]));
#ifdef WRONG
        float base = most;
#else
        float base = most == -INFINITY ? 0 : most;  // nothing is unmasked yet
#endif
        sum = sum * exp2f(m - base) + exp2f(row[j] - base) + exp2f(row[j + 1] - base);
        m = most;
    }
    out[threadIdx.x] = m + log2f(sum);
}
