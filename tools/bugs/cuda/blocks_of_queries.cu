// 45 keys in blocks of 16, padded with zeros to 48; queries are in blocks of 32.
extern "C" __global__ void k(float* out, const float* q, const float* key) {
#ifdef WRONG
    const int block = 32;  // of the queries
#else
    const int block = 16;
#endif
    const int keys = (45 + block - 1) / block * block;
    float sum = 0;
    for (int j = 0; j < keys; ++j) sum += q[threadIdx.x] * key[j];
    out[threadIdx.x] = sum;
}
