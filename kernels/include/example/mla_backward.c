// Runs the sparse MLA backward on inputs from files, with the driver API alone:
//   mla_backward KERNELS DATA s_q s_kv h_q d_qk topk sm_scale [sink] [f16]
// KERNELS is the folder that `tileproof build --cubins` wrote. DATA has q, kv, o, dO, lse, indices (and sink)
// as raw bytes, NAME.bin; delta, dq, dkv_f32, dkv (and d_sink) are written beside them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tileproof_launch.h"

static void check(CUresult code, const char* what) {
  const char* name = "unknown error";
  if (code == CUDA_SUCCESS) return;
  cuGetErrorName(code, &name);
  fprintf(stderr, "%s: %s\n", what, name);
  exit(2);
}

static FILE* open_file(const char* folder, const char* name, const char* mode) {
  char path[1024];
  FILE* file;
  snprintf(path, sizeof path, "%s/%s.bin", folder, name);
  file = fopen(path, mode);
  if (!file) {
    perror(path);
    exit(2);
  }
  return file;
}

static CUdeviceptr input(const char* folder, const char* name, size_t bytes, CUstream stream) {
  CUdeviceptr address;
  void* host = malloc(bytes);
  FILE* file = open_file(folder, name, "rb");
  if (!host || fread(host, 1, bytes, file) != bytes) {
    fprintf(stderr, "%s: fewer than %zu bytes\n", name, bytes);
    exit(2);
  }
  fclose(file);
  check(cuMemAlloc(&address, bytes), "cuMemAlloc");
  check(cuMemcpyHtoDAsync(address, host, bytes, stream), "cuMemcpyHtoDAsync");
  check(cuStreamSynchronize(stream), "cuStreamSynchronize");
  free(host);
  return address;
}

static CUdeviceptr output(size_t bytes) {
  CUdeviceptr address;
  check(cuMemAlloc(&address, bytes), "cuMemAlloc");
  return address;
}

static void save(const char* folder, const char* name, CUdeviceptr address, size_t bytes, CUstream stream) {
  void* host = malloc(bytes);
  FILE* file = open_file(folder, name, "wb");
  check(host ? cuMemcpyDtoHAsync(host, address, bytes, stream) : CUDA_ERROR_OUT_OF_MEMORY, name);
  check(cuStreamSynchronize(stream), "cuStreamSynchronize");
  if (fwrite(host, 1, bytes, file) != bytes || fclose(file)) exit(2);
  free(host);
}

int main(int count, char** words) {
  static tileproof_library library;
  tileproof_mla_call call;
  CUdevice device;
  CUcontext context;
  CUstream stream;
  if (count < 9) {
    fprintf(stderr, "mla_backward KERNELS DATA s_q s_kv h_q d_qk topk sm_scale [sink] [f16]\n");
    return 2;
  }
  const char* data = words[2];
  memset(&call, 0, sizeof call);
  call.s_q = atoi(words[3]);
  call.s_kv = atoi(words[4]);
  call.h_q = atoi(words[5]);
  call.d_qk = atoi(words[6]);
  call.topk = atoi(words[7]);
  call.sm_scale = strtof(words[8], NULL);
  const int sink = count > 9 && strcmp(words[9], "sink") == 0;
  call.is_f16 = call.dkv_is_f16 = count > 9 && strcmp(words[count - 1], "f16") == 0;
  const size_t rows = (size_t)call.s_q * call.h_q, dkv = (size_t)call.s_kv * call.d_qk;

  check(cuInit(0), "cuInit");
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");

  call.q = input(data, "q", 2 * rows * call.d_qk, stream);
  call.kv = input(data, "kv", 2 * dkv, stream);
  call.o = input(data, "o", 2 * rows * 512, stream);
  call.dO = input(data, "dO", 2 * rows * 512, stream);
  call.lse = input(data, "lse", 4 * rows, stream);
  call.indices = input(data, "indices", (size_t)4 * call.s_q * call.topk, stream);
  call.delta = output(4 * rows);
  call.dq = output(2 * rows * call.d_qk);
  call.dkv_f32 = output(4 * dkv);
  call.dkv = output(2 * dkv);
  if (sink) {
    call.sink = input(data, "sink", (size_t)4 * call.h_q, stream);
    call.d_sink = output((size_t)4 * call.h_q);
  }

  if (tileproof_open(&library, words[1]) || tileproof_mla_backward(&library, &call, stream)) {
    fprintf(stderr, "%s\n", library.message);
    return 1;
  }
  save(data, "delta", call.delta, 4 * rows, stream);
  save(data, "dq", call.dq, 2 * rows * call.d_qk, stream);
  save(data, "dkv_f32", call.dkv_f32, 4 * dkv, stream);
  save(data, "dkv", call.dkv, 2 * dkv, stream);
  if (sink) save(data, "d_sink", call.d_sink, (size_t)4 * call.h_q, stream);
  tileproof_close(&library);
  check(cuStreamDestroy(stream), "cuStreamDestroy");
  check(cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
  return 0;
}
