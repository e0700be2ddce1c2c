// What is said when nothing can move, or everything moves and nothing happens.
#include "machine.hpp"
#include "wgmma.hpp"

namespace tileproof {

namespace {

// Which warps of the group have not executed an operation that is waited for.
std::string lacking(Warp& w, uint64_t serial) {
  const Warpgroup& group = warpgroup_of(w);
  std::string text;
  for (int k = 0; k < kWarpgroup; ++k)
    if (group.warps[static_cast<size_t>(k)].issued < serial)
      text += (text.empty() ? ", which has not been executed by warp " : ", ") +
              std::to_string(w.index / kWarpgroup * kWarpgroup + k);
  return text;
}

std::string describe(const Engine& e, Warp& w, const Split& s, const Join* join, Waiter& out) {
  (void)e;
  Cta& cta = *w.cta;
  switch (s.wait) {
    case Wait::MbarrierParity: {
      out.barrier = s.bar_offset;
      out.barrier_rank = cta.rank;
      out.parity = static_cast<int32_t>(s.parity);
      if (const Mbarrier* b = cta.shared.barrier(s.bar_offset)) {
        out.phase = b->phase;
        out.pending = b->pending;
        out.tx = b->tx;
        return "mbarrier at shared offset " + hex(s.bar_offset) + ", parity " + std::to_string(s.parity) +
               ": phase " + std::to_string(b->phase) + " lacks " + std::to_string(b->pending) + " of " +
               std::to_string(b->expected) + " arrivals and " + std::to_string(b->tx) + " bytes";
      }
      return "mbarrier at shared offset " + hex(s.bar_offset) + ", which is not initialised";
    }
    case Wait::NamedBarrier: {
      const NamedBarrier& b = cta.named[s.bar_offset];
      const uint32_t there = b.parts[static_cast<size_t>(w.index)].lanes;
      return "named barrier " + std::to_string(s.bar_offset) + ": " + std::to_string(b.arrived) +
             " threads of " +
             (b.expected == ~0u ? std::string("the whole CTA") : std::to_string(b.expected)) +
             " have arrived" +
             (there ? "; of warp " + std::to_string(w.index) + " only the lanes " + hex(there) : "");
    }
    case Wait::ClusterBarrier:
      return "cluster barrier: " + std::to_string(cta.cluster->barrier_arrived) + " of " +
             std::to_string(cta.cluster->live_threads) + " live threads have arrived";
    case Wait::BulkGroup:
      return "bulk async-groups that do not complete";
    case Wait::CopyGroup:
      return "groups of cp.async that do not complete";
    case Wait::WarpgroupMmas:
      return "wgmma operation " + std::to_string(s.token) + " of its warpgroup" + lacking(w, s.token);
    case Wait::TmemAlloc:
      return "free TMEM columns";
    case Wait::WarpLanes:
      return "the other lanes of its warp (" + hex(s.lanes_wanted & ~s.mask) + ") at this instruction";
    case Wait::Registers:
      return std::to_string(s.token) + " registers; " + std::to_string(cta.register_pool) +
             " are free in the CTA's pool";
    case Wait::Join:
    case Wait::None:
      break;
  }
  return join ? "the other lanes of its warp to reach the reconvergence point" : "an unknown event";
}

}  // namespace

std::vector<Waiter> Engine::waiters(const Cluster& cluster) {
  std::vector<Waiter> found;
  for (auto& cta : cluster.ctas)
    for (Warp& w : cta->warps)
      for (const Split& split : w.splits) {
        if (split.dead) continue;
        Split s = split;
        // Of warps that spin, those that poll an mbarrier wait for it.
        if (s.wait == Wait::None && s.polled) s.wait = Wait::MbarrierParity;
        Waiter waiter;
        waiter.at = Origin{&program.code[static_cast<size_t>(s.pc)], cta->id, cta->rank, w.index,
                           static_cast<int32_t>(__builtin_ctz(s.mask))};
        waiter.lanes = s.mask;
        waiter.waits_for = describe(*this, w, s, nullptr, waiter);
        found.push_back(waiter);
      }
  return found;
}

void Engine::report_hang() {
  Finding f;
  f.code = "hang";
  const Cluster& first = *live.front();  // of several that hang
  f.waiters = waiters(first);
  hung = &first;
  f.message = "no warp and no asynchronous operation can proceed; " + std::to_string(f.waiters.size()) +
              " groups of lanes wait";
  if (live.size() > 1)
    f.message += " in the first of " + std::to_string(live.size()) + " clusters that are resident";
  if (!f.waiters.empty()) {
    f.at = f.waiters[0].at;
    if (f.waiters[0].barrier >= 0) f.address = static_cast<uint64_t>(f.waiters[0].barrier);
  }
  sink.findings.push_back(std::move(f));
  stopped = true;
}

void Engine::report_livelock(const Origin& at) {
  fault("livelock",
        "warps ran " + std::to_string(config.livelock_limit) +
            " instructions without a store, an arrival, an asynchronous operation or an exit: they spin",
        at);
  for (Finding& f : sink.findings)
    if (f.code == "livelock") f.waiters = waiters(cluster_at(at.cta));
  hung = &cluster_at(at.cta);
}

}  // namespace tileproof
