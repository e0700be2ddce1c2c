// Registers of wgmma in flight: from an mma_async to the wait_group that covers it nothing else may access
// its D or its A; and wgmma.fence stands between other accesses and the mma_async that follows (PTX
// ISA 9.7.15.7).
#include <string>

#include "flow.hpp"
#include "machine.hpp"
#include "slots/wgmma.hpp"
#include "wgmma.hpp"

namespace tileproof {
namespace {

Handler handler(const char* name) { return handler_table()[static_cast<size_t>(handler_ids().at(name))]; }
bool is_mma_async(const Instr& i) {
  static const Handler fn = handler("wgmma.mma_async");
  return i.fn == fn;
}

size_t place(int32_t offset) { return static_cast<size_t>(offset) / 64; }
std::string line(const Instr* i) { return "PTX line " + std::to_string(i->line); }

// Calls f with the offset of each register of D, then of A; whether it is of A.
template <class F>
void each_fragment(const Program& p, const Instr& i, F&& f) {
  for (int32_t k = 0; k < i.nvec; ++k)
    if (const int32_t off = p.vec[static_cast<size_t>(i.vec + k)]; off >= 0) f(off, k >= i.vec_end);
}

FragmentUse& use_of(Exec& x, WarpFragments& warp, int32_t offset) {
  if (warp.uses.empty()) warp.uses.resize(x.w.registers.size());
  return warp.uses[place(offset)];
}

}  // namespace

void mark_fragment_accesses(const Program& program, std::vector<uint8_t>& marks) {
  std::vector<bool> fragment;
  for (const Instr& i : program.code)
    if (is_mma_async(i))
      each_fragment(program, i, [&](int32_t off, bool) {
        fragment.resize(std::max(fragment.size(), place(off) + 1));
        fragment[place(off)] = true;
      });
  if (fragment.empty()) return;
  auto touches = [&](int32_t off) { return place(off) < fragment.size() && fragment[place(off)]; };
  for (size_t n = 0; n < program.code.size(); ++n) {
    const Instr& i = program.code[n];
    bool found = false;
    if (is_mma_async(i)) continue;
    each_source(program, i, [&](int32_t off, int) { found |= touches(off); });
    each_result(program, i, [&](int32_t off) { found |= touches(off); });
    if (found) marks[n] |= kFragments;
  }
}

void check_fragment_access(Exec& x, const Instr& i) {
  Warpgroup& group = warpgroup_of(x.w);
  WarpFragments& warp = group.warps[static_cast<size_t>(x.w.index % kWarpgroup)];
  auto look = [&](int32_t off, bool writes) {
    FragmentUse& use = use_of(x, warp, off);
    use.fence = warp.fences + 1;
    use.by = &i;
    const bool d = use.as_d > warp.waited, a = use.as_a > warp.waited;
    if (!d && !a) return;
    const Instr* mma = d ? use.d_by : use.a_by;
    const std::string what = std::string(writes ? "writes" : "reads") + " a register of " + (d ? "D" : "A") +
                             " of the wgmma.mma_async at " + line(mma) +
                             ", which is in flight: wgmma.wait_group for its group is missing";
    const std::string name = x.e.program.names[static_cast<size_t>(i.name)] + " ";
    if (d || writes)
      x.e.error("wgmma-in-flight", name + what, x.origin(x.lane()));
    else
      x.e.warn("wgmma-a-read", name + what, x.origin(x.lane()));
    if (d)
      use.as_d = 0;
    else if (writes)
      use.as_a = 0;
  };
  each_source(x.e.program, i, [&](int32_t off, int) { look(off, false); });
  each_result(x.e.program, i, [&](int32_t off) { look(off, true); });
}

void issue_fragments(Exec& x, const Instr& i, WarpFragments& warp, uint64_t serial) {
  const Origin at = x.origin(x.lane());
  if (!warp.fences) {
    x.e.error("wgmma-fence",
              "the first wgmma.mma_async of a warp without a wgmma.fence before it (PTX ISA 9.7.15.7.1)", at);
    warp.fences = 1;  // told once
  }
  auto alike = [&](const Instr& other) {
    namespace s = slot::wgmma_mma_async;
    return other.m[s::n] == i.m[s::n] && other.m[s::d_type] == i.m[s::d_type] &&
           other.m[s::a_type] == i.m[s::a_type] && other.m[s::b_type] == i.m[s::b_type];
  };
  each_fragment(x.e.program, i, [&](int32_t off, bool is_a) {
    FragmentUse& use = use_of(x, warp, off);
    const char* of = is_a ? "A" : "D";
    if (use.fence == warp.fences + 1)
      x.e.error("wgmma-fence",
                std::string("a register of ") + of + " is accessed by " +
                    x.e.program.names[static_cast<size_t>(use.by->name)] + " at " + line(use.by) +
                    ", and no wgmma.fence stands between it and wgmma.mma_async (PTX ISA 9.7.15.7.1)",
                at);
    // Another mma_async in flight: the accumulator of the same shape is in order, that of another shape over
    // a fence. What is A of the one and D of the other has to be waited for.
    const bool as_d = use.as_d > warp.waited, as_a = use.as_a > warp.waited;
    const Instr* other = is_a ? use.d_by : use.a_by;
    if (is_a ? as_d : as_a)
      x.e.error("wgmma-in-flight",
                std::string("a register of ") + of + " is " + (is_a ? "D" : "A") +
                    " of the wgmma.mma_async at " + line(other) +
                    ", which is in flight: wgmma.wait_group for its group is missing",
                at);
    if (!is_a && as_d && use.mma_fence == warp.fences && !alike(*use.d_by))
      x.e.error("wgmma-fence",
                "a register of D is D of the wgmma.mma_async at " + line(use.d_by) +
                    ", which is in flight and has another shape: wgmma.fence is missing between them",
                at);
    use.mma_fence = warp.fences;
    use.fence = 0;
    (is_a ? use.as_a : use.as_d) = serial;
    (is_a ? use.a_by : use.d_by) = &i;
  });
}

}  // namespace tileproof
