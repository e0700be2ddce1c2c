// Two blocks add their parts to out[1] under the lock out[0].
extern "C" __global__ void k(int* out, const int* parts) {
    if (threadIdx.x) return;
    while (*(volatile int*)out || atomicCAS(&out[0], 0, 1)) {
    }
    __threadfence();
    int part = parts[blockIdx.x];
#ifdef WRONG
    if (part == 0) return;  // and the lock stays taken
#endif
    if (part != 0) out[1] += part;
    __threadfence();
    atomicExch(&out[0], 0);
}
