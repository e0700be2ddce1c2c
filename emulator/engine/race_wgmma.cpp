// wgmma: each warp of the group reads shared memory by what it knew when it issued its part; who has passed a
// wait_group knows that the operations of its group are complete.
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
  op.views[static_cast<size_t>(x.w.index % kWarpgroup)] = std::move(v);
  t.now++;
  forget_view();
}

void Races::warpgroup_part(const WarpgroupMma& op, uint32_t warps) {
  if (!op_) return;
  parts_.clear();
  memo_for_ = 0;
  for (auto& memo : part_memos_) memo.fill(0);
  for (size_t k = 0; k < kWarpgroup; ++k)
    if (warps >> k & 1 && op.views[k]) parts_.push_back(op.views[k].get());
}

void Races::warpgroup_pass(const Warp& w, uint64_t serial) {
  if (!serial) return;
  Thread& t = thread(w);
  const auto pipe = pipes_.find(warpgroup_queue(*w.cta, w.index / kWarpgroup * kWarpgroup));
  if (pipe == pipes_.end()) return;
  for (Group& g : t.groups)
    happened(mutable_knowledge(g), pipe->second.agent, ~0u, static_cast<Tick>(serial));
}

}  // namespace tileproof
