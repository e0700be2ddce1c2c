// The descriptors of tcgen05.mma: their fields, the addresses that they describe, and what is illegal.
#include "mma.hpp"

namespace tileproof {

InstructionDescriptor decode_idesc(uint32_t v, Format format) {
  InstructionDescriptor d{};
  d.a_type = static_cast<int>(v >> 7 & 7);
  d.b_type = static_cast<int>(v >> 10 & 7);
  d.negate_a = v >> 13 & 1;
  d.negate_b = v >> 14 & 1;
  d.a_mn_major = v >> 15 & 1;
  d.b_mn_major = v >> 16 & 1;
  d.n = static_cast<int>(v >> 17 & 63) << 3;
  if (format >= Format::Mxf8f6f4) {
    d.d_type = 1;
    d.b_scale_id = static_cast<int>(v >> 4 & 3);
    d.a_scale_id = static_cast<int>(v >> 29 & 3);
    d.ue8m0 = v >> 23 & 1;
    d.m = static_cast<int>(v >> 27 & 3) << 7;
  } else {
    d.saturate = v >> 3 & 1;
    d.d_type = static_cast<int>(v >> 4 & 3);
    d.m = static_cast<int>(v >> 24 & 31) << 4;
    d.max_shift = static_cast<int>(v >> 30 & 3);
  }
  return d;
}

MatrixDescriptor decode_smem_desc(uint64_t v) {
  constexpr int kSwizzle[8] = {0, kAtoms32, 3, -1, 2, -1, 1, -1};
  MatrixDescriptor d;
  d.start = static_cast<uint32_t>(v & 0x3fff) << 4;
  d.lbo = static_cast<uint32_t>(v >> 16 & 0x3fff) << 4;
  d.sbo = static_cast<uint32_t>(v >> 32 & 0x3fff) << 4;
  d.base_offset = static_cast<int>(v >> 49 & 7);
  d.swizzle = kSwizzle[v >> 61 & 7];
  return d;
}

std::string check_matrix_descriptor(uint64_t v, const std::string& name, bool transposed_tf32) {
  const std::string wrong = wrong_matrix(v, transposed_tf32);
  return wrong.empty() ? "" : "the descriptor of " + name + ": " + wrong;
}

std::vector<bool> zero_columns(uint64_t v, int m, int n) {
  std::vector<bool> zero(static_cast<size_t>(n), false);
  if (!(v >> 39 & 1)) return zero;
  const int parts = m == 32 ? 4 : m == 64 ? 2 : 1, length = n / parts;
  const int skip = static_cast<int>(v >> 40 & 255) + 1, use = static_cast<int>(v >> 48 & 255) + 1;
  for (int part = 0; part < parts; ++part) {
    // Runs of used columns and of zeros in turn; the first span says which comes first, the start count drops
    // the beginning.
    const int start = static_cast<int>(v >> (8 * part) & 255), lead = v >> (32 + part) & 1 ? skip : 0;
    for (int j = 0; j < length; ++j)
      zero[static_cast<size_t>(part * length + j)] =
          start + j < lead || (start + j - lead) % (use + skip) >= use;
  }
  return zero;
}

namespace {

std::string wrong_zero_mask(uint64_t v, const InstructionDescriptor& d) {
  if (v >> 36 & 7 || v >> 62) return "bits 36-38 and 62-63 of the zero-column mask descriptor are not 0";
  constexpr int kMaxShift[4] = {0, 8, 16, 32};
  const int shift = column_shift(v), most = d.m == 32 ? 16 : 32;
  if (shift > most || shift > kMaxShift[d.max_shift])
    return "the zero-column mask descriptor shifts B by " + std::to_string(shift) +
           " columns; M=" + std::to_string(d.m) + " allows " + std::to_string(most) +
           ", bits 30-31 of the instruction "
           "descriptor " +
           std::to_string(kMaxShift[d.max_shift]);
  return "";
}

}  // namespace

std::string check_mma(const MmaRequest& r) {
  if (std::string wrong = wrong_instruction(r.idesc, r.form()); !wrong.empty()) return wrong;
  const InstructionDescriptor d = r.descriptor();
  if (std::string wrong = wrong_shape(d.m, d.n, r.form(), d.b_mn_major); !wrong.empty()) return wrong;
  const int lane = static_cast<int>(r.d_taddr >> 16);
  const bool layout_f = !r.ws && r.cta_group == 1 && d.m == 64;
  if (lane != 0 && !(layout_f && lane == 16))
    return "D lane " + std::to_string(lane) + " is not allowed for M=" + std::to_string(d.m) +
           " N=" + std::to_string(d.n);
  for (int which = r.a_in_tmem ? 1 : 0; which < 2; ++which) {
    const bool transposed = r.format == Format::Tf32 && (which ? d.b_mn_major : d.a_mn_major);
    const std::string wrong = check_matrix_descriptor(which ? r.b : r.a, which ? "B" : "A", transposed);
    if (!wrong.empty()) return wrong;
  }
  // CUTLASS's pointers to scale factors carry the byte inside the word in bits 30 and 31.
  if (r.format >= Format::Mxf8f6f4 && ((r.scale_a | r.scale_b) >> 16 & 0x3fff))
    return "the scale factors start at another TMEM lane than 0";
  return wrong_zero_mask(r.zero_mask, d);
}

}  // namespace tileproof
