// The first use of a register that holds cells of tensor memory which nothing has written.
#include "tmem_poison.hpp"

#include <unordered_set>

#include "machine.hpp"
#include "slots/alu.hpp"
#include "slots/tcgen05.hpp"

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

// Sources are the operands behind the first and the vector; of loads and mov.unpack the vector is the
// destination.
void Engine::check_poison_use(Warp& w, const Instr& i, uint32_t mask) {
  static const auto fills_vector = handlers_named({"ld", "mov.unpack", "tcgen05.ld", "ldmatrix"});
  static const auto tmem_loads = handlers_named({"tcgen05.ld"});
  static const auto copies = handlers_named({"mov.32", "mov.64", "mov.pack", "mov.unpack"});
  const bool to_vector = fills_vector.contains(i.fn), copy = copies.contains(i.fn);
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
  const bool from_tmem = tmem_loads.contains(i.fn);  // its second operand is a result of .red
  if (!from_tmem)
    for (size_t k = slot::alu::dst + 1; k < std::size(i.o); ++k) look(i.o[k]);
  if (!to_vector)
    for (int32_t k = 0; k < i.nvec; ++k) look(program.vec[static_cast<size_t>(i.vec + k)]);
  auto fill = [&](int32_t offset) {
    if (offset < 0) return;
    w.poison.drop(offset, mask);
    if (carried.offset < 0 || !(carried.lanes & mask)) return;
    PoisonRegister p = carried;
    p.offset = offset;
    p.lanes &= mask;
    w.poison.mark(w.registers.size(), p);
  };
  fill(i.o[slot::alu::dst]);
  if (from_tmem) fill(i.o[slot::tcgen05_ld::reduced]);
  if (to_vector)
    for (int32_t k = 0; k < i.nvec; ++k) fill(program.vec[static_cast<size_t>(i.vec + k)]);
  w.slow = w.open_loads > 0 || w.poison.any();
}

}  // namespace tileproof
