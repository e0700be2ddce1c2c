// What the host of a sparse MLA kernel passes by value: tensor maps, then the rest
// (kernels/sm100/backward.py).
#pragma once

#include <cstddef>
#include <cstdint>

#include "sm100/cute.cuh"

namespace tileproof {

// Each tensor map is read as boxes of rows x columns, 128B swizzle; the host chooses the boxes.
struct InputMaps {
  cute::TmaDescriptor q_map;   // [s_q * h_q, d_qk]
  cute::TmaDescriptor dO_map;  // [s_q * h_q, d_v]
  cute::TmaDescriptor kv_map;  // [s_kv, d_qk], boxes of one row for gather4, zero fill
};
static_assert(offsetof(InputMaps, dO_map) == 128);
static_assert(offsetof(InputMaps, kv_map) == 256);

struct BackwardMaps : InputMaps {
  cute::TmaDescriptor dQ_map;  // [s_q * h_q, d_qk]
};
static_assert(sizeof(BackwardMaps) == 512);

struct BackwardParams {
  const uint16_t* o;       // [s_q, h_q, d_v], elements of 16 bits
  const float* lse;        // [s_q, h_q], base 2
  const int* indices;      // [s_q, topk]
  const int* topk_length;  // [s_q], or null: topk everywhere
  float* delta;            // [s_q, h_q]
  float* dKV;              // [s_kv, d_qk], added to
  float* P;                // [s_q, h_q, topk] and so the next three, probe build only
  float* S;                // before its rounding to an operand, as dS
  float* dP;
  float* dS;
  int s_kv;
  int topk;
  float sm_scale;
  float sm_scale_log2e;  // sm_scale * log2(e)
};
static_assert(offsetof(BackwardParams, o) == 0);
static_assert(offsetof(BackwardParams, dKV) == 40);
static_assert(offsetof(BackwardParams, dS) == 72);
static_assert(offsetof(BackwardParams, sm_scale_log2e) == 92);

// The parameters of a kernel: `Maps`, a struct of tensor maps, then the rest. Bases without virtual functions
// follow each other in memory; CUtensorMap is 128 bytes, aligned 128 since CUDA 13.
template <class Maps, class Rest = BackwardParams>
struct Params : Maps, Rest {
  static_assert(sizeof(Maps) % 128 == 0);
};

}  // namespace tileproof
