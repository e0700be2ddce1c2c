// Sparse MLA backward on a stream, from C99 or C++: needs cuda.h and libcuda only.
//
//   tileproof_library library;                      // of the current context
//   tileproof_open(&library, "folder");             // that `tileproof build --cubins folder` wrote
//   tileproof_mla_backward(&library, &call, stream);
//   tileproof_close(&library);
//
// Nothing here waits for the device. The first call of a size loads its kernel, so it has to come before the
// capture of a CUDA graph. A library is used by one thread at a time.
#ifndef TILEPROOF_LAUNCH_H
#define TILEPROOF_LAUNCH_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  TILEPROOF_OK = 0,
  TILEPROOF_ARGUMENT,     // an argument that cannot be right
  TILEPROOF_UNSUPPORTED,  // sizes that no kernel of the folder computes
  TILEPROOF_DRIVER        // a call of the driver failed
} tileproof_status;

// Tables of the manifest: an extent is ceil(factor * product of sizes / per), size 0 is 1.
typedef struct {
  uint32_t factor, per;
  uint8_t names[2];
} tileproof_extent;

enum { TILEPROOF_POINTER, TILEPROOF_MAP, TILEPROOF_S32, TILEPROOF_S64, TILEPROOF_F32 };

typedef struct {
  uint16_t offset;  // in its parameter
  uint8_t kind, name;
  tileproof_extent shape[2];                 // of a map, innermost dimension first
  uint16_t box[2], swizzle, row_bytes, f16;  // elements: f16, else bf16
} tileproof_value;

typedef struct {
  uint16_t bytes, values;
} tileproof_parameter;

typedef struct {
  const char *entry, *image;
  uint8_t size_name[4];  // the sizes that it is made for; 0: none
  uint32_t size[4];
  tileproof_extent grid;
  uint32_t cluster, threads, shared_bytes;
  uint16_t programmatic;  // it waits itself for the launch before it
  uint16_t parameters;
  const tileproof_parameter* parameter;
  const tileproof_value* value;  // of all parameters in order
} tileproof_entry;

#include "tileproof_kernels.inc"

enum { TILEPROOF_MAPS = 64, TILEPROOF_PARAMETERS = 4, TILEPROOF_BYTES = 1024 };

typedef struct {  // an encoded tensor map and what it was encoded from
  CUtensorMap map;
  CUdeviceptr address;
  const tileproof_value* value;
  cuuint64_t shape[2];
} tileproof_cached_map;

typedef struct {
  char folder[1024];
  char message[256];  // of the last call that was not TILEPROOF_OK
  CUlibrary library[TILEPROOF_ENTRIES];
  CUfunction function[TILEPROOF_ENTRIES];
  tileproof_cached_map map[TILEPROOF_MAPS];
  unsigned maps;  // encoded so far
} tileproof_library;

// Addresses are of device memory and aligned to 16 bytes. `indices` outside [0, s_kv) are no keys.
typedef struct {
  CUdeviceptr q;            // bf16 or f16 [s_q, h_q, d_qk]
  CUdeviceptr kv;           // as q [s_kv, d_qk]
  CUdeviceptr o, dO;        // as q [s_q, h_q, 512]
  CUdeviceptr lse;          // f32 [s_q, h_q], base 2, with the sink in it
  CUdeviceptr indices;      // s32 [s_q, topk]
  CUdeviceptr topk_length;  // s32 [s_q], or 0
  CUdeviceptr sink;         // f32 [h_q], natural units, or 0
  CUdeviceptr delta;        // f32 [s_q, h_q], written
  CUdeviceptr dq;           // as q [s_q, h_q, d_qk], written
  CUdeviceptr dkv_f32;      // f32 [s_kv, d_qk], written
  CUdeviceptr dkv;          // 16 bits [s_kv, d_qk], written, or 0
  CUdeviceptr d_sink;       // f32 [h_q], written where there is a sink
  int s_q, s_kv, h_q, d_qk, topk;
  int is_f16;      // q, kv, o, dO and dq are f16, else bf16
  int dkv_is_f16;  // else bf16
  float sm_scale;
} tileproof_mla_call;

static inline tileproof_status tileproof_fail(tileproof_library* library, tileproof_status status,
                                              const char* what, const char* found) {
  snprintf(library->message, sizeof library->message, "%s: %s", what, found);
  return status;
}

static inline tileproof_status tileproof_driver(tileproof_library* library, const char* call, CUresult code) {
  const char* name = NULL;
  cuGetErrorName(code, &name);
  return tileproof_fail(library, TILEPROOF_DRIVER, call, name ? name : "unknown error");
}

static inline tileproof_status tileproof_open(tileproof_library* library, const char* folder) {
  memset(library, 0, sizeof *library);
  if (strlen(folder) >= sizeof library->folder)
    return tileproof_fail(library, TILEPROOF_ARGUMENT, "folder", "too long");
  strcpy(library->folder, folder);
  return TILEPROOF_OK;
}

static inline void tileproof_close(tileproof_library* library) {
  for (int i = 0; i < TILEPROOF_ENTRIES; ++i) {
    if (library->library[i]) cuLibraryUnload(library->library[i]);
  }
  memset(library, 0, sizeof *library);
}

static inline tileproof_status tileproof_load(tileproof_library* library, int entry) {
  const tileproof_entry* one = &tileproof_entries[entry];
  char path[1024 + 256];
  CUkernel kernel;
  CUresult code;
  if (library->function[entry]) return TILEPROOF_OK;
  snprintf(path, sizeof path, "%s/%s", library->folder, one->image);
  code = cuLibraryLoadFromFile(&library->library[entry], path, NULL, NULL, 0, NULL, NULL, 0);
  if (code) return tileproof_driver(library, path, code);
  code = cuLibraryGetKernel(&kernel, library->library[entry], one->entry);
  if (code) return tileproof_driver(library, "cuLibraryGetKernel", code);
  code = cuKernelGetFunction(&library->function[entry], kernel);
  if (code) return tileproof_driver(library, "cuKernelGetFunction", code);
  code = cuFuncSetAttribute(library->function[entry], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                            (int)one->shared_bytes);
  if (code) library->function[entry] = NULL;
  return code ? tileproof_driver(library, "cuFuncSetAttribute", code) : TILEPROOF_OK;
}

static inline uint64_t tileproof_size(const tileproof_extent* extent, const uint64_t* sizes) {
  const uint64_t product = extent->factor * sizes[extent->names[0]] * sizes[extent->names[1]];
  return (product + extent->per - 1) / extent->per;
}

static inline CUresult tileproof_encode(tileproof_library* library, const tileproof_value* value,
                                        const uint64_t* sizes, unsigned char* out) {
  const CUdeviceptr address = sizes[value->name];
  const cuuint64_t shape[2] = {tileproof_size(&value->shape[0], sizes),
                               tileproof_size(&value->shape[1], sizes)};
  const cuuint64_t stride[1] = {value->row_bytes};
  const cuuint32_t box[2] = {value->box[0], value->box[1]}, step[2] = {1, 1};
  const CUtensorMapSwizzle swizzle =
      value->swizzle == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
  tileproof_cached_map* slot;
  CUresult code;
  for (unsigned i = 0; i < library->maps && i < TILEPROOF_MAPS; ++i) {
    slot = &library->map[i];
    if (slot->value == value && slot->address == address && slot->shape[0] == shape[0] &&
        slot->shape[1] == shape[1]) {
      memcpy(out, &slot->map, sizeof slot->map);
      return CUDA_SUCCESS;
    }
  }
  slot = &library->map[library->maps % TILEPROOF_MAPS];
  slot->value = NULL;
  code = cuTensorMapEncodeTiled(
      &slot->map, value->f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
      (void*)(uintptr_t)address, shape, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code) return code;
  slot->value = value;
  slot->address = address;
  slot->shape[0] = shape[0];
  slot->shape[1] = shape[1];
  ++library->maps;
  memcpy(out, &slot->map, sizeof slot->map);
  return CUDA_SUCCESS;
}

// Launches an entry; `sizes` has every address and number by name, f32 as its bits.
static inline tileproof_status tileproof_start(tileproof_library* library, int entry, const uint64_t* sizes,
                                               CUstream stream) {
  const tileproof_entry* one = &tileproof_entries[entry];
  const tileproof_value* value = one->value;
  union {
    unsigned char bytes[TILEPROOF_BYTES];
    CUtensorMap aligned;
  } packed;
  void* parameters[TILEPROOF_PARAMETERS];
  unsigned char* at = packed.bytes;
  CUlaunchAttribute attribute[2];
  CUlaunchConfig config;
  CUresult code;
  const tileproof_status status = tileproof_load(library, entry);
  if (status) return status;
  for (int i = 0; i < one->parameters; ++i) {
    memset(at, 0, one->parameter[i].bytes);
    for (int left = one->parameter[i].values; left > 0; --left, ++value) {
      if (value->kind == TILEPROOF_MAP) {
        code = tileproof_encode(library, value, sizes, at + value->offset);
        if (code) return tileproof_driver(library, "cuTensorMapEncodeTiled", code);
      } else {  // little-endian
        const int wide = value->kind == TILEPROOF_POINTER || value->kind == TILEPROOF_S64;
        memcpy(at + value->offset, &sizes[value->name], wide ? 8 : 4);
      }
    }
    parameters[i] = at;
    at += (one->parameter[i].bytes + 7) / 8 * 8;
  }
  memset(&config, 0, sizeof config);
  memset(attribute, 0, sizeof attribute);
  config.gridDimX = (unsigned)tileproof_size(&one->grid, sizes);
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = one->threads;
  config.sharedMemBytes = one->shared_bytes;
  config.hStream = stream;
  config.attrs = attribute;
  if (one->cluster > 1) {
    CUlaunchAttribute* next = &attribute[config.numAttrs++];
    next->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    next->value.clusterDim.x = one->cluster;
    next->value.clusterDim.y = next->value.clusterDim.z = 1;
  }
  if (one->programmatic) {
    CUlaunchAttribute* next = &attribute[config.numAttrs++];
    next->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    next->value.programmaticStreamSerializationAllowed = 1;
  }
  code = cuLaunchKernelEx(&config, library->function[entry], parameters, NULL);
  return code ? tileproof_driver(library, one->entry, code) : TILEPROOF_OK;
}

static inline int tileproof_named(const char* entry) {
  for (int i = 0; i < TILEPROOF_ENTRIES; ++i) {
    if (strcmp(entry, tileproof_entries[i].entry) == 0) return i;
  }
  return -1;
}

static inline int tileproof_made_for(const tileproof_entry* one, int name, int value) {
  for (int i = 0; i < 4; ++i) {
    if (one->size_name[i] == name) return one->size[i] == (uint32_t)value;
  }
  return 0;
}

static inline int tileproof_backward_of(int h_q, int d_qk, int f16) {
  for (int i = 0; i < TILEPROOF_ENTRIES; ++i) {
    const tileproof_entry* one = &tileproof_entries[i];
    if (tileproof_made_for(one, TILEPROOF_N_h_q, h_q) && tileproof_made_for(one, TILEPROOF_N_d_qk, d_qk) &&
        tileproof_made_for(one, TILEPROOF_N_f16, 1) == (f16 != 0))
      return i;
  }
  return -1;
}

static inline tileproof_status tileproof_number(tileproof_library* library, tileproof_status status,
                                                const char* name, const char* expected, double found) {
  char text[128];
  snprintf(text, sizeof text, "expected %s, found %.10g", expected, found);
  return tileproof_fail(library, status, name, text);
}

static inline tileproof_status tileproof_check_sizes(tileproof_library* library,
                                                     const tileproof_mla_call* call) {
  const char* names[] = {"s_q", "s_kv", "topk", "h_q"};
  const int sizes[] = {call->s_q, call->s_kv, call->topk, call->h_q};
  for (int i = 0; i < 4; ++i) {
    if (sizes[i] <= 0)
      return tileproof_number(library, TILEPROOF_ARGUMENT, names[i], "a positive number", sizes[i]);
  }
  if ((int64_t)call->s_q * call->h_q > INT32_MAX)
    return tileproof_number(library, TILEPROOF_ARGUMENT, "s_q * h_q", "at most 2147483647",
                            (double)call->s_q * call->h_q);
  if (!(call->sm_scale > 0 && call->sm_scale < 3.4e38f))
    return tileproof_number(library, TILEPROOF_ARGUMENT, "sm_scale", "a finite number above 0",
                            call->sm_scale);
  if (call->topk % 64)
    return tileproof_number(library, TILEPROOF_UNSUPPORTED, "topk", "a multiple of 64", call->topk);
  if (tileproof_backward_of(call->h_q, call->d_qk, call->is_f16) < 0)
    return tileproof_fail(library, TILEPROOF_UNSUPPORTED, "h_q, d_qk and is_f16", "no kernel in the folder");
  return TILEPROOF_OK;
}

typedef struct {
  const char* name;
  CUdeviceptr address;
  uint64_t bytes;
  int needed;
} tileproof_buffer;

static inline tileproof_status tileproof_check(tileproof_library* library, const tileproof_mla_call* call) {
  enum { READ = 8, ALL = 13 };
  const uint64_t tokens = (uint64_t)call->s_q, heads = (uint64_t)call->h_q, d_qk = (uint64_t)call->d_qk;
  const uint64_t rows = tokens * heads, keys = (uint64_t)call->s_kv * d_qk;
  const int sink = call->sink != 0;
  const tileproof_buffer buffers[ALL] = {
      {"q", call->q, 2 * rows * d_qk, 1},
      {"kv", call->kv, 2 * keys, 1},
      {"o", call->o, 2 * rows * 512, 1},
      {"dO", call->dO, 2 * rows * 512, 1},
      {"lse", call->lse, 4 * rows, 1},
      {"indices", call->indices, 4 * tokens * (uint64_t)call->topk, 1},
      {"topk_length", call->topk_length, 4 * tokens, 0},
      {"sink", call->sink, 4 * heads, 0},
      {"delta", call->delta, 4 * rows, 1},
      {"dq", call->dq, 2 * rows * d_qk, 1},
      {"dkv_f32", call->dkv_f32, 4 * keys, 1},
      {"dkv", call->dkv, 2 * keys, 0},
      {"d_sink", sink ? call->d_sink : 0, 4 * heads, sink},
  };
  char found[64];
  const tileproof_status status = tileproof_check_sizes(library, call);
  if (status) return status;
  for (int i = 0; i < ALL; ++i) {
    const tileproof_buffer* one = &buffers[i];
    if (one->needed && !one->address)
      return tileproof_fail(library, TILEPROOF_ARGUMENT, one->name, "expected an address, found 0");
    if (one->address % 16) {
      snprintf(found, sizeof found, "expected a multiple of 16, found %#llx", one->address);
      return tileproof_fail(library, TILEPROOF_ARGUMENT, one->name, found);
    }
    for (int j = 0; i >= READ && one->address && j < i; ++j) {  // what is written
      const tileproof_buffer* other = &buffers[j];
      if (!other->address || one->address >= other->address + other->bytes ||
          other->address >= one->address + one->bytes)
        continue;
      snprintf(found, sizeof found, "expected memory of its own, found %s in it", other->name);
      return tileproof_fail(library, TILEPROOF_ARGUMENT, one->name, found);
    }
  }
  return TILEPROOF_OK;
}

static inline uint64_t tileproof_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

// Clears dkv_f32, runs the backward (which computes delta), and converts dkv and computes d_sink where they
// are asked for: up to four launches on `stream`. The first begins when all earlier work of the stream has
// ended; each of the others waits on the device for the launch before it.
static inline tileproof_status tileproof_mla_backward(tileproof_library* library,
                                                      const tileproof_mla_call* call, CUstream stream) {
  uint64_t v[TILEPROOF_NAMES] = {1};  // size 0 is 1
  tileproof_status status = tileproof_check(library, call);
  if (status) return status;
  v[TILEPROOF_N_q] = call->q;
  v[TILEPROOF_N_kv] = call->kv;
  v[TILEPROOF_N_o] = call->o;
  v[TILEPROOF_N_dO] = call->dO;
  v[TILEPROOF_N_lse] = call->lse;
  v[TILEPROOF_N_indices] = call->indices;
  v[TILEPROOF_N_topk_length] = call->topk_length;
  v[TILEPROOF_N_delta] = call->delta;
  v[TILEPROOF_N_dQ] = call->dq;
  v[TILEPROOF_N_dKV] = v[TILEPROOF_N_values] = v[TILEPROOF_N_wide] = call->dkv_f32;
  v[TILEPROOF_N_narrow] = call->dkv;
  v[TILEPROOF_N_sink] = call->sink;
  v[TILEPROOF_N_d_sink] = call->d_sink;
  v[TILEPROOF_N_s_q] = (uint64_t)call->s_q;
  v[TILEPROOF_N_s_kv] = (uint64_t)call->s_kv;
  v[TILEPROOF_N_h_q] = (uint64_t)call->h_q;
  v[TILEPROOF_N_topk] = (uint64_t)call->topk;
  v[TILEPROOF_N_count] = (uint64_t)call->s_kv * (uint64_t)call->d_qk;
  v[TILEPROOF_N_sm_scale] = tileproof_bits(call->sm_scale);
  v[TILEPROOF_N_sm_scale_log2e] = tileproof_bits((float)(call->sm_scale * 1.4426950408889634));
  status = tileproof_start(library, tileproof_named("tileproof_mla_clear"), v, stream);
  if (!status)
    status = tileproof_start(library, tileproof_backward_of(call->h_q, call->d_qk, call->is_f16), v, stream);
  if (!status && call->dkv) {
    const char* convert = call->dkv_is_f16 ? "tileproof_mla_f16" : "tileproof_mla_bf16";
    status = tileproof_start(library, tileproof_named(convert), v, stream);
  }
  if (!status && call->sink)
    status = tileproof_start(library, tileproof_named("tileproof_mla_d_sink"), v, stream);
  return status;
}

#ifdef __cplusplus
}
#endif

#endif  // TILEPROOF_LAUNCH_H
