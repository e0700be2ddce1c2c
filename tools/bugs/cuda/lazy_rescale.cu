// Online softmax with a lazy maximum: old terms are rescaled only if the maximum grows by more than 8.
extern "C" __global__ void k(float* out, const float* s, const float* v) {
    const float* row = s + threadIdx.x * 64;
    float m = row[0], sum = 0, acc = 0;
    for (int j = 0; j < 64; ++j) {
        if (row[j] > m + 8) {
            float scale = exp2f(m - row[j]);
            sum *= scale;
#ifndef WRONG
            acc *= scale;
#endif
            m = row[j];
        }
        float p = exp2f(row[j] - m);
        sum += p;
        acc += p * v[j];
    }
    out[threadIdx.x] = acc / sum;
}
