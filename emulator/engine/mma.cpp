#include "mma.hpp"

#include <cmath>

#include "tensor_core.hpp"

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
    case 0:
      d.swizzle = 0;
      break;
    case 6:
      d.swizzle = 1;
      break;
    case 4:
      d.swizzle = 2;
      break;
    case 2:
      d.swizzle = 3;
      break;
    default:
      d.swizzle = -1;
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

// A run of D columns in one TMEM lane: row m of the operand, columns [n0, n0 + columns) at TMEM column
// `column`.
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

constexpr int32_t kBf16Emin = -126, kF16Emin = -14;

template <int Type>
inline float to_f32(uint16_t v) {
  if constexpr (Type == 1) {
    const uint32_t u = static_cast<uint32_t>(v) << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  } else {
    _Float16 h;
    std::memcpy(&h, &v, 2);
    return static_cast<float>(h);
  }
}

// The 16 bytes at a shared offset; bytes that may not be read are poison (and reported) in `scratch`.
inline const uint8_t* fetch_chunk(Engine& e, Cta& cta, uint32_t offset, const Origin& at, uint8_t* scratch) {
  if (offset >= kSharedReserved && offset + 16 <= cta.shared.data.size() &&
      all_valid(&cta.shared.state[offset], 16)) {
    e.tell(&Listener::async_shared, cta, offset, 16u, false);
    return &cta.shared.data[offset];
  }
  std::memset(scratch, kPoisonByte, 16);
  e.async_read_shared(cta, offset, 16, scratch, at, "tcgen05.mma");
  return scratch;
}

// rows x 16 elements as f32: out[row * stride_row + k * stride_k].
template <int Type>
void fetch_typed(Engine& e, Cta& cta, const MatrixDescriptor& d, bool mn_major, int rows, float sign,
                 const Origin& at, float* out, int stride_row, int stride_k) {
  uint8_t scratch[16];
  uint16_t v[8];
  if (!mn_major) {
    for (int mn = 0; mn < rows; ++mn)
      for (int k = 0; k < 16; k += 8) {
        std::memcpy(v, fetch_chunk(e, cta, chunk_address(d, false, mn, k), at, scratch), 16);
        float* to = out + mn * stride_row + k * stride_k;
        for (int j = 0; j < 8; ++j) to[j * stride_k] = sign * to_f32<Type>(v[j]);
      }
  } else {
    for (int k = 0; k < 16; ++k)
      for (int mn = 0; mn < rows; mn += 8) {
        std::memcpy(v, fetch_chunk(e, cta, chunk_address(d, true, mn, k), at, scratch), 16);
        float* to = out + mn * stride_row + k * stride_k;
        for (int j = 0; j < 8; ++j) to[j * stride_row] = sign * to_f32<Type>(v[j]);
      }
  }
}

void fetch_operand(Engine& e, Cta& cta, uint64_t desc, bool mn_major, int rows, int type, bool negate,
                   const Origin& at, float* out, int stride_row, int stride_k) {
  const MatrixDescriptor d = decode_smem_desc(desc);
  const float sign = negate ? -1.0f : 1.0f;
  if (type == 1)
    fetch_typed<1>(e, cta, d, mn_major, rows, sign, at, out, stride_row, stride_k);
  else
    fetch_typed<0>(e, cta, d, mn_major, rows, sign, at, out, stride_row, stride_k);
}

}  // namespace

std::string check_matrix_descriptor(uint64_t v, const std::string& name, bool transposed_tf32) {
  if (std::string wrong = wrong_matrix(v, transposed_tf32); !wrong.empty())
    return "the descriptor of " + name + ": " + wrong;
  if (const int offset = decode_smem_desc(v).base_offset)
    return "unsupported: base offset " + std::to_string(offset) + " in the descriptor of " + name;
  return "";
}

std::string check_mma(const MmaRequest& r) {
  if (std::string wrong = wrong_instruction(r.idesc, r.form()); !wrong.empty()) return wrong;
  const InstructionDescriptor d = decode_idesc(r.idesc);
  if (d.d_type != 1)
    return "unsupported: accumulator type code " + std::to_string(d.d_type) + " (only f32 is modelled)";
  if (std::string wrong = wrong_shape(d.m, d.n, r.form(), d.b_mn_major); !wrong.empty()) return wrong;
  const int lane = static_cast<int>(r.d_taddr >> 16);
  const bool layout_f = !r.ws && r.cta_group == 1 && d.m == 64;
  if (lane != 0 && !(layout_f && lane == 16))
    return "D lane " + std::to_string(lane) + " is not allowed for M=" + std::to_string(d.m) +
           " N=" + std::to_string(d.n);
  for (int which = r.a_in_tmem ? 1 : 0; which < 2; ++which) {
    const std::string wrong = check_matrix_descriptor(which ? r.b : r.a, which ? "B" : "A");
    if (!wrong.empty()) return wrong;
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
          "tcgen05.mma writes TMEM columns [" + std::to_string(c0) + ", " + std::to_string(c0 + columns) +
              ") of CTA rank " + std::to_string(cta.rank) + ", which are not all allocated",
          r.origin, r.d_taddr);
  return false;
}

}  // namespace

std::vector<TmemWrite> mark_mma(Engine& e, const MmaRequest& r) {
  std::vector<TmemWrite> writes;
  if (e.early()) return writes;
  const InstructionDescriptor d = decode_idesc(r.idesc);
  std::vector<Segment> segs;
  segments(r, d, segs);
  for (Cta* cta : members(r)) {
    if (!cta) continue;
    if (!d_allocated(e, r, *cta, d)) return writes;
    TmemWrite w{cta, {}, segs[0].column, segs[0].columns};  // all segments have the same columns
    for (const Segment& s : segs) {
      add_pending(cta->tmem.state_at(s.lane, s.column), static_cast<size_t>(s.columns));
      w.add_lane(s.lane);
    }
    writes.push_back(w);
  }
  return writes;
}

namespace {

// Working storage of one MMA; too large for the stack, kept from one to the next.
struct Workspace {
  alignas(64) float a[128 * kBlockK];
  alignas(64) float b[kBlockK * kMaxN];
  SplitOperand a_split, b_split;
  bool b_special[kMaxN];
  std::vector<Segment> segments;
};

// A of one lane, from TMEM: every data path multiplies the A found in its own lane.
bool fetch_tmem_row(Engine& e, Cta& cta, const MmaRequest& r, const InstructionDescriptor& d, int lane,
                    LaterWrites& later, float* out) {
  const int column = static_cast<int>(r.a & 0xffff);
  if (!cta.tmem.allocated(column, 8)) {
    e.fault("tmem-not-allocated", "tcgen05.mma reads A from TMEM columns that are not allocated", r.origin,
            r.a);
    return false;
  }
  for (int k = 0; k < kBlockK; ++k) {
    const uint8_t state = *cta.tmem.state_at(lane, column + k / 2);
    uint32_t cell = *cta.tmem.at(lane, column + k / 2);
    if (state != kValid) {
      const bool pending = later.pending(state, cta, lane, column + k / 2);
      if (pending || !(state & kValid)) {
        e.error(pending ? "tmem-pending" : "tmem-uninitialised",
                "tcgen05.mma reads A from TMEM lane " + std::to_string(lane) + " column " +
                    std::to_string(column + k / 2) +
                    (pending ? ", whose write has not completed" : ", which was never written"),
                r.origin, static_cast<uint64_t>(lane) << 16 | static_cast<uint64_t>(column + k / 2));
        const bool now = pending && e.finish_stores_to(cta, lane, column + k / 2);
        cell = now ? *cta.tmem.at(lane, column + k / 2) : kPoisonWord;
      }
    }
    const uint16_t v = static_cast<uint16_t>(k % 2 ? cell >> 16 : cell);
    out[k] = (d.a_type == 1 ? to_f32<1>(v) : to_f32<0>(v)) * (d.negate_a ? -1.0f : 1.0f);
  }
  return true;
}

// The TMEM cells of an MMA: D and, with A in TMEM, A, by sixteenths of the lanes.
void tell_tmem(Engine& e, const MmaRequest& r, const std::vector<Segment>& segments) {
  e.tell(&Listener::mma_shape,
         1 + (r.idesc & ~0x1ff80u) * 8u + static_cast<uint32_t>(r.cta_group * 2 + r.ws));
  int member = -1;
  for (Cta* cta : members(r)) {
    ++member;
    if (!cta) continue;
    struct Block {
      uint16_t units = 0;
      int column = 0, columns = 0;
    };
    std::array<Block, kTmemLanes / 16> blocks;
    for (const Segment& s : segments) {
      const int word = s.lane / 32 + 4 * member;
      if (word < r.mask_words && (r.lane_mask[static_cast<size_t>(word)] >> (s.lane % 32) & 1)) continue;
      Block& b = blocks[static_cast<size_t>(s.lane / 16)];
      b.units = static_cast<uint16_t>(b.units | 1u << s.lane % 16);
      b.column = s.column;
      b.columns = s.columns;
    }
    for (int k = 0; k < kTmemLanes / 16; ++k) {
      const Block& b = blocks[static_cast<size_t>(k)];
      if (!b.units) continue;
      if (r.a_in_tmem)
        e.tell(&Listener::tmem, *cta, k, b.units, static_cast<int>(r.a & 0xffff), kBlockK / 2, false,
               nullptr);
      e.tell(&Listener::tmem, *cta, k, b.units, b.column, b.columns, true, nullptr);
    }
  }
}

// The accumulators of one segment before the products: zero, or the old D, scaled.
void prepare_d(Engine& e, const MmaRequest& r, Cta& cta, const Segment& s) {
  float* c = reinterpret_cast<float*>(cta.tmem.at(s.lane, s.column));
  if (!r.accumulate) {
    std::memset(c, 0, static_cast<size_t>(s.columns) * 4);
    return;
  }
  const uint8_t* state = cta.tmem.state_at(s.lane, s.column);
  uint8_t all = kValid;
  for (int j = 0; j < s.columns; ++j) all &= state[j];
  if (!all)
    for (int j = 0; j < s.columns; ++j)
      if (!(state[j] & kValid)) {
        e.error("tmem-uninitialised",
                "tcgen05.mma accumulates onto TMEM lane " + std::to_string(s.lane) + " column " +
                    std::to_string(s.column + j) + " of CTA rank " + std::to_string(cta.rank) +
                    ", which was never written",
                r.origin, static_cast<uint64_t>(s.lane) << 16 | static_cast<uint64_t>(s.column + j));
        break;
      }
  if (r.scale_d)
    for (int j = 0; j < s.columns; ++j) c[j] = std::ldexp(c[j], -r.scale_d);
}

void exact_segment(Workspace& w, const float* a, int row, float* c, const Segment& s, int32_t emin) {
  alignas(64) float old[kMaxN];
  bool a_special = false, c_special = false;
  for (int k = 0; k < kBlockK; ++k) a_special |= !std::isfinite(a[k]);
  for (int j = 0; j < s.columns; ++j) c_special |= !std::isfinite(c[j]) || w.b_special[s.n0 + j];
  if (a_special || c_special) std::memcpy(old, c, static_cast<size_t>(s.columns) * 4);
  int32_t* sa = w.a_split.significand + row * kBlockK;
  int32_t* ea = w.a_split.exponent + row * kBlockK;
  split_operand(a, kBlockK, emin, sa, ea);
  product_exact(c, sa, ea, w.b_split.significand + s.n0, w.b_split.exponent + s.n0, kMaxN, s.columns);
  if (a_special || c_special)
    for (int j = 0; j < s.columns; ++j)
      if (product_special(&old[j], a, w.b + s.n0 + j, kMaxN)) c[j] = old[j];
}

}  // namespace

void execute_mma(Engine& e, const MmaRequest& r) {
  static thread_local Workspace w;
  const InstructionDescriptor d = decode_idesc(r.idesc);
  const bool exact = e.config.mma == MmaMode::Exact;
  const int rows = d.m / r.cta_group, n_part = d.n / r.cta_group;
  segments(r, d, w.segments);
  e.counters.mma_instructions++;
  e.counters.mma_macs += static_cast<uint64_t>(d.m) * static_cast<uint64_t>(d.n) * kBlockK;
  for (Cta* cta : members(r)) {
    if (!cta) continue;
    if (cta->exited()) {
      e.fault("access-after-exit",
              "tcgen05.mma uses CTA rank " + std::to_string(cta->rank) + " after it exited", r.origin);
      return;
    }
    if (!d_allocated(e, r, *cta, d)) return;
  }
  if (e.heard()) [[unlikely]]
    tell_tmem(e, r, w.segments);
  int part = 0;
  for (Cta* cta : members(r))  // B: even CTA rows [0, N/2), odd CTA rows [N/2, N)
    if (cta)
      fetch_operand(e, *cta, r.b, d.b_mn_major, n_part, d.b_type, d.negate_b, r.origin, w.b + n_part * part++,
                    1, kMaxN);
  if (exact)
    for (int k = 0; k < kBlockK; ++k) {
      split_operand(w.b + k * kMaxN, d.n, d.b_type == 1 ? kBf16Emin : kF16Emin,
                    w.b_split.significand + k * kMaxN, w.b_split.exponent + k * kMaxN);
      for (int n = 0; n < d.n; ++n)
        w.b_special[n] = (k && w.b_special[n]) || !std::isfinite(w.b[k * kMaxN + n]);
    }
  LaterWrites later(e, r.queue);
  int member = -1;
  for (Cta* cta : members(r)) {
    ++member;
    if (!cta) continue;
    if (!r.a_in_tmem)
      fetch_operand(e, *cta, r.a, d.a_mn_major, rows, d.a_type, d.negate_a, r.origin, w.a, kBlockK, 1);
    // Rows with the same columns of B are multiplied together, so that B stays in registers.
    constexpr int kBatch = 4;
    float* c_rows[kBatch];
    const float* a_rows[kBatch];
    const Segment* first = nullptr;
    int batched = 0;
    auto flush = [&] {
      if (batched) product_fast(c_rows, a_rows, batched, w.b + first->n0, kMaxN, first->columns);
      batched = 0;
    };
    for (const Segment& s : w.segments) {
      uint8_t* state = cta->tmem.state_at(s.lane, s.column);
      const int word = s.lane / 32 + 4 * member;
      if (word < r.mask_words && (r.lane_mask[static_cast<size_t>(word)] >> (s.lane % 32) & 1)) {
        for (int j = 0; j < s.columns; ++j)  // a masked lane keeps its D
          if (state[j] & kPendingMask) state[j] = static_cast<uint8_t>(state[j] - kPendingOne);
        continue;
      }
      float* a = w.a + s.row * kBlockK;
      if (r.a_in_tmem) {
        a = w.a + s.lane * kBlockK;
        if (!fetch_tmem_row(e, *cta, r, d, s.lane, later, a)) return;
      }
      prepare_d(e, r, *cta, s);
      float* c = reinterpret_cast<float*>(cta->tmem.at(s.lane, s.column));
      if (exact) {
        exact_segment(w, a, r.a_in_tmem ? s.lane : s.row, c, s, d.a_type == 1 ? kBf16Emin : kF16Emin);
      } else {
        if (batched && (batched == kBatch || first->n0 != s.n0)) flush();
        if (!batched) first = &s;
        c_rows[batched] = c;
        a_rows[batched++] = a;
      }
      complete_pending(state, static_cast<size_t>(s.columns));
    }
    flush();
  }
}

float tensor_core_block(float c, const float* a, const float* b, bool f16) {
  if (product_special(&c, a, b, 1)) return c;
  int32_t sa[kBlockK], ea[kBlockK], sb[kBlockK], eb[kBlockK];
  split_operand(a, kBlockK, f16 ? kF16Emin : kBf16Emin, sa, ea);
  split_operand(b, kBlockK, f16 ? kF16Emin : kBf16Emin, sb, eb);
  product_exact(&c, sa, ea, sb, eb, 1, 1);
  return c;
}

}  // namespace tileproof
