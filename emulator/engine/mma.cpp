// tcgen05.mma carried out: the products of each kind.
#include "mma.hpp"

#include <algorithm>
#include <cmath>

#include "half.hpp"
#include "mma_operands.hpp"
#include "poison_memory.hpp"
#include "small_float.hpp"

namespace tileproof {

namespace {

// What two MMAs of a pipeline must share: kind, shape and form, whatever their element types (PTX ISA
// 9.7.16.6.2).
uint32_t shape_of(const MmaRequest& r, const InstructionDescriptor& d) {
  return 1 + static_cast<uint32_t>(r.format) + 8 * static_cast<uint32_t>(r.cta_group * 2 + r.ws) +
         64 * static_cast<uint32_t>(d.d_type) + 256 * static_cast<uint32_t>(d.n / 8) +
         (static_cast<uint32_t>(d.m / 16) << 16);
}

// The TMEM cells of an MMA: D and what else lies there, by sixteenths of the lanes.
void tell_tmem(Engine& e, const MmaRequest& r, const InstructionDescriptor& d,
               const std::vector<Segment>& segments) {
  e.tell(&Listener::mma_shape, shape_of(r, d));
  const bool scaled = r.format >= Format::Mxf8f6f4;
  const auto [a_columns, b_columns] = scale_columns(segments);
  int member = -1;
  for (Cta* cta : r.members()) {
    ++member;
    if (!cta) continue;
    struct Block {
      uint16_t units = 0;
      int column = 0, columns = 0;
    };
    std::array<Block, kTmemLanes / 16> blocks;
    for (const Segment& s : segments) {
      if (r.masked(member, s.lane)) continue;
      Block& b = blocks[static_cast<size_t>(s.lane / 16)];
      b.units = static_cast<uint16_t>(b.units | 1u << s.lane % 16);
      b.column = s.column;
      b.columns = s.columns;
    }
    for (int k = 0; k < kTmemLanes / 16; ++k) {
      const Block& b = blocks[static_cast<size_t>(k)];
      if (!b.units) continue;
      if (r.a_in_tmem)
        e.tell(&Listener::tmem, *cta, k, b.units, static_cast<int>(r.a & 0xffff), 8, false, nullptr);
      if (scaled) {
        const int wide = std::min(32, b.columns) - 16 * (k % 2);
        e.tell(&Listener::tmem, *cta, k, uint16_t{0xffff}, static_cast<int>(r.scale_a & 0xffff), a_columns,
               false, nullptr);
        if (wide > 0)
          e.tell(&Listener::tmem, *cta, k, static_cast<uint16_t>((1u << std::min(wide, 16)) - 1),
                 static_cast<int>(r.scale_b & 0xffff), b_columns, false, nullptr);
      }
      e.tell(&Listener::tmem, *cta, k, b.units, b.column, b.columns, true, nullptr);
    }
  }
}

// Cells of the old D that nobody wrote, by column of the segment, in `d_poison`; false when there are none.
bool accumulates_poison(Engine& e, const MmaRequest& r, Cta& cta, const Segment& s, Workspace& w) {
  const uint8_t* state = cta.tmem.state_at(s.lane, s.column);
  uint8_t all = kValid;
  for (int j = 0; j < s.columns; ++j) all &= state[j];
  bool found = false;
  for (int j = 0; j < s.columns && !all; ++j) {
    if (state[j] & kValid) continue;
    if (!found) w.d_poison.fill(0);
    found = true;
    w.d_poison[static_cast<size_t>(j)] =
        poison_in_cell(e, cta, s.lane, s.column + j,
                       "tcgen05.mma accumulates onto TMEM lane " + std::to_string(s.lane) + " column " +
                           std::to_string(s.column + j) + " of CTA rank " + std::to_string(cta.rank) +
                           ", which was never written",
                       r.origin, false);
  }
  return found;
}

// D where a row of A, a column of B or the old D is poison.
void spread_poison(Engine& e, Cta& cta, const Segment& s, PoisonId row, bool old, const Workspace& w) {
  for (int j = 0; j < s.columns; ++j) {
    PoisonId set = e.poisons.both(row, w.b_poison[static_cast<size_t>(s.n0 + j)]);
    if (old) set = e.poisons.both(set, w.d_poison[static_cast<size_t>(j)]);
    if (set) store_poison(cta, s.lane, s.column + j, set);
  }
}

// How the products reach D.
enum class Into { F32, F16, Scaled, S32 };

Into into(const MmaRequest& r, const InstructionDescriptor& d) {
  if (r.format >= Format::Mxf8f6f4) return Into::Scaled;
  return d.d_type == 0 ? Into::F16 : d.d_type == 2 ? Into::S32 : Into::F32;
}

// D before the products, as f32: zero, or the old D, scaled.
void load_d(const MmaRequest& r, const uint32_t* cells, int columns, bool half, float* c) {
  if (!r.accumulate) {
    std::memset(c, 0, static_cast<size_t>(columns) * 4);
    return;
  }
  if (half) {
    for (int j = 0; j < columns; ++j) c[j] = half::from_f16(static_cast<uint16_t>(cells[j]));
  } else if (static_cast<const void*>(c) != cells) {
    std::memcpy(c, cells, static_cast<size_t>(columns) * 4);
  }
  if (r.scale_d)
    for (int j = 0; j < columns; ++j) c[j] = std::ldexp(c[j], -r.scale_d);
}

// An f16 fills the lower half of its cell; the ISA does not define the upper half, which stays poison.
void store_half(uint32_t* cells, int columns, const float* c) {
  for (int j = 0; j < columns; ++j) cells[j] = 0xffff0000u | half::to_f16(c[j]);
}

// Rows with the same columns of B and the same scale factors of B, multiplied together so that B stays in
// registers.
struct Batch {
  int count = 0;
  const Segment* segment[kMostRows];
  const float* a[kMostRows];
  uint32_t* cells[kMostRows];

  bool takes(const Segment& s) const {
    return !count || (count < kMostRows && segment[0]->n0 == s.n0 && segment[0]->lane / 32 == s.lane / 32);
  }
};

void add_scaled(Workspace& w, const MmaRequest& r, const Batch& b, const ExactOperand* rows) {
  const int k = padded_k(r.format), scales = mma_rules().formats[static_cast<size_t>(r.format)].scales;
  const Segment& first = *b.segment[0];
  for (int block = 0; block < scales; ++block) {
    for (int i = 0; i < b.count; ++i) std::memset(rows[i].c, 0, static_cast<size_t>(first.columns) * 4);
    add_fast(rows, b.count, w.b + first.n0, block * k / scales, (block + 1) * k / scales, first.columns,
             w.largest);
    for (int i = 0; i < b.count; ++i) {
      const Segment& s = *b.segment[i];
      const double scale = w.scale_a[s.lane][block];
      const float* by = w.scale_b[s.lane / 32][block];
      float* out = reinterpret_cast<float*>(b.cells[i]);
      for (int j = 0; j < s.columns; ++j)
        out[j] = static_cast<float>(out[j] + rows[i].c[j] * (scale * static_cast<double>(by[j])));
    }
  }
}

void multiply(Workspace& w, const MmaRequest& r, const InstructionDescriptor& d, Into mode, bool exact,
              Batch& b) {
  if (!b.count) return;
  const int columns = b.segment[0]->columns;
  const bool direct = mode == Into::F32 || (mode == Into::Scaled && exact);
  const Segment& first = *b.segment[0];
  ExactOperand rows[kMostRows];
  for (int i = 0; i < b.count; ++i) {
    float* c = direct ? reinterpret_cast<float*>(b.cells[i]) : w.sums[i];
    rows[i] = {c, b.a[i], w.scale_a[b.segment[i]->lane]};
    if (mode == Into::F16) load_d(r, b.cells[i], columns, true, c);
    if (mode == Into::S32) std::memset(c, 0, static_cast<size_t>(columns) * 4);
  }
  if (exact)
    w.exact.add(rows, b.count, first.n0, columns, w.scale_b[first.lane / 32]);
  else if (mode == Into::Scaled)
    add_scaled(w, r, b, rows);
  else
    add_fast(rows, b.count, w.b + first.n0, 0, padded_k(r.format), columns, w.largest);
  for (int i = 0; i < b.count && !direct; ++i) {
    if (mode == Into::F16) store_half(b.cells[i], columns, rows[i].c);
    if (mode != Into::S32) continue;
    if (!r.accumulate) std::memset(b.cells[i], 0, static_cast<size_t>(columns) * 4);
    add_integers(b.cells[i], rows[i].c, columns, d.saturate);
  }
  b.count = 0;
}

ExactForm exact_form(const MmaRequest& r, const InstructionDescriptor& d) {
  const auto& rules = mma_rules().formats[static_cast<size_t>(r.format)];
  return {rules.k,
          emin_of(element_of(r.format, d.a_type)),
          emin_of(element_of(r.format, d.b_type)),
          d.d_type == 0,
          rules.scales,
          d.ue8m0 ? -127 : kE4m3.emin()};
}

// B of both CTAs, [k][n]: even CTA rows [0, N/2), odd CTA rows [N/2, N); a zero-column mask moves and clears
// columns.
void fetch_b(Engine& e, const MmaRequest& r, const InstructionDescriptor& d, Workspace& w) {
  const int n_part = d.n / r.cta_group, k = padded_k(r.format), shift = column_shift(r.zero_mask);
  w.b_poison.fill(0);
  int part = 0;
  if (shift) {
    const int rows = d.n + (shift + 15) / 16 * 16;
    std::vector<float> wide(static_cast<size_t>(rows * k));
    std::vector<PoisonId> poison(static_cast<size_t>(rows));
    fetch_operand(e, *r.even, r.b, r, true, rows, wide.data(), k, 1, poison.data());
    std::copy_n(poison.begin() + shift, d.n, w.b_poison.begin());
    for (int i = 0; i < k; ++i)
      for (int n = 0; n < d.n; ++n) w.b[i * kMaxN + n] = wide[static_cast<size_t>((n + shift) * k + i)];
  } else {
    for (Cta* cta : r.members())
      if (cta) {
        fetch_operand(e, *cta, r.b, r, true, n_part, w.b + n_part * part, 1, kMaxN,
                      w.b_poison.data() + n_part * part);
        ++part;
      }
  }
  if (!r.zero_mask) return;
  const std::vector<bool> zero = zero_columns(r.zero_mask, d.m, d.n);
  for (int n = 0; n < d.n; ++n)
    if (zero[static_cast<size_t>(n)]) {
      w.b_poison[static_cast<size_t>(n)] = 0;
      for (int i = 0; i < k; ++i) w.b[i * kMaxN + n] = 0;
    }
}

DPlace place_of(const MmaRequest& r) {
  return {r.d_taddr, r.idesc, r.cta_group, r.ws, static_cast<uint8_t>(r.format)};
}

// A D in f32, scaled by nothing, whose cells and operands all are written: without what each row of
// execute_mma is looked at for. False, with nothing done, where an old cell was not written.
bool multiply_whole(const MmaRequest& r, Cta& cta, Workspace& w) {
  TensorMemory& m = cta.tmem;
  bool settled = m.settled == m.changes && m.settled_d == place_of(r);
  if (!settled) {
    settled = std::all_of(w.segments.begin(), w.segments.end(), [&](const Segment& s) {
      return all_valid(m.state_at(s.lane, s.column), static_cast<size_t>(s.columns));
    });
    if (!settled && r.accumulate) return false;
    if (!settled)
      for (const Segment& s : w.segments)
        complete_pending(m.change_state(s.lane, s.column), static_cast<size_t>(s.columns));
    // A cell may have more writes to come, so that nothing is known after the first.
    if (settled) m.settled = m.changes, m.settled_d = place_of(r);
  }
  const int k = padded_k(r.format), columns = w.segments[0].columns;
  for (size_t first = 0; first < w.segments.size();) {
    const int n0 = w.segments[first].n0;
    int count = 0;
    for (; first < w.segments.size() && w.segments[first].n0 == n0; ++first, ++count) {
      const Segment& s = w.segments[first];
      uint32_t* cells = m.at(s.lane, s.column);
      if (!r.accumulate) std::memset(cells, 0, static_cast<size_t>(columns) * 4);
      w.d_rows[count] = reinterpret_cast<float*>(cells);
      w.a_rows[count] = w.a + s.row * k;
    }
    // Small numbers are looked at by few rows.
    const int step = w.largest < kSmallBits ? kMostRows : count;
    for (int i = 0; i < count; i += step)
      for (int j = 0; j < k; j += kBlockK) {
        const int rows = std::min(step, count - i);
        if (j)
          for (int row = i; row < i + rows; ++row) w.a_rows[row] += kBlockK;
        product_fast(w.d_rows + i, w.a_rows + i, rows, w.b + j * kMaxN + n0, kMaxN, columns, w.largest);
      }
  }
  return true;
}

// Not inline: the address of a thread's variable takes a call, which is not to be made for each row.
[[gnu::noinline]] Workspace& workspace() {
  static thread_local Workspace w;
  return w;
}

}  // namespace

void execute_mma(Engine& e, const MmaRequest& r) {
  Workspace& w = workspace();
  const InstructionDescriptor d = r.descriptor();
  const Into mode = into(r, d);
  const bool exact = e.config.mma == MmaMode::Exact && mode != Into::S32;
  const int rows = d.m / r.cta_group, k = padded_k(r.format);
  // The steps of k follow each other, with D in the same place.
  if (const DPlace place = place_of(r); w.segments.empty() || w.place != place) {
    segments(r, d, w.segments);
    w.place = place;
  }
  e.counters.mma_instructions++;
  e.counters.mma_macs += static_cast<uint64_t>(d.m) * static_cast<uint64_t>(d.n) *
                         static_cast<uint64_t>(mma_rules().formats[static_cast<size_t>(r.format)].k);
  for (Cta* cta : r.members()) {
    if (!cta) continue;
    if (cta->exited()) {
      e.fault("access-after-exit",
              "tcgen05.mma uses CTA rank " + std::to_string(cta->rank) + " after it exited", r.origin);
      return;
    }
    if (!d_allocated(e, r, *cta, d) || !operands_allocated(e, r, *cta, w.segments)) return;
  }
  if (e.heard()) [[unlikely]]
    tell_tmem(e, r, d, w.segments);
  fetch_b(e, r, d, w);
  if (exact)
    w.exact.begin(exact_form(r, d), w.b, d.n);
  else
    w.largest = largest_if_small(w.b, k, kMaxN, d.n);
  const bool b_poison = std::any_of(w.b_poison.begin(), w.b_poison.end(), [](PoisonId p) { return p != 0; });
  LaterWrites later(e, r.queue);
  int member = -1;
  for (Cta* cta : r.members()) {
    ++member;
    if (!cta) continue;
    w.a_poison.fill(0);
    if (!r.a_in_tmem) fetch_operand(e, *cta, r.a, r, false, rows, w.a, k, 1, w.a_poison.data());
    if (mode == Into::Scaled) fetch_scales(e, *cta, r, d, later, w);
    if (mode == Into::F32 && !exact && !r.a_in_tmem && !r.scale_d && !r.mask_words && !b_poison &&
        std::all_of(w.a_poison.begin(), w.a_poison.end(), [](PoisonId p) { return p == 0; }) &&
        multiply_whole(r, *cta, w))
      continue;
    Batch batch;
    for (const Segment& s : w.segments) {
      if (r.masked(member, s.lane)) {
        uint8_t* state = cta->tmem.change_state(s.lane, s.column);
        for (int j = 0; j < s.columns; ++j)  // a masked lane keeps its D
          if (state[j] & kPendingMask) state[j] = static_cast<uint8_t>(state[j] - kPendingOne);
        continue;
      }
      const uint8_t* state = cta->tmem.state_at(s.lane, s.column);
      float* a = w.a + s.row * k;
      if (r.a_in_tmem) {
        a = w.a + s.lane * k;
        fetch_tmem_row(e, *cta, r, d, s.lane, later, a, w.a_poison[static_cast<size_t>(s.lane)]);
      }
      const PoisonId row = w.a_poison[static_cast<size_t>(r.a_in_tmem ? s.lane : s.row)];
      const bool settled = all_valid(state, static_cast<size_t>(s.columns));
      const bool old = !settled && r.accumulate && accumulates_poison(e, r, *cta, s, w);
      uint32_t* cells = cta->tmem.at(s.lane, s.column);
      if (mode == Into::F32 || mode == Into::Scaled)
        load_d(r, cells, s.columns, false, reinterpret_cast<float*>(cells));
      if (!batch.takes(s)) multiply(w, r, d, mode, exact, batch);
      batch.segment[batch.count] = &s;
      batch.cells[batch.count] = cells;
      batch.a[batch.count++] = a;
      if (!settled)
        complete_pending(cta->tmem.change_state(s.lane, s.column), static_cast<size_t>(s.columns));
      if (row || old || b_poison) [[unlikely]] {
        if (exact) multiply(w, r, d, mode, exact, batch);
        spread_poison(e, *cta, s, row, old, w);
      }
    }
    multiply(w, r, d, mode, exact, batch);
  }
}

}  // namespace tileproof
