// wgmma: each warp of the group reads shared memory by what it knew when it issued its part; who has passed a
// wait_group knows that the operations of its group are complete, and so that each warp has issued its part.
#include <algorithm>

#include "machine.hpp"
#include "queues.hpp"
#include "race.hpp"
#include "wgmma.hpp"

namespace tileproof {

// All lanes of the warp execute it together: what any of them knows, and what all of them have done.
void Races::warpgroup_issue(const Exec& x, WarpgroupMma& op) {
  Thread& t = thread(x.w);
  auto v = std::make_shared<View>(view_of(t, t.groups[0], t.all));
  v->know = joined(t);
  for (const Group& g : t.groups)
    for (size_t k = 0; k < kOrders; ++k) v->own[k] = std::min(v->own[k], g.own[k]);
  if (t.copies)
    for (size_t l = 0; l < 32; ++l) {
      v->copies_waited = std::min(v->copies_waited, t.copies->waited[l]);
      v->copies_fenced = std::min(v->copies_fenced, t.copies->fenced[l]);
    }
  v->path = Path::Warpgroup;
  v->at = x.origin(x.lane());
  const size_t part = static_cast<size_t>(x.w.index % kWarpgroup);
  op.views[part] = std::move(v);
  auto& parts = pipes_[warpgroup_queue(x.cta, x.w.index - static_cast<int>(part))].parts;
  if (parts.empty() || parts.back().serial < op.serial) parts.push_back({op.serial, {}});
  parts[parts.size() - 1 - (parts.back().serial - op.serial)].issued[part] = {t.agent, t.now};
  t.now++;
  forget_view();
}

void Races::warpgroup_part(const WarpgroupMma& op, uint32_t warps) {
  if (!op_) return;
  parts_.clear();
  memo_for_ = 0;
  for (size_t k = 0; k < kWarpgroup; ++k)
    if (warps >> k & 1 && op.views[k]) parts_.push_back(op.views[k].get());
}

void Races::warpgroup_pass(const Warp& w, uint64_t serial) {
  if (!serial) return;
  Thread& t = thread(w);
  const auto found = pipes_.find(warpgroup_queue(*w.cta, w.index / kWarpgroup * kWarpgroup));
  if (found == pipes_.end()) return;
  Pipe& pipe = found->second;
  const auto op =
      std::find_if(pipe.parts.begin(), pipe.parts.end(), [&](const Parts& p) { return p.serial == serial; });
  for (Group& g : t.groups) {
    Knowledge& know = mutable_knowledge(g);
    happened(know, pipe.agent, ~0u, static_cast<Tick>(serial));
    if (op == pipe.parts.end()) continue;
    for (const auto& [agent, tick] : op->issued)
      know.of[kRuns].raise(agent, ~0u, tick);  // order of execution alone
  }
  uint64_t& passed = pipe.passed[static_cast<size_t>(w.index % kWarpgroup)];
  passed = std::max(passed, serial);
  const uint64_t all = *std::min_element(pipe.passed.begin(), pipe.passed.end());
  while (!pipe.parts.empty() && pipe.parts.front().serial < all) pipe.parts.pop_front();
}

}  // namespace tileproof
