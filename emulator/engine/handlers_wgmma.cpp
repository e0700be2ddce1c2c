// wgmma: issue, fence, groups and their waits (PTX ISA 9.7.15).
#include <algorithm>

#include "machine.hpp"
#include "queues.hpp"
#include "slots/wgmma.hpp"
#include "wgmma.hpp"

namespace tileproof {

Warpgroup& warpgroup_of(Warp& w) {
  auto& all = w.cta->warpgroups;
  all.resize(std::max(all.size(), static_cast<size_t>(w.index / kWarpgroup) + 1));
  auto& found = all[static_cast<size_t>(w.index / kWarpgroup)];
  if (!found) found = std::make_shared<Warpgroup>();
  return *found;
}

namespace {

constexpr uint32_t kAllWarps = (1u << kWarpgroup) - 1;

// Every lane of the warp is here, and the block has the whole warpgroup.
Step gathered(Exec& x, const char* name) {
  if (!x.whole_warp()) return x.e.stopped ? Step::Stop : Step::Block;
  if (x.w.live != ~0u) {
    x.e.fault("aligned-partial",
              std::string(name) + " in a warp whose lanes " + hex(~x.w.live) +
                  " do not exist: the 128 threads of the warpgroup are needed",
              x.origin(x.lane()));
    return Step::Stop;
  }
  if (x.w.index / kWarpgroup * kWarpgroup + kWarpgroup <= static_cast<int>(x.cta.warps.size()))
    return Step::Next;
  x.e.fault("wgmma-warpgroup",
            std::string(name) + " by warp " + std::to_string(x.w.index) + " of a CTA of " +
                std::to_string(x.cta.warps.size()) +
                " warps: a warpgroup is four warps, the first a multiple of four",
            x.origin(x.lane()));
  return Step::Stop;
}

// The value of a 64-bit operand, which all lanes of a whole warp must share.
bool uniform(const Exec& x, int32_t off, uint64_t& value) {
  const uint64_t* v = x.src<uint64_t>(off);
  value = v[0];
  return std::all_of(v, v + kWarpSize, [&](uint64_t lane) { return lane == value; });
}

Step differs(Engine& e, const Origin& at, const char* who) {
  e.fault("wgmma-uniform",
          std::string("wgmma.mma_async: the ") + who + " have different descriptors or scale-d", at);
  return Step::Stop;
}

Step mma_async(Exec& x, const Instr& i) {
  namespace s = slot::wgmma_mma_async;
  if (const Step step = gathered(x, "wgmma.mma_async"); step != Step::Next) return step;
  Engine* e = &x.e;
  const Origin at = x.origin(x.lane());
  const bool a_in_registers = i.o[s::a] == INT32_MIN;
  uint64_t a = 0, b = 0;
  const uint32_t enable = *x.src<uint32_t>(i.o[s::enable]) ^ (i.m[s::enable_not] ? ~0u : 0);
  if (!a_in_registers) e->use_poison(x.w, i, i.o[s::a], x.mask, " as a descriptor");
  e->use_poison(x.w, i, i.o[s::enable], x.mask, " as scale-d");
  if (!uniform(x, i.o[s::b], b) || (!a_in_registers && !uniform(x, i.o[s::a], a)) ||
      (enable != 0 && enable != ~0u))
    return differs(*e, at, "lanes of a warp");
  for (const auto& [v, name] : {std::pair{b, "B"}, std::pair{a, "A"}}) {
    if (*name == 'A' && a_in_registers) continue;
    if (const std::string text = check_warpgroup_descriptor(v, name); !text.empty()) {
      e->fault("mma-operands", "wgmma.mma_async: " + text, at);
      return Step::Stop;
    }
  }

  if (const std::string text = check_metadata(x, i); !text.empty()) {
    e->fault("mma-operands", "wgmma.mma_async.sp: " + text, at);
    return Step::Stop;
  }

  Warpgroup& group = warpgroup_of(x.w);
  const int part = x.w.index % kWarpgroup;
  WarpFragments& warp = group.warps[static_cast<size_t>(part)];
  const uint64_t serial = warp.issued + 1;
  const size_t place = static_cast<size_t>(serial - 1 - group.begun);
  if (place == group.open.size()) {
    auto fresh = std::make_shared<WarpgroupMma>();
    fresh->serial = serial;
    fresh->instr = &i;
    fresh->a = a;
    fresh->b = b;
    fresh->accumulate = enable != 0;
    if (i.imm) fresh->metadata = std::make_unique<std::array<uint32_t, kWarpgroup * kWarpSize>>();
    if (place >= kMostInFlight) {
      e->fault("memory-limit", "too many operations of wgmma wait for a warp of their warpgroup", at);
      return Step::Stop;
    }
    group.open.push_back(fresh);
  }
  const std::shared_ptr<WarpgroupMma> op = group.open[place];
  if (op->instr != &i) {
    e->fault("wgmma-warpgroup",
             "warp " + std::to_string(x.w.index) + " executes wgmma.mma_async as operation " +
                 std::to_string(serial) + " of its warpgroup, which is that at PTX line " +
                 std::to_string(op->instr->line) + " for another warp",
             at);
    return Step::Stop;
  }
  if (op->a != a || op->b != b || op->accumulate != (enable != 0))
    return differs(*e, at, "warps of a warpgroup");
  issue_fragments(x, i, warp, serial);
  if (e->stopped) return Step::Stop;
  warp.issued = serial;
  if (i.imm) {
    e->use_poison(x.w, i, i.o[s::metadata], x.mask, " as metadata");
    std::copy_n(x.src<uint32_t>(i.o[s::metadata]), kWarpSize, op->metadata->begin() + part * kWarpSize);
  }
  op->arrived |= 1u << part;
  op->at[static_cast<size_t>(part)] = at;
  e->tell(&Listener::warpgroup_issue, x, *op);
  ++e->progress;
  if (op->arrived != kAllWarps) return Step::Next;
  group.open.pop_front();
  group.begun = serial;
  Cta* cta = &x.cta;
  const int first = x.w.index - part;
  e->issue("wgmma", warpgroup_queue(x.cta, first), op->at[0], [e, cta, op, first, g = &group] {
    execute_wgmma(*e, *cta, first, *op);
    g->complete = op->serial;
    ++e->progress;
  });
  return e->stopped ? Step::Stop : Step::Next;
}

Step wgmma_fence(Exec& x, const Instr&) {
  if (const Step step = gathered(x, "wgmma.fence"); step != Step::Next) return step;
  ++warpgroup_of(x.w).warps[static_cast<size_t>(x.w.index % kWarpgroup)].fences;
  return Step::Next;
}

Step commit_group(Exec& x, const Instr&) {
  if (const Step step = gathered(x, "wgmma.commit_group"); step != Step::Next) return step;
  WarpFragments& warp = warpgroup_of(x.w).warps[static_cast<size_t>(x.w.index % kWarpgroup)];
  x.e.hold(kGroupBytes, x.origin(x.lane()));
  warp.groups.push_back(warp.issued);
  return x.e.stopped ? Step::Stop : Step::Next;
}

Step wait_group(Exec& x, const Instr& i) {
  if (const Step step = gathered(x, "wgmma.wait_group"); step != Step::Next) return step;
  Warpgroup& group = warpgroup_of(x.w);
  const int part = x.w.index % kWarpgroup;
  const uint64_t needed = group.needed(part, i.imm);
  if (group.complete < needed) {
    x.s->wait = Wait::WarpgroupMmas;
    x.s->token = static_cast<uint32_t>(needed);
    return Step::Block;
  }
  WarpFragments& warp = group.warps[static_cast<size_t>(part)];
  while (static_cast<int64_t>(warp.groups.size()) > i.imm) {
    warp.groups.pop_front();
    x.e.release(kGroupBytes);
  }
  warp.waited = std::max(warp.waited, needed);
  x.e.tell(&Listener::warpgroup_pass, x.w, needed);
  return Step::Next;
}

const Registrar wgmma({
    {"wgmma.mma_async", mma_async},
    {"wgmma.fence", wgmma_fence},
    {"wgmma.commit_group", commit_group},
    {"wgmma.wait_group", wait_group},
});

}  // namespace
}  // namespace tileproof
