// tcgen05.mma of all dense kinds: the request, its descriptors, and the parts that carry it out.
#pragma once

#include <array>
#include <cstdint>

#include "machine.hpp"
#include "mma_rules.hpp"

namespace tileproof {

// Instruction descriptor fields (PTX ISA tables 42 to 44).
struct InstructionDescriptor {
  int m, n;
  int a_type, b_type, d_type;  // codes of the kind; d: 0 f16, 1 f32, 2 s32
  bool a_mn_major, b_mn_major, negate_a, negate_b, saturate;
  bool ue8m0;
  int a_scale_id, b_scale_id, max_shift;
};
InstructionDescriptor decode_idesc(uint32_t v, Format format);

// Shared-memory matrix descriptor fields (PTX ISA table 40), offsets in bytes.
constexpr int kAtoms32 = 4;
struct MatrixDescriptor {
  uint32_t start, lbo, sbo;
  int swizzle;  // 0 none, 1 32B, 2 64B, 3 128B, kAtoms32 128B with atoms of 32 bytes, -1 no code
  int base_offset;
};
MatrixDescriptor decode_smem_desc(uint64_t v);

// The 128-byte line, counted from where the pattern starts, is XORed onto the chunk inside the line. The base
// offset is the line, modulo 8, at which the pattern starts (PTX ISA table 41).
inline uint32_t swizzled(const MatrixDescriptor& d, uint32_t a) {
  const uint32_t line = (a >> 7) - static_cast<uint32_t>(d.base_offset);
  return d.swizzle == kAtoms32 ? a ^ (line & 3) << 5 : a ^ (line & ((1u << d.swizzle) - 1)) << 4;
}

// Byte address of a 16-byte chunk (canonical layouts of PTX ISA 9.7.16.3, swizzle on the absolute address):
// K- major, chunk c along k of row mn; MN-major, chunk g along mn at k.
inline uint32_t k_chunk(const MatrixDescriptor& d, int mn_, int c_) {
  const uint32_t mn = static_cast<uint32_t>(mn_), c = static_cast<uint32_t>(c_);
  const uint32_t a = d.start + (mn / 8) * d.sbo;
  if (!d.swizzle) return a + (mn % 8) * 16 + c * d.lbo;
  // A row of a sparse product is longer than the narrowest swizzle (as an H200 has it).
  const uint32_t each = 1u << d.swizzle;
  return swizzled(d, a + (mn % 8) * 16 * each + (c >> d.swizzle) * d.lbo + c % each * 16);
}

inline uint32_t mn_chunk(const MatrixDescriptor& d, int g_, int k_) {
  const uint32_t at = 16 * static_cast<uint32_t>(g_), k = static_cast<uint32_t>(k_);
  if (!d.swizzle) return d.start + at / 16 * d.sbo + (k / 8) * d.lbo + (k % 8) * 16;
  if (d.swizzle == kAtoms32)
    return swizzled(d, d.start + at / 128 * d.lbo + at % 128 + (k / 4) * d.sbo + (k % 4) * 128);
  const uint32_t w = 16u << d.swizzle;
  return swizzled(d, d.start + at / w * d.lbo + at % w + (k / 8) * d.sbo + (k % 8) * w);
}

struct MmaRequest {
  Origin origin;
  uint64_t queue = 0;  // its pipeline (queues.hpp)
  Format format = Format::F16;
  int cta_group = 1;
  bool ws = false;
  bool a_in_tmem = false;
  uint32_t d_taddr = 0;
  uint64_t a = 0, b = 0;
  uint32_t idesc = 0;
  uint32_t scale_a = 0, scale_b = 0;  // tensor memory addresses
  uint64_t zero_mask = 0;             // zero-column mask descriptor of .ws
  bool accumulate = false;
  int scale_d = 0;
  int mask_words = 0;
  std::array<uint32_t, 8> lane_mask{};
  Cta* even = nullptr;  // the issuing CTA for cta_group::1
  Cta* odd = nullptr;
  MmaForm form() const { return {format, cta_group, ws, false, a_in_tmem}; }
  InstructionDescriptor descriptor() const { return decode_idesc(idesc, format); }
  std::array<Cta*, 2> members() const { return {even, cta_group == 2 ? odd : nullptr}; }
  bool masked(int member, int lane) const {
    const int word = lane / 32 + 4 * member;
    return word < mask_words && (lane_mask[static_cast<size_t>(word)] >> (lane % 32) & 1);
  }
};

// The shape of an MMA in one number, as emulator/trace.py unpacks it: N, M << 16, and flags from bit 32 on.
inline int64_t mma_amount(const MmaRequest& r) {
  const InstructionDescriptor d = r.descriptor();
  return d.n | int64_t{d.m} << 16 | int64_t{r.ws} << 32 | int64_t{r.a_in_tmem} << 33 |
         int64_t{r.cta_group == 2} << 34;
}

// A run of D columns in one TMEM lane: row m of the operand, columns [n0, n0 + columns) at TMEM column
// `column`.
struct Segment {
  int lane, row, n0, columns, column;
};
// Data-path layouts A..G of one CTA (PTX ISA 9.7.16.10.5): rows of this CTA are 0 .. rows-1.
void segments(const MmaRequest& r, const InstructionDescriptor& d, std::vector<Segment>& out);

// What is wrong with a shared-memory matrix descriptor (empty: nothing); `name` is the operand in the
// message.
std::string check_matrix_descriptor(uint64_t v, const std::string& name, bool transposed_tf32 = false);
// Legal? Returns an empty string or what is wrong.
std::string check_mma(const MmaRequest& r);
// Whether the columns of D are allocated in this CTA; a fault when not.
bool d_allocated(Engine& e, const MmaRequest& r, Cta& cta, const InstructionDescriptor& d);
// Marks the D cells as being written (issue), and computes (completion).
std::vector<TmemWrite> mark_mma(Engine& e, const MmaRequest& r);
void execute_mma(Engine& e, const MmaRequest& r);

// The zero-column mask (PTX ISA 9.7.16.4.3): true where a column of B counts as zero.
std::vector<bool> zero_columns(uint64_t descriptor, int m, int n);
inline int column_shift(uint64_t descriptor) { return static_cast<int>(descriptor >> 56 & 63); }

}  // namespace tileproof
