#include "mma.hpp"

#include <cmath>
#include <limits>

namespace tileproof {

InstructionDescriptor decode_idesc(uint32_t v) {
  InstructionDescriptor d;
  d.sparse = v >> 2 & 1;
  d.d_type = static_cast<int>(v >> 4 & 3);
  d.a_type = static_cast<int>(v >> 7 & 7);
  d.b_type = static_cast<int>(v >> 10 & 7);
  d.negate_a = v >> 13 & 1;
  d.negate_b = v >> 14 & 1;
  d.a_mn_major = v >> 15 & 1;
  d.b_mn_major = v >> 16 & 1;
  d.n = static_cast<int>(v >> 17 & 63) << 3;
  d.m = static_cast<int>(v >> 24 & 31) << 4;
  return d;
}

MatrixDescriptor decode_smem_desc(uint64_t v) {
  MatrixDescriptor d;
  d.start = static_cast<uint32_t>(v & 0x3fff) << 4;
  d.lbo = static_cast<uint32_t>(v >> 16 & 0x3fff) << 4;
  d.sbo = static_cast<uint32_t>(v >> 32 & 0x3fff) << 4;
  d.constant = static_cast<int>(v >> 46 & 7);
  d.base_offset = static_cast<int>(v >> 49 & 7);
  d.lbo_mode = static_cast<int>(v >> 52 & 1);
  switch (v >> 61 & 7) {
    case 0: d.swizzle = 0; break;
    case 6: d.swizzle = 1; break;
    case 4: d.swizzle = 2; break;
    case 2: d.swizzle = 3; break;
    default: d.swizzle = -1;
  }
  return d;
}

uint32_t chunk_address(const MatrixDescriptor& d, bool mn_major, int mn_, int k_) {
  const uint32_t mn = static_cast<uint32_t>(mn_), k = static_cast<uint32_t>(k_);
  const uint32_t w = 16u << d.swizzle;
  uint32_t a = d.start;
  if (!mn_major) {
    a += (mn / 8) * d.sbo;
    a += d.swizzle ? (mn % 8) * w + 2 * k : (mn % 8) * 16 + (k / 8) * d.lbo;
  } else if (d.swizzle) {
    a += (mn / (w / 2)) * d.lbo + (mn % (w / 2)) * 2 + (k / 8) * d.sbo + (k % 8) * w;
  } else {
    a += (mn / 8) * d.sbo + (k / 8) * d.lbo + (k % 8) * 16;
  }
  return d.swizzle ? swizzle_address(a, d.swizzle) : a;
}

namespace {

// A run of D columns in one TMEM lane: row m of the operand, columns [n0, n0 + columns) at TMEM column `column`.
struct Segment {
  int lane, row, n0, columns, column;
};

// Data-path layouts A..G of one CTA (PTX ISA 9.7.16.10.5): rows of this CTA are 0 .. rows-1.
void segments(const MmaRequest& r, const InstructionDescriptor& d, std::vector<Segment>& out) {
  const int c0 = static_cast<int>(r.d_taddr & 0xffff);
  const int lane0 = static_cast<int>(r.d_taddr >> 16);
  out.clear();
  const int rows = d.m / r.cta_group;
  auto whole = [&](int lane, int row) { out.push_back({lane, row, 0, d.n, c0}); };
  if (rows == 128) {
    for (int m = 0; m < 128; ++m) whole(m, m);  // layouts A and D
  } else if (rows == 64 && (r.cta_group == 2 || r.ws)) {
    for (int half = 0; half < 2; ++half)  // layouts B and E
      for (int m = 0; m < 64; ++m) out.push_back({m + 64 * half, m, half * d.n / 2, d.n / 2, c0});
  } else if (rows == 64) {
    for (int m = 0; m < 64; ++m) whole(m % 16 + 32 * (m / 16) + (lane0 & 16), m);  // layout F
  } else {
    for (int q = 0; q < 4; ++q)  // layout G
      for (int m = 0; m < 32; ++m) out.push_back({m + 32 * q, m, q * d.n / 4, d.n / 4, c0});
  }
}

float to_f32(uint16_t v, int type) {
  if (type == 1) {
    const uint32_t u = static_cast<uint32_t>(v) << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  }
  _Float16 h;
  std::memcpy(&h, &v, 2);
  return static_cast<float>(h);
}

const uint8_t* fetch_chunk(Engine& e, Cta& cta, uint32_t offset, const Origin& at, uint8_t* scratch) {
  if (offset >= kSharedReserved && offset + 16 <= cta.shared.data.size() && all_valid(&cta.shared.state[offset], 16))
    return &cta.shared.data[offset];
  std::memset(scratch, kPoisonByte, 16);
  e.async_read_shared(cta, offset, 16, scratch, at, "tcgen05.mma");
  return scratch;
}

// rows x 16 elements as f32, row stride `stride_row`, k stride `stride_k`.
void fetch_operand(Engine& e, Cta& cta, uint64_t desc, bool mn_major, int rows, int type, bool negate, const Origin& at,
                   float* out, int stride_row, int stride_k) {
  const MatrixDescriptor d = decode_smem_desc(desc);
  uint8_t scratch[16];
  uint16_t v[8];
  const float sign = negate ? -1.0f : 1.0f;
  if (!mn_major) {
    for (int mn = 0; mn < rows; ++mn)
      for (int k = 0; k < 16; k += 8) {
        std::memcpy(v, fetch_chunk(e, cta, chunk_address(d, false, mn, k), at, scratch), 16);
        for (int j = 0; j < 8; ++j) out[mn * stride_row + (k + j) * stride_k] = sign * to_f32(v[j], type);
      }
  } else {
    for (int k = 0; k < 16; ++k)
      for (int mn = 0; mn < rows; mn += 8) {
        std::memcpy(v, fetch_chunk(e, cta, chunk_address(d, true, mn, k), at, scratch), 16);
        for (int j = 0; j < 8; ++j) out[(mn + j) * stride_row + k * stride_k] = sign * to_f32(v[j], type);
      }
  }
}

// D row: c[0..n) += sum over k of a[k] * b[k][0..n). Blocks of 64 columns stay in vector registers.
void product_row(float* __restrict c, const float* __restrict a, const float* __restrict b, int n, int ldb) {
  int n0 = 0;
  for (; n0 + 64 <= n; n0 += 64) {
    float acc[64];
    for (int j = 0; j < 64; ++j) acc[j] = c[n0 + j];
    for (int k = 0; k < 16; ++k) {
      const float ak = a[k];
      const float* bk = b + k * ldb + n0;
      for (int j = 0; j < 64; ++j) acc[j] = __builtin_fmaf(ak, bk[j], acc[j]);
    }
    for (int j = 0; j < 64; ++j) c[n0 + j] = acc[j];
  }
  for (; n0 + 8 <= n; n0 += 8) {
    float acc[8];
    for (int j = 0; j < 8; ++j) acc[j] = c[n0 + j];
    for (int k = 0; k < 16; ++k)
      for (int j = 0; j < 8; ++j) acc[j] = __builtin_fmaf(a[k], b[k * ldb + n0 + j], acc[j]);
    for (int j = 0; j < 8; ++j) c[n0 + j] = acc[j];
  }
  for (; n0 < n; ++n0)
    for (int k = 0; k < 16; ++k) c[n0] = __builtin_fmaf(a[k], b[k * ldb + n0], c[n0]);
}

}  // namespace

std::string check_mma(const MmaRequest& r) {
  const InstructionDescriptor d = decode_idesc(r.idesc);
  const std::string shape = "M=" + std::to_string(d.m) + " N=" + std::to_string(d.n);
  if (d.sparse) return "unsupported: sparse tcgen05.mma";
  if (d.a_type > 1 || d.b_type > 1) return "unsupported: operand type code " + std::to_string(d.a_type) + "/" + std::to_string(d.b_type);
  if (d.d_type != 1) return "unsupported: accumulator type code " + std::to_string(d.d_type) + " (only f32 is modelled)";
  // Legal shapes, the stricter reading where sources differ (facts: PTX ISA table 39 and the CUTLASS atoms).
  bool ok;
  if (r.ws)
    ok = (d.m == 32 || d.m == 64 || d.m == 128) && (d.n == 64 || d.n == 128 || d.n == 256);
  else if (r.cta_group == 2)
    ok = (d.m == 128 || d.m == 256) && d.n >= 16 && d.n <= 256 && d.n % 16 == 0;
  else
    ok = (d.m == 64 && d.n >= 8 && d.n <= 256) || (d.m == 128 && d.n >= 16 && d.n <= 256 && d.n % 16 == 0);
  if (!ok)
    return "illegal shape " + shape + " for " + (r.ws ? ".ws" : ("cta_group::" + std::to_string(r.cta_group)));
  const int lane = static_cast<int>(r.d_taddr >> 16);
  const bool layout_f = !r.ws && r.cta_group == 1 && d.m == 64;
  if (lane != 0 && !(layout_f && lane == 16)) return "D lane " + std::to_string(lane) + " is not allowed for " + shape;
  if (r.a_in_tmem && d.a_mn_major) return "A in TMEM must be K-major (bit 15 of the instruction descriptor is set)";
  for (int which = r.a_in_tmem ? 1 : 0; which < 2; ++which) {
    const MatrixDescriptor m = decode_smem_desc(which ? r.b : r.a);
    const std::string name = which ? "B" : "A";
    if (m.constant != 1)
      return "bits 46-48 of the shared-memory descriptor of " + name + " are " + std::to_string(m.constant) + ", not 0b001";
    if (m.swizzle < 0) return "the swizzle code of the shared-memory descriptor of " + name + " is not legal for 16-bit types";
    if (m.base_offset) return "unsupported: base offset " + std::to_string(m.base_offset) + " in the descriptor of " + name;
    if (m.lbo_mode) return "the LBO mode bit of the descriptor of " + name + " is set, which sm_100a does not have";
  }
  return "";
}

namespace {

std::array<Cta*, 2> members(const MmaRequest& r) { return {r.even, r.cta_group == 2 ? r.odd : nullptr}; }

bool d_allocated(Engine& e, const MmaRequest& r, Cta& cta, const InstructionDescriptor& d) {
  const int c0 = static_cast<int>(r.d_taddr & 0xffff);
  const int rows = d.m / r.cta_group;
  const int columns = rows == 64 && (r.cta_group == 2 || r.ws) ? d.n / 2 : rows == 32 ? d.n / 4 : d.n;
  if (cta.tmem.allocated(c0, columns)) return true;
  e.fault("tmem-not-allocated",
          "tcgen05.mma writes TMEM columns [" + std::to_string(c0) + ", " + std::to_string(c0 + columns) + ") of CTA rank " +
              std::to_string(cta.rank) + ", which are not all allocated",
          r.origin, r.d_taddr);
  return false;
}

}  // namespace

void mark_mma(Engine& e, const MmaRequest& r) {
  if (e.early()) return;
  const InstructionDescriptor d = decode_idesc(r.idesc);
  std::vector<Segment> segs;
  segments(r, d, segs);
  for (Cta* cta : members(r)) {
    if (!cta) continue;
    if (!d_allocated(e, r, *cta, d)) return;
    for (const Segment& s : segs)
      add_pending(cta->tmem.state_at(s.lane, s.column), static_cast<size_t>(s.columns));
  }
}

void execute_mma(Engine& e, const MmaRequest& r) {
  const InstructionDescriptor d = decode_idesc(r.idesc);
  thread_local std::vector<Segment> segs;
  segments(r, d, segs);
  alignas(64) static thread_local float a[128 * 16];
  alignas(64) static thread_local float b[16 * 256];
  alignas(64) static thread_local float bt[256 * 16];
  const bool exact = e.config.mma == MmaMode::Exact;
  const int rows = d.m / r.cta_group, n_part = d.n / r.cta_group;
  e.counters.mma_instructions++;
  e.counters.mma_macs += static_cast<uint64_t>(d.m) * static_cast<uint64_t>(d.n) * 16;
  for (Cta* cta : members(r)) {
    if (!cta) continue;
    if (cta->exited()) {
      e.fault("access-after-exit", "tcgen05.mma uses CTA rank " + std::to_string(cta->rank) + " after it exited", r.origin);
      return;
    }
    if (!d_allocated(e, r, *cta, d)) return;
  }
  int part = 0;
  for (Cta* cta : members(r)) {  // B: even CTA rows [0, N/2), odd CTA rows [N/2, N)
    if (!cta) continue;
    fetch_operand(e, *cta, r.b, d.b_mn_major, n_part, d.b_type, d.negate_b, r.origin, b + part * n_part, 1, 256);
    ++part;
  }
  if (exact)
    for (int n = 0; n < d.n; ++n)
      for (int k = 0; k < 16; ++k) bt[n * 16 + k] = b[k * 256 + n];
  int member = -1;
  for (Cta* cta : members(r)) {
    ++member;
    if (!cta) continue;
    if (!r.a_in_tmem) fetch_operand(e, *cta, r.a, d.a_mn_major, rows, d.a_type, d.negate_a, r.origin, a, 16, 1);
    for (const Segment& s : segs) {
      uint8_t* state = cta->tmem.state_at(s.lane, s.column);
      float* c = reinterpret_cast<float*>(cta->tmem.at(s.lane, s.column));
      const int word = s.lane / 32 + 4 * member;
      if (word < r.mask_words && (r.lane_mask[static_cast<size_t>(word)] >> (s.lane % 32) & 1)) {
        for (int j = 0; j < s.columns; ++j)  // a masked lane keeps its D
          if (state[j] & kPendingMask) state[j] = static_cast<uint8_t>(state[j] - kPendingOne);
        continue;
      }
      const float* arow = a + s.row * 16;
      float own[16];
      if (r.a_in_tmem) {  // every data path multiplies the A found in its own lane
        const int a_col = static_cast<int>(r.a & 0xffff);
        if (!cta->tmem.allocated(a_col, 8)) {
          e.fault("tmem-not-allocated", "tcgen05.mma reads A from TMEM columns that are not allocated", r.origin, r.a);
          return;
        }
        for (int k = 0; k < 16; ++k) {
          const uint8_t st = *cta->tmem.state_at(s.lane, a_col + k / 2);
          if (st != kValid)
            e.error(st & kPendingMask ? "tmem-pending" : "tmem-uninitialised",
                    "tcgen05.mma reads A from TMEM lane " + std::to_string(s.lane) + " column " + std::to_string(a_col + k / 2) +
                        (st & kPendingMask ? ", whose write has not completed" : ", which was never written"),
                    r.origin, static_cast<uint64_t>(s.lane) << 16 | static_cast<uint64_t>(a_col + k / 2));
          const uint32_t cell = *cta->tmem.at(s.lane, a_col + k / 2);
          own[k] = to_f32(static_cast<uint16_t>(k % 2 ? cell >> 16 : cell), d.a_type) * (d.negate_a ? -1.0f : 1.0f);
        }
        arow = own;
      }
      if (!r.accumulate) {
        std::memset(c, 0, static_cast<size_t>(s.columns) * 4);
      } else {
        for (int j = 0; j < s.columns; ++j)
          if (!(state[j] & kValid)) {
            e.error("tmem-uninitialised",
                    "tcgen05.mma accumulates onto TMEM lane " + std::to_string(s.lane) + " column " + std::to_string(s.column + j) +
                        " of CTA rank " + std::to_string(cta->rank) + ", which was never written",
                    r.origin, static_cast<uint64_t>(s.lane) << 16 | static_cast<uint64_t>(s.column + j));
            break;
          }
        if (r.scale_d)
          for (int j = 0; j < s.columns; ++j) c[j] = std::ldexp(c[j], -r.scale_d);
      }
      if (exact)
        for (int j = 0; j < s.columns; ++j) c[j] = tensor_core_block(c[j], arow, bt + (s.n0 + j) * 16);
      else
        product_row(c, arow, b + s.n0, s.columns, 256);
      complete_pending(state, static_cast<size_t>(s.columns));
    }
  }
}

float tensor_core_block(float c, const float* a, const float* b) {
  // Products of two 16-bit floats are exact in f64, and so is c; scan for special values first.
  double p[17];
  bool special = false;
  int e_max = -133;
  for (int k = 0; k < 16; ++k) {
    p[k] = static_cast<double>(a[k]) * static_cast<double>(b[k]);
    special |= !std::isfinite(a[k]) || !std::isfinite(b[k]);
    if (p[k] != 0) {
      // exp(a) + exp(b) of the unnormalised product, whose significand lies in [1, 4)
      const int ek = std::ilogb(a[k]) + std::ilogb(b[k]);
      if (ek > e_max) e_max = ek;
    }
  }
  p[16] = static_cast<double>(c);
  special |= !std::isfinite(c);
  if (special) {
    float sum = c;
    for (int k = 0; k < 16; ++k) sum += a[k] * b[k];
    return sum;
  }
  if (c != 0.0f && std::ilogb(c) > e_max) e_max = std::ilogb(c);
  // Each term truncated toward zero to a multiple of 2^(E-25); at most 17 terms below 2^28 units: exact in int64.
  int64_t sum = 0;
  for (int k = 0; k < 17; ++k)
    if (p[k] != 0) sum += static_cast<int64_t>(std::ldexp(p[k], 25 - e_max));
  if (sum == 0) return 0.0f;
  // Truncate toward zero to 24 significant bits, or to multiples of 2^-149.
  const bool negative = sum < 0;
  uint64_t mag = negative ? static_cast<uint64_t>(-sum) : static_cast<uint64_t>(sum);
  int exponent = e_max - 25;  // value = mag * 2^exponent
  const int bits = 64 - __builtin_clzll(mag);
  int drop = bits > 24 ? bits - 24 : 0;
  if (exponent + drop < -149) drop = -149 - exponent;
  if (drop >= 64) return negative ? -0.0f : 0.0f;
  mag >>= drop;
  exponent += drop;
  double v = std::ldexp(static_cast<double>(mag), exponent);
  const double max = static_cast<double>(std::numeric_limits<float>::max());
  if (v > max) v = std::numeric_limits<double>::infinity();
  return static_cast<float>(negative ? -v : v);
}

}  // namespace tileproof
