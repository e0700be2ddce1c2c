// tcgen05.mma kind::f16: descriptors, operand fetch, data-path layouts, and the two product modes.
#pragma once

#include <array>
#include <cstdint>

#include "machine.hpp"
#include "mma_rules.hpp"

namespace tileproof {

// Instruction descriptor fields (PTX ISA table 42).
struct InstructionDescriptor {
  int m, n;
  int a_type, b_type, d_type;  // 0 f16, 1 bf16; d: 0 f16, 1 f32
  bool a_mn_major, b_mn_major, negate_a, negate_b, sparse;
};
InstructionDescriptor decode_idesc(uint32_t v);

// Shared-memory matrix descriptor fields (PTX ISA table 40), offsets in bytes.
struct MatrixDescriptor {
  uint32_t start, lbo, sbo;
  int swizzle;  // 0 none, 1 32B, 2 64B, 3 128B, -1 not a legal code for 16-bit types
  int base_offset, lbo_mode, constant;
};
MatrixDescriptor decode_smem_desc(uint64_t v);

// Byte address of the 16-byte chunk that holds 8 elements: along k for K-major (mn, k0 = 0 or 8), along mn
// for MN-major (mn a multiple of 8, k). Canonical layouts of PTX ISA 9.7.16.3, swizzle on the absolute
// address.
uint32_t chunk_address(const MatrixDescriptor& d, bool mn_major, int mn, int k);

struct MmaRequest {
  Origin origin;
  uint64_t queue = 0;  // its pipeline (queues.hpp)
  int cta_group = 1;
  bool ws = false;
  bool a_in_tmem = false;
  uint32_t d_taddr = 0;
  uint64_t a = 0, b = 0;
  uint32_t idesc = 0;
  bool accumulate = false;
  int scale_d = 0;
  int mask_words = 0;
  std::array<uint32_t, 8> lane_mask{};
  Cta* even = nullptr;  // the issuing CTA for cta_group::1
  Cta* odd = nullptr;
  MmaForm form() const { return {Format::F16, cta_group, ws, false, a_in_tmem}; }
};

// What is wrong with a shared-memory matrix descriptor (empty: nothing); `name` is the operand in the
// message.
std::string check_matrix_descriptor(uint64_t v, const std::string& name, bool transposed_tf32 = false);
// Legal? Returns an empty string or what is wrong.
std::string check_mma(const MmaRequest& r);
// Marks the D cells as being written (issue) and says which, and computes (completion).
std::vector<TmemWrite> mark_mma(Engine& e, const MmaRequest& r);
void execute_mma(Engine& e, const MmaRequest& r);

// One block of the exact mode, for tests: c + sum of 16 products; f16 subnormals when `f16`.
float tensor_core_block(float c, const float* a, const float* b, bool f16);

}  // namespace tileproof
