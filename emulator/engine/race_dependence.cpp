// Dependencies of values on reads, followed through registers, shuffles, shared memory and relaxed strong
// accesses (PTX ISA 8.10.4).
#include "race_dependence.hpp"

#include <algorithm>

#include "enumerations/atomics.hpp"
#include "flow.hpp"
#include "machine.hpp"
#include "slots/alu.hpp"
#include "slots/atomics.hpp"
#include "slots/memory.hpp"
#include "slots/sync.hpp"

namespace tileproof {

namespace {
constexpr size_t kMostKept = 1 << 23;  // reads in all sets; a larger union keeps a part only

Handler handler(const char* name) { return handler_table()[static_cast<size_t>(handler_ids().at(name))]; }

bool global(int32_t space) {
  return static_cast<Space>(space) == Space::Global || static_cast<Space>(space) == Space::Generic;
}
}  // namespace

bool Dependences::wanted(const Program& program) {
  const Handler ld = handler("ld"), st = handler("st"), atom = handler("atom");
  bool loads = false, stores = false;
  for (const Instr& i : program.code) {
    if (i.fn == ld && global(i.m[slot::ld::space]))
      loads |= (i.m[slot::ld::order] & (kStrong | kAcquires)) == kStrong;
    if (i.fn == st && global(i.m[slot::st::space]))
      stores |= (i.m[slot::st::order] & (kStrong | kReleases)) == kStrong;
    if (i.fn == atom && global(i.m[slot::atom::space]) && i.o[slot::atom::dst] != INT32_MIN &&
        !(i.m[slot::atom::order] & (kAcquires | kReleases)))
      loads = stores = true;
  }
  return loads && stores;
}

Dependences::Dependences(const Program& program) : program_(program), sets_(1) {}

DependencyId Dependences::id(Set set) {
  if (!set.polled && set.reads.empty()) return 0;
  const auto [it, fresh] = ids_.try_emplace(std::move(set), static_cast<DependencyId>(sets_.size()));
  if (fresh) {
    kept_ += it->first.reads.size() + 1;
    sets_.push_back(it->first);
  }
  return it->second;
}

DependencyId Dependences::both(DependencyId a, DependencyId b) {
  if (a == b || !b) return a;
  if (!a) return b;
  if (a > b) std::swap(a, b);
  if (const auto it = unions_.find({a, b}); it != unions_.end()) return it->second;
  const Set &p = sets_[a], &q = sets_[b];
  if (kept_ + p.reads.size() + q.reads.size() > kMostKept) return b;
  Set all{p.polled ? p.polled : q.polled, {}};
  for (auto i = p.reads.begin(), j = q.reads.begin(); i != p.reads.end() || j != q.reads.end();) {
    if (j == q.reads.end() || (i != p.reads.end() && i->number < j->number))
      all.reads.push_back(*i++);
    else if (i == p.reads.end() || j->number < i->number)
      all.reads.push_back(*j++);
    else
      all.reads.push_back({i->number, i++->lanes | j++->lanes});
  }
  return unions_[{a, b}] = id(std::move(all));
}

Dependences::Registers& Dependences::of(const Warp& w) {
  Registers& r = warps_[&w];
  if (r.of.empty()) r.of.resize(w.registers.size());
  return r;
}

void Dependences::start(const Cta& cta) {
  for (const Warp& w : cta.warps) warps_.erase(&w);
  shared_.erase(&cta);
}

void Dependences::use(DependencyId set) {
  if (!set) return;
  if (uses_of_sets_.size() <= set) uses_of_sets_.resize(sets_.size());
  if (uses_of_sets_[set]) return;
  uses_of_sets_[set] = true;
  for (const Read& r : sets_[set].reads) {
    if (used_.size() <= r.number) used_.resize(reads_);
    used_[r.number] |= r.lanes;
  }
}

// All operands, as they are before the instruction, of the lanes that execute it.
void Dependences::use_operands(const Exec& x) {
  const Registers& r = of(x.w);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    each_source(program_, *x.instr, [&](int32_t off, int) { use(at(r, off, l)); });
    use(at(r, x.instr->pred, l));
  }
}

bool Dependences::used(const Instr& load, uint32_t read, uint32_t lanes) const {
  for (uint32_t k = 0; k < static_cast<uint32_t>(load.m[slot::ld::elements]); ++k)
    if (read + k < used_.size() && used_[read + k] & lanes) return true;
  return false;
}

// ---- instructions

void Dependences::before(const Exec& x) {
  static const Handler shfl = handler("shfl"), vote = handler("vote");
  static const std::array<Handler, 3> selects{handler("selp.16"), handler("selp.32"), handler("selp.64")};
  const Instr& i = *x.instr;
  const Registers& r = of(x.w);
  const Flow flow = rule_of(i.fn).flow;
  const bool selects_one = std::find(selects.begin(), selects.end(), i.fn) != selects.end();
  uses_.fill(0);
  gives_.fill(0);
  if (flow == Flow::Load)
    for (Lanes& element : elements_) element.fill(0);
  if (i.fn == shfl) from_ = shuffle_sources(x, i);
  const bool followed = flow == Flow::WarpCompute || i.fn == shfl || i.fn == vote;
  const bool carried = flow == Flow::Carry;  // into the condition code
  if (depends(flow) && !followed) use_operands(x);
  if (carried || flow == Flow::Load) use_operands(x);
  if (across_lanes(flow)) return;  // the lanes may meet only while it runs
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    DependencyId& set = uses_[static_cast<size_t>(l)];
    each_source(program_, i, [&](int32_t off, int operand) {
      if (flow == Flow::Store && operand < 0) return;  // each element is stored by itself
      if (selects_one && operand != slot::alu::c) {
        const bool first = *x.src<uint32_t>(i.o[slot::alu::c]) >> l & 1;
        if (operand != (first ? slot::alu::a : slot::alu::b)) return;
      }
      set = both(set, at(r, off, l));
    });
    set = both(set, at(r, i.pred, l));
  }
  if (flow == Flow::Depends || flow == Flow::Store) {
    // Whether it takes place at all.
    for (uint32_t m = x.mask; m; m &= m - 1) {
      const size_t l = static_cast<size_t>(__builtin_ctz(m));
      uses_[l] = both(uses_[l], r.control[l]);
    }
    return;  // its results are what it loads
  }
  gives_ = uses_;
}

// What the lanes of a warp give each other.
void Dependences::exchanged(const Exec& x) {
  static const Handler shfl = handler("shfl"), vote = handler("vote");
  const Instr& i = *x.instr;
  const Registers& r = of(x.w);
  DependencyId all = 0;
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    DependencyId& set = gives_[static_cast<size_t>(l)];
    each_source(program_, i, [&](int32_t off, int operand) {
      const bool value = i.fn == shfl && operand == slot::shfl::a;
      set = both(set, at(r, off, value ? static_cast<int>(from_[static_cast<size_t>(l)]) : l));
    });
    set = both(set, at(r, i.pred, l));
    all = both(all, set);
  }
  if (i.fn != shfl) gives_.fill(i.fn == vote || rule_of(i.fn).flow == Flow::WarpCompute ? all : 0);
}

void Dependences::after(const Exec& x) {
  static const Handler shfl = handler("shfl"), ld = handler("ld");
  const Instr& i = *x.instr;
  if (const Flow flow = rule_of(i.fn).flow; flow == Flow::WarpMove || flow == Flow::WarpCompute) exchanged(x);
  Registers& r = of(x.w);
  size_t element = 0;
  each_result(program_, i, [&](int32_t off) {
    Lanes& to = r.of[static_cast<size_t>(off) / 64];
    for (uint32_t m = x.mask; m; m &= m - 1) {
      const size_t l = static_cast<size_t>(__builtin_ctz(m));
      to[l] = i.fn == shfl && off == i.o[slot::shfl::inside] ? 0 : gives_[l];
      if (i.fn == ld) to[l] = both(to[l], elements_[element][l]);
    }
    ++element;
  });
}

void Dependences::skipped(const Warp& w, const Instr& i, uint32_t lanes) {
  Registers& r = of(w);
  if (depends(rule_of(i.fn).flow))
    for (uint32_t m = lanes; m; m &= m - 1) use(at(r, i.pred, __builtin_ctz(m)));
  each_result(program_, i, [&](int32_t off) {
    Lanes& to = r.of[static_cast<size_t>(off) / 64];
    for (uint32_t m = lanes; m; m &= m - 1) {
      const int l = __builtin_ctz(m);
      to[static_cast<size_t>(l)] = both(to[static_cast<size_t>(l)], at(r, i.pred, l));
    }
  });
}

// Whether the branch leaves a loop that contains the load, as the code is laid out.
bool Dependences::leaves_loop_of(const Instr& branch, const Instr& load) const {
  static const Handler bra = handler_table()[static_cast<size_t>(branch_handler())];
  const auto place = [&](const Instr& i) { return static_cast<int32_t>(&i - program_.code.data()); };
  const int32_t here = place(branch), loaded = place(load);
  for (const Instr& back : program_.code) {
    if (back.fn != bra || back.target > place(back)) continue;
    const auto inside = [&](int32_t pc) { return back.target <= pc && pc <= place(back); };
    if (inside(here) && inside(loaded) && !(inside(branch.target) && inside(here + 1))) return true;
  }
  return false;
}

void Dependences::branch(const Warp& w, const Instr& i, uint32_t lanes) {
  if (i.pred < 0) return;
  Registers& r = of(w);
  const Instr* known = nullptr;
  for (uint32_t m = lanes; m; m &= m - 1) {
    const size_t l = static_cast<size_t>(__builtin_ctz(m));
    const DependencyId set = at(r, i.pred, static_cast<int>(l));
    use(set);
    const Instr* polled = sets_[set].polled;
    if (!polled || (polled != known && !leaves_loop_of(i, *polled))) continue;
    known = polled;
    r.control[l] = both(r.control[l], set);
  }
}

// ---- accesses

uint32_t Dependences::weak_read(const Exec& x, int lane, uint32_t read) {
  static const Handler ld = handler("ld");
  if (x.instr->fn != ld) return 0;
  if (!read) {
    read = reads_;
    reads_ += static_cast<uint32_t>(x.instr->m[slot::ld::elements]);
  }
  for (uint32_t k = 0; k < static_cast<uint32_t>(x.instr->m[slot::ld::elements]); ++k)
    elements_[k][static_cast<size_t>(lane)] = id({nullptr, {{read + k, 1u << lane}}});
  return read;
}

// What element k of the running store depends on; an atomic operation is of one element.
DependencyId Dependences::stored(const Exec& x, size_t lane, uint32_t k) {
  const DependencyId common = uses_[lane];
  if (rule_of(x.instr->fn).flow != Flow::Store) return common;
  const int32_t value = program_.vec[static_cast<size_t>(x.instr->vec) + k];
  return both(common, at(of(x.w), value, static_cast<int>(lane)));
}

// Calls f(element, its first byte, its bytes) for the elements of an access.
template <class F>
void Dependences::each_element(const Exec& x, uint64_t first, uint32_t size, F&& f) {
  const Flow flow = rule_of(x.instr->fn).flow;
  const uint32_t bytes =
      flow == Flow::Load || flow == Flow::Store ? static_cast<uint32_t>(x.instr->m[slot::ld::bytes]) : size;
  for (uint32_t k = 0; k * bytes < size; ++k) f(k, first + k * bytes, bytes);
}

void Dependences::strong_read(const Exec& x, int lane, uint64_t address, uint32_t size) {
  const size_t l = static_cast<size_t>(lane);
  each_element(x, address, size, [&](uint32_t k, uint64_t first, uint32_t bytes) {
    const auto flag = flags_.find({first, bytes});
    Set set{x.instr, {}};
    if (flag != flags_.end()) set.reads = sets_[flag->second].reads;
    DependencyId& to = rule_of(x.instr->fn).flow == Flow::Load ? elements_[k][l] : gives_[l];
    to = both(to, id(std::move(set)));
  });
}

void Dependences::strong_write(const Exec& x, int lane, uint64_t address, uint32_t size) {
  static const Handler atom = handler("atom");
  const bool adds =
      x.instr->fn == atom && static_cast<Reduction>(x.instr->m[slot::atom::operation]) != Reduction::Exch;
  each_element(x, address, size, [&](uint32_t k, uint64_t first, uint32_t bytes) {
    DependencyId& flag = flags_[{first, bytes}];
    flag = both(adds ? flag : 0, stored(x, static_cast<size_t>(lane), k));
  });
}

void Dependences::shared(const Exec& x, const Cta& cta, uint32_t offset, uint32_t size, int lane,
                         bool write) {
  static const Handler atom = handler("atom");
  const size_t l = static_cast<size_t>(lane);
  auto known = shared_.find(&cta);
  if (known == shared_.end()) {
    if (!write) return;
    known = shared_.emplace(&cta, std::vector<DependencyId>(cta.shared.data.size())).first;
  }
  each_element(x, offset, size, [&](uint32_t k, uint64_t first, uint32_t bytes) {
    const DependencyId value = write ? stored(x, l, k) : 0;
    for (uint64_t b = first; b < first + bytes; ++b) {
      DependencyId& byte = known->second[b];
      if (!write) {
        DependencyId& to = rule_of(x.instr->fn).flow == Flow::Load ? elements_[k][l] : gives_[l];
        to = both(to, byte);
      } else {
        byte = both(x.instr->fn == atom ? byte : 0, value);
      }
    }
  });
}

void Dependences::overwritten(const Cta& cta, uint32_t offset, uint32_t size) {
  if (const auto known = shared_.find(&cta); known != shared_.end())
    std::fill_n(known->second.begin() + offset, size, 0);
}

void Dependences::taken(const Cta& cta, uint32_t offset, uint32_t size) {
  if (const auto known = shared_.find(&cta); known != shared_.end())
    for (uint32_t k = offset; k < offset + size; ++k) use(known->second[k]);
}

uint32_t Dependences::apart(const Exec& x, int lane, const Instr& load, uint32_t read, uint32_t lanes) {
  static const Handler ld = handler("ld"), st = handler("st");
  // Accesses of different sizes are beyond the axioms (PTX ISA 8.7.2).
  if (load.fn != ld || x.instr->fn != st || load.m[slot::ld::bytes] != x.instr->m[slot::st::bytes])
    return lanes;
  const uint32_t elements = static_cast<uint32_t>(load.m[slot::ld::elements]);
  const size_t l = static_cast<size_t>(lane);
  const auto& reads = sets_[x.instr->m[slot::st::elements] == 1 ? stored(x, l, 0) : uses_[l]].reads;
  auto it = std::lower_bound(reads.begin(), reads.end(), read,
                             [](const Read& r, uint32_t number) { return r.number < number; });
  uint32_t missing = 0;
  for (uint32_t k = 0; k < elements; ++k, ++it) {
    if (it == reads.end() || it->number != read + k) return lanes;
    missing |= lanes & ~it->lanes;
  }
  return missing;
}

}  // namespace tileproof
