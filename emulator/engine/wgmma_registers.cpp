// Registers of wgmma in flight: from an mma_async to the wait_group that covers it nothing else may access
// its D or its A; and wgmma.fence stands between other accesses and the mma_async that follows (PTX
// ISA 9.7.15.7).
#include <algorithm>
#include <string>
#include <utility>

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

// Calls f with the offset of each register of D, then of A, from the number `first` on; whether it is of A.
template <class F>
void each_fragment(const Program& p, const Instr& i, int32_t first, F&& f) {
  for (int32_t k = first; k < i.nvec; ++k)
    if (const int32_t off = p.vec[static_cast<size_t>(i.vec + k)]; off >= 0) f(off, k >= i.vec_end);
}

FragmentUse& use_of(Exec& x, WarpFragments& warp, int32_t offset) {
  if (warp.uses.empty()) warp.uses.resize(x.w.registers.size());
  return warp.uses[place(offset)];
}

// The uses of the registers of a run get what it stands for.
void end_run(Exec& x, WarpFragments& warp, std::vector<Run>::iterator at) {
  const Run run = *at;
  warp.runs.erase(at);
  each_fragment(x.e.program, *run.last, 0, [&](int32_t off, bool is_a) {
    if (is_a) return;
    FragmentUse& use = use_of(x, warp, off);
    use.as_d = run.serial;
    use.d_by = run.last;
    use.mma_fence = run.fences;
  });
}

std::vector<Run>::iterator run_of(WarpFragments& warp, const FragmentUse& use) {
  return std::find_if(warp.runs.begin(), warp.runs.end(), [&](const Run& r) { return r.first == use.as_d; });
}

void end_run_of(Exec& x, WarpFragments& warp, const FragmentUse& use) {
  if (const auto at = run_of(warp, use); at != warp.runs.end()) end_run(x, warp, at);
}

bool alike(const Instr& a, const Instr& b) {
  namespace s = slot::wgmma_mma_async;
  return a.m[s::n] == b.m[s::n] && a.m[s::d_type] == b.m[s::d_type] && a.m[s::a_type] == b.m[s::a_type] &&
         a.m[s::b_type] == b.m[s::b_type];
}

// Of alike operations, whether they have the same D.
bool same_d(const Program& p, const Instr& a, const Instr& b) {
  const int32_t *at = &p.vec[static_cast<size_t>(a.vec)], *other = &p.vec[static_cast<size_t>(b.vec)];
  return at == other || std::equal(at, at + a.vec_end, other);
}

}  // namespace

void mark_fragment_accesses(const Program& program, std::vector<uint8_t>& marks) {
  std::vector<bool> fragment;
  for (const Instr& i : program.code)
    if (is_mma_async(i))
      each_fragment(program, i, 0, [&](int32_t off, bool) {
        fragment.resize(std::max(fragment.size(), place(off) + 1));
        fragment[place(off)] = true;
      });
  if (fragment.empty()) return;
  auto touches = [&](int32_t off) {
    return off >= 0 && place(off) < fragment.size() && fragment[place(off)];
  };
  for (size_t n = 0; n < program.code.size(); ++n) {
    const Instr& i = program.code[n];
    bool found = false;
    if (is_mma_async(i)) {
      if (i.imm && touches(i.o[slot::wgmma_mma_async::metadata])) marks[n] |= kFragments;
      continue;
    }
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
    end_run_of(x, warp, use);
    if (use.d_by) write_back(x.e.program, x.cta, x.w.index / kWarpgroup * kWarpgroup);
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
  if (is_mma_async(i)) return look(i.o[slot::wgmma_mma_async::metadata], false);
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
  const auto run = std::find_if(warp.runs.begin(), warp.runs.end(), [&](const Run& r) {
    return alike(*r.last, i) && same_d(x.e.program, *r.last, i);
  });
  // Of a run only the registers of A are looked at again.
  bool again = run != warp.runs.end();
  for (int32_t k = i.vec_end; k < i.nvec && again; ++k) {
    const int32_t off = x.e.program.vec[static_cast<size_t>(i.vec + k)];
    again = off < 0 || run_of(warp, use_of(x, warp, off)) == warp.runs.end();
  }
  bool right = true;
  auto wrong = [&](const char* code, const std::string& text) {
    right = false;
    x.e.error(code, text, at);
  };
  each_fragment(x.e.program, i, again ? i.vec_end : 0, [&](int32_t off, bool is_a) {
    FragmentUse& use = use_of(x, warp, off);
    end_run_of(x, warp, use);
    const char* of = is_a ? "A" : "D";
    if (use.fence == warp.fences + 1)
      wrong("wgmma-fence", std::string("a register of ") + of + " is accessed by " +
                               x.e.program.names[static_cast<size_t>(use.by->name)] + " at " + line(use.by) +
                               ", and no wgmma.fence stands between it and wgmma.mma_async (PTX ISA "
                               "9.7.15.7.1)");
    // Another mma_async in flight: the accumulator of the same shape is in order, that of another shape over
    // a fence. What is A of the one and D of the other has to be waited for.
    const bool as_d = use.as_d > warp.waited, as_a = use.as_a > warp.waited;
    const Instr* other = is_a ? use.d_by : use.a_by;
    if (is_a ? as_d : as_a)
      wrong("wgmma-in-flight", std::string("a register of ") + of + " is " + (is_a ? "D" : "A") +
                                   " of the wgmma.mma_async at " + line(other) +
                                   ", which is in flight: wgmma.wait_group for its group is missing");
    if (!is_a && as_d && use.mma_fence == warp.fences && !alike(*use.d_by, i))
      wrong("wgmma-fence",
            "a register of D is D of the wgmma.mma_async at " + line(use.d_by) +
                ", which is in flight and has another shape: wgmma.fence is missing between them");
    use.mma_fence = warp.fences;
    use.fence = 0;
    (is_a ? use.as_a : use.as_d) = serial;
    (is_a ? use.a_by : use.d_by) = &i;
  });
  if (again) {
    *run = {run->first, serial, warp.fences, &i};
  } else if (right) {
    if (warp.runs.size() == kMostAccumulators) end_run(x, warp, warp.runs.begin());
    warp.runs.push_back({serial, serial, warp.fences, &i});
  }
}

}  // namespace tileproof
