// tcgen05.ld, st and their waits (PTX ISA 9.7.16.8).
#include "mma.hpp"
#include "queues.hpp"
#include "poison_memory.hpp"
#include "race.hpp"
#include "slots/tcgen05.hpp"
#include "tmem_map.hpp"
#include "tmem_reduce.hpp"

#include "tmem_loads.hpp"

namespace tileproof {
namespace {

namespace moved = slot::tcgen05_ld;
static_assert(+moved::address == +slot::tcgen05_st::address && +moved::shape == +slot::tcgen05_st::shape &&
              +moved::count == +slot::tcgen05_st::count && +moved::packed == +slot::tcgen05_st::packed);

// What a tcgen05.ld or st moves.
struct Movement {
  explicit Movement(const Instr& i)
      : shape(static_cast<TmemShape>(i.m[moved::shape])),
        count(i.m[moved::count]),
        second(static_cast<int>(i.imm)),
        packed(i.m[moved::packed]) {}
  TmemShape shape;
  int count, second;
  bool packed;
  int width() const { return tmem_width(shape, count, second, packed); }
  int cells() const { return packed ? 2 : 1; }  // of a register
  std::pair<int, int> place(int t, int k) const {
    return packed ? tmem_packed_place(shape, t, k, second) : tmem_place(shape, t, k, second);
  }
};

}  // namespace

// The cells of a `load`, or of the st that completes now: per column, the lanes of each sixteenth.
void tell_cells(Engine& e, Cta& cta, const Instr& i, int lane0, int column, const PendingTmemLoad* load) {
  if (!e.heard()) [[likely]]
    return;
  const bool write = !load;
  const Movement move(i);
  if (move.shape == TmemShape::k32x32b) {
    const int columns = i.nvec * move.cells();
    for (int half = 0; half < 2; ++half)
      e.tell(&Listener::tmem, cta, lane0 / 16 + half, static_cast<uint16_t>(0xffff), column, columns, write,
             load);
    return;
  }
  std::map<int, uint32_t> lanes;  // by column; bit of the lane counted from lane0
  for (int32_t k = 0; k < i.nvec; ++k)
    for (int t = 0; t < 32; ++t) {
      auto [dl, dc] = move.place(t, k);
      for (int half = 0; half < move.cells(); ++half) lanes[dc + half] |= 1u << dl;
    }
  for (auto [c, mask] : lanes)
    for (int half = 0; half < 2; ++half)
      if (const uint16_t units = static_cast<uint16_t>(mask >> 16 * half))
        e.tell(&Listener::tmem, cta, lane0 / 16 + half, units, column + c, 1, write, load);
}

namespace {

// Lane and column that a warp's ld / st starts from. Warp w reaches lanes 32 (w % 4) .. +31 whatever the
// address says.
bool tmem_address(Exec& x, const Instr& i, uint32_t taddr, int& lane0, int& column) {
  const uint32_t* taddrs = x.src<uint32_t>(i.o[moved::address]);
  for (uint32_t m = x.mask; m; m &= m - 1)
    if ((taddrs[__builtin_ctz(m)] & 0xffff) != (taddr & 0xffff)) {
      x.e.fault("tmem-address-uniform", "the threads of a warp pass different TMEM columns",
                x.origin(x.lane()), taddr);
      return false;
    }
  const Movement move(i);
  const int quarter = 32 * (x.w.index % 4);
  const int said = static_cast<int>(taddr >> 16);
  column = static_cast<int>(taddr & 0xffff);
  lane0 = quarter + (move.shape != TmemShape::k32x32b && (said & 16) ? 16 : 0);
  auto reach = [&] {
    return ", but warp " + std::to_string(x.w.index) + " reaches lanes " + std::to_string(quarter) + ".." +
           std::to_string(quarter + 31) + " only";
  };
  if (said / 32 != x.w.index % 4)  // a fault of code compiled with ptxas -g-tmem-access-check only
    x.e.warn("tmem-lane-quarter", "the address names TMEM lane " + std::to_string(said) + reach(),
             x.origin(x.lane()), taddr);
  else if (said != lane0)
    x.e.note("tmem-lane-offset",
             "the address names TMEM lane " + std::to_string(said) +
                 " inside the warp's quarter; the access starts at lane " + std::to_string(lane0),
             x.origin(x.lane()));
  const int width = move.width();
  if (!x.cta.tmem.allocated(column, width)) {
    x.e.fault("tmem-not-allocated",
              "TMEM columns [" + std::to_string(column) + ", " + std::to_string(column + width) +
                  ") are not all allocated",
              x.origin(x.lane()), taddr);
    return false;
  }
  return true;
}

Step tmem_ld(Exec& x, const Instr& i) {
  if (!x.whole_warp()) return Step::Block;
  const uint32_t* taddr = x.src<uint32_t>(i.o[moved::address]);
  const int l = x.lane();
  int lane0, column;
  if (!tmem_address(x, i, taddr[l], lane0, column)) return Step::Stop;
  PendingTmemLoad load{&i, x.mask, static_cast<uint32_t>(lane0) << 16 | static_cast<uint32_t>(column)};
  x.e.tell(&Listener::tmem_load, x, load, column);
  // Late and random schedules read TMEM only when the registers are needed: at wait::ld or at the first use.
  if (x.e.early()) x.e.finish_tmem_load(x.w, load);
  size_t slot = 0;
  while (slot < x.w.tmem_loads.size() && !x.w.tmem_loads[slot].released) ++slot;
  if (slot == x.w.tmem_loads.size()) x.w.tmem_loads.emplace_back();
  x.w.tmem_loads[slot] = load;
  x.w.open_loads++;
  x.w.slow = true;
  const uint16_t mark = static_cast<uint16_t>(slot + 1);
  if (x.w.load_of_register.empty()) x.w.load_of_register.assign(x.w.registers.size(), 0);
  for (int32_t k = 0; k < i.nvec; ++k) {
    const size_t off = static_cast<size_t>(x.e.program.vec[static_cast<size_t>(i.vec + k)]);
    x.w.load_of_register[off / 64] = x.w.load_of_register[off / 64 + 1] = mark;
  }
  if (const int32_t off = i.o[moved::reduced]; off != INT32_MIN) {
    const size_t at = static_cast<size_t>(off) / 64;
    x.w.load_of_register[at] = x.w.load_of_register[at + 1] = mark;
  }
  return Step::Next;
}

// The cells that a tcgen05.st is going to write.
std::vector<TmemWrite> written_cells(const Cta& cta, const Instr& i, int lane0, int column) {
  const Movement move(i);
  const bool split = move.shape == TmemShape::k16x32bx2;
  TmemWrite w{&cta, {}, column, split ? move.count * move.cells() : move.width()};
  for (int lane = 0; lane < (move.shape == TmemShape::k32x32b ? 32 : 16); ++lane) w.add_lane(lane0 + lane);
  std::vector<TmemWrite> writes{w};
  if (split) {
    w.column += move.second;
    writes.push_back(w);
  }
  return writes;
}

// tcgen05.st: same operands; the source registers are read now, the cells change at completion.
Step tmem_st(Exec& x, const Instr& i) {
  if (!x.whole_warp()) return Step::Block;
  const int l = x.lane();
  int lane0, column;
  if (!tmem_address(x, i, x.src<uint32_t>(i.o[moved::address])[l], lane0, column)) return Step::Stop;
  const Movement move(i);
  struct Cell {
    int lane, column;
    uint32_t value;
    PoisonId poison;
  };
  auto cells = std::make_shared<std::vector<Cell>>();
  for (int32_t k = 0; k < i.nvec; ++k) {
    const int32_t off = x.e.program.vec[static_cast<size_t>(i.vec + k)];
    const uint32_t* v = x.src<uint32_t>(off);
    const PoisonRegister* p = x.w.poison.at(off);
    for (int t = 0; t < 32; ++t) {
      auto [dl, dc] = move.place(t, k);
      const bool poison = p && (p->lanes >> t & 1);
      const PoisonId set = poison ? p->set[static_cast<size_t>(t)] : 0;
      if (poison) x.e.poisons.computed(set);
      if (!move.packed) {
        cells->push_back({lane0 + dl, column + dc, v[t], set});
        continue;
      }
      // Nothing says what the upper half of a cell becomes: what a 16-bit D leaves there too.
      auto half = [&](int h) { return poison && (p->lane(t)[2 * h] || p->lane(t)[2 * h + 1]) ? set : 0; };
      cells->push_back({lane0 + dl, column + dc, v[t] | 0xffff0000, half(0)});
      cells->push_back({lane0 + dl, column + dc + 1, v[t] >> 16 | 0xffff0000, half(1)});
    }
  }
  const bool pending = !x.e.early();
  if (pending)
    for (const Cell& c : *cells) add_pending(x.cta.tmem.change_state(c.lane, c.column), 1);
  Cta* cta = &x.cta;
  Engine* e = &x.e;
  const Instr* instr = &i;
  x.e.counters.tmem_bytes += cells->size() * 4;
  auto effect = [=] {
    tell_cells(*e, *cta, *instr, lane0, column, nullptr);
    for (const auto& c : *cells) {
      *cta->tmem.at(c.lane, c.column) = c.value;
      complete_pending(cta->tmem.change_state(c.lane, c.column), 1);
      if (c.poison) store_poison(*cta, c.lane, c.column, c.poison);
    }
  };
  x.e.issue("TMEM store", store_queue(x.cta, x.w.index), x.origin(l), effect,
            pending ? written_cells(*cta, i, lane0, column) : std::vector<TmemWrite>{},
            static_cast<int64_t>(cells->size() * 4));
  return Step::Next;
}

Step wait_ld(Exec& x, const Instr&) {
  if (!x.whole_warp()) return Step::Block;
  x.e.finish_tmem_loads(x.w);
  x.e.tell(&Listener::tmem_loads_done, x.w);
  return x.e.stopped ? Step::Stop : Step::Next;
}
Step wait_st(Exec& x, const Instr&) {
  if (!x.whole_warp()) return Step::Block;
  x.e.complete_queue(store_queue(x.cta, x.w.index));
  x.e.tell(&Listener::tmem_stores_done, x.w);
  return Step::Next;
}

const Registrar tmem({
    {"tcgen05.ld", tmem_ld},
    {"tcgen05.st", tmem_st},
    {"tcgen05.wait.ld", wait_ld},
    {"tcgen05.wait.st", wait_st},
});

}  // namespace

void Engine::finish_tmem_load(Warp& w, PendingTmemLoad& load) {
  if (load.done) return;
  load.done = true;
  const Instr& i = *load.instr;
  const Movement move(i);
  const int lane0 = static_cast<int>(load.taddr >> 16), column = static_cast<int>(load.taddr & 0xffff);
  TensorMemory& tm = w.cta->tmem;
  tell_cells(*this, *w.cta, i, lane0, column, &load);
  counters.tmem_bytes += static_cast<uint64_t>(i.nvec) * 128;
  if (move.shape == TmemShape::k32x32b && !move.packed && load.mask == ~0u) {  // a row of cells a lane
    bool valid = true;
    for (int t = 0; t < 32 && valid; ++t)
      valid = all_valid(tm.state_at(lane0 + t, column), static_cast<size_t>(i.nvec));
    if (valid) {
      const uint32_t* cells = tm.at(lane0, column);
      for (int32_t k = 0; k < i.nvec; ++k) {
        uint32_t* d = reinterpret_cast<uint32_t*>(w.regs() + program.vec[static_cast<size_t>(i.vec + k)]);
        for (int t = 0; t < 32; ++t) d[t] = cells[t * kTmemColumns + k];
      }
      if (i.o[moved::reduced] != INT32_MIN) reduce_loaded(*this, w, load);
      return;
    }
  }
  for (int32_t k = 0; k < i.nvec; ++k) {
    uint32_t* d = reinterpret_cast<uint32_t*>(w.regs() + program.vec[static_cast<size_t>(i.vec + k)]);
    for (int t = 0; t < 32; ++t) {
      if (!(load.mask >> t & 1)) continue;
      auto [dl, dc] = move.place(t, k);
      const int lane = lane0 + dl, first = column + dc;
      uint32_t v = 0;
      uint8_t bits[4] = {};
      PoisonId set = 0;
      for (int half = 0; half < move.cells(); ++half) {
        const int c = first + half;
        const uint8_t state = *tm.state_at(lane, c);
        uint32_t cell = *tm.at(lane, c);
        if (state != kValid) {
          cell = kPoisonWord;
          const Origin at{&i, w.cta->id, w.cta->rank, w.index, t};
          if (state & kPendingMask) {
            error("tmem-pending",
                  "tcgen05.ld reads TMEM lane " + std::to_string(lane) + " column " + std::to_string(c) +
                      " of CTA rank " + std::to_string(w.cta->rank) +
                      ", whose asynchronous write has not completed: a wait is missing",
                  at, static_cast<uint64_t>(lane) << 16 | static_cast<uint64_t>(c));
            if (finish_stores_to(*w.cta, lane, c)) cell = *tm.at(lane, c);
          } else {
            set = poisons.both(
                set, poison_in_cell(*this, *w.cta, lane, c,
                                    "tcgen05.ld reads TMEM lane " + std::to_string(lane) + " column " +
                                        std::to_string(c) + " of CTA rank " + std::to_string(w.cta->rank) +
                                        ", which was never written",
                                    at, true));
            std::memset(bits + (move.packed ? 2 * half : 0), 0xff, move.packed ? 2 : 4);
          }
        }
        v = move.packed ? v | (cell & 0xffff) << (16 * half) : cell;
      }
      d[t] = v;
      if (!set) continue;
      mark_poison(w, static_cast<int32_t>(reinterpret_cast<uint8_t*>(d) - w.regs()), t, bits, set);
      if (i.o[moved::reduced] != INT32_MIN) mark_poison(w, i.o[moved::reduced], t, nullptr, set);
    }
  }
  if (i.o[moved::reduced] != INT32_MIN) reduce_loaded(*this, w, load);
}

void Engine::release_tmem_load(Warp& w, PendingTmemLoad& load) {
  finish_tmem_load(w, load);
  if (load.released) return;
  load.released = true;
  tell(&Listener::tmem_load_used, w, load);
  for (int32_t k = 0; k < load.instr->nvec; ++k) {
    const size_t off = static_cast<size_t>(program.vec[static_cast<size_t>(load.instr->vec + k)]);
    w.load_of_register[off / 64] = w.load_of_register[off / 64 + 1] = 0;
  }
  if (const int32_t off = load.instr->o[moved::reduced]; off != INT32_MIN) {
    const size_t at = static_cast<size_t>(off) / 64;
    w.load_of_register[at] = w.load_of_register[at + 1] = 0;
  }
  if (--w.open_loads == 0) {
    w.tmem_loads.clear();
    w.slow = (races_ && races_->follows()) || w.poison.any();
  }
}

void Engine::finish_tmem_loads(Warp& w) {
  for (size_t k = 0; k < w.tmem_loads.size(); ++k) release_tmem_load(w, w.tmem_loads[k]);
}

// A register that an instruction really depends on is waited for by the hardware; the missing wait::ld is a
// note.
void Engine::check_tmem_load_use(Warp& w, const Instr& i, const Origin& at) {
  auto look = [&](int32_t off) {
    if (off < 0) return;
    const uint16_t mark = w.load_of_register[static_cast<size_t>(off) / 64];
    if (!mark) return;
    note("tmem-ld-not-waited", "a register of tcgen05.ld is used without tcgen05.wait::ld", at);
    release_tmem_load(w, w.tmem_loads[mark - 1u]);
  };
  for (int32_t off : i.o) look(off);
  for (int32_t k = 0; k < i.nvec; ++k) look(program.vec[static_cast<size_t>(i.vec + k)]);
}

}  // namespace tileproof
