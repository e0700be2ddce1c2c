// The first use of a register that holds cells of tensor memory which nothing has written.
#include "tmem_poison.hpp"

#include <unordered_set>

#include "machine.hpp"

namespace tileproof {

void PoisonRegisters::mark(size_t units, const PoisonRegister& r) {
  if (PoisonRegister* old = at(r.offset)) {
    old->lanes |= r.lanes;
    return;
  }
  if (index_.empty()) index_.assign(units, 0);
  size_t n = 0;
  while (n < registers_.size() && registers_[n].offset >= 0) ++n;
  if (n == registers_.size()) registers_.emplace_back();
  registers_[n] = r;
  index_[static_cast<size_t>(r.offset) / 64] = static_cast<uint16_t>(n + 1);
  ++live_;
}

void PoisonRegisters::drop(int32_t offset, uint32_t lanes) {
  PoisonRegister* r = at(offset);
  if (!r || (r->lanes &= ~lanes)) return;
  index_[static_cast<size_t>(offset) / 64] = 0;
  r->offset = -1;
  --live_;
}

namespace {

std::unordered_set<Handler> handlers_named(std::initializer_list<const char*> names) {
  std::unordered_set<Handler> found;
  for (const char* name : names)
    if (const auto it = handler_ids().find(name); it != handler_ids().end())
      found.insert(handler_table()[static_cast<size_t>(it->second)]);
  return found;
}

}  // namespace

void Engine::check_poison_use(Warp& w, const Instr& i, uint32_t mask) {
  static const auto copies = handlers_named({"mov.32", "mov.64", "mov.pack", "mov.unpack"});
  const bool copy = copies.contains(i.fn);
  const int32_t from = i.vec_from, end = i.vec_end;
  PoisonRegister carried;
  auto look = [&](int32_t offset) {
    PoisonRegister* p = w.poison.at(offset);
    if (!p || !(p->lanes & mask)) return;
    if (copy) {
      if (carried.offset < 0) carried = *p;
      carried.lanes |= p->lanes;
      return;
    }
    const std::string message = "tcgen05.ld reads TMEM lane " + std::to_string(p->tmem_lane) + " column " +
                                std::to_string(p->column) + " of CTA rank " + std::to_string(w.cta->rank) +
                                ", which was never written, and " +
                                program.names[static_cast<size_t>(i.name)] + " at line " +
                                std::to_string(i.line) + " uses the value";
    for (uint32_t m = p->lanes & mask; m; m &= m - 1)
      error("tmem-uninitialised", message, p->load,
            static_cast<uint64_t>(p->tmem_lane) << 16 | static_cast<uint64_t>(p->column));
    w.poison.drop(offset, ~0u);
  };
  for (size_t k = 0; k < std::size(i.o); ++k)
    if (!(i.written >> k & 1)) look(i.o[k]);
  for (int32_t k = 0; k < i.nvec; ++k)
    if (k < from || k >= end) look(program.vec[static_cast<size_t>(i.vec + k)]);
  auto fill = [&](int32_t offset) {
    if (offset < 0) return;
    w.poison.drop(offset, mask);
    if (carried.offset < 0 || !(carried.lanes & mask)) return;
    PoisonRegister p = carried;
    p.offset = offset;
    p.lanes &= mask;
    w.poison.mark(w.registers.size(), p);
  };
  for (size_t k = 0; k < std::size(i.o); ++k)
    if (i.written >> k & 1) fill(i.o[k]);
  for (int32_t k = from; k < end; ++k) fill(program.vec[static_cast<size_t>(i.vec + k)]);
  w.slow = w.open_loads > 0 || w.poison.any();
}

}  // namespace tileproof
