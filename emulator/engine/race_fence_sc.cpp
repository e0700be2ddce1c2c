// fence.sc: two that are morally strong are in Fence-SC order, and the earlier one synchronises with the
// later one (PTX ISA 8.9.3, 8.9.4). The order may not contradict causality (8.10.2, 8.10.5): where something
// that follows one fence was observed by something before the other, the first is the earlier one. Order that
// only the moment of two accesses gives, a read before a write or a write before a write, counts for nothing
// here: under another schedule it is the other way round.
#include "machine.hpp"
#include "race.hpp"
#include "slots/fences.hpp"

namespace tileproof {

namespace {
void join_sets(FencedKnowledge::Sets& mine, const FencedKnowledge::Sets& theirs) {
  for (const auto& [domain, know] : theirs) {
    auto& here = mine[domain];
    if (here == know) continue;
    if (!here) {
      here = know;
      continue;
    }
    auto both = std::make_shared<Knowledge>(*here);
    both->join(*know);
    here = std::move(both);
  }
}
}  // namespace

FencedKnowledge& Knowledge::mutable_sc() {
  auto mine = sc ? std::make_shared<FencedKnowledge>(*sc) : std::make_shared<FencedKnowledge>();
  sc = mine;
  return *mine;
}

void Knowledge::join_sc(const Knowledge& other) {
  if (sc == other.sc) return;
  if (!sc) {
    sc = other.sc;
    return;
  }
  FencedKnowledge& mine = mutable_sc();
  join_sets(mine.fenced, other.sc->fenced);
  join_sets(mine.observed, other.sc->observed);
}

void Races::look_for_sc() {
  sc_ = narrow_sc_ = false;
  const Handler fences = handler_table()[static_cast<size_t>(handler_ids().at("fence"))];
  for (const Instr& i : e_.program.code) {
    const int32_t spaces = i.fn == fences ? i.m[slot::fence::spaces] : 0;
    if (i.fn != fences || static_cast<Fence>(i.m[slot::fence::kind]) != Fence::Thread || !(spaces & 8))
      continue;
    sc_ = true;
    narrow_sc_ |= (spaces & 7) < kScopeGpu;
  }
}

// The fences of this one's domains that something before it has observed come before it.
void Races::fence_sc(const Warp& w, Group& g, uint8_t scope) {
  if (!g.know->sc) return;
  const auto sc = g.know->sc;
  const Releaser me{thread(w).home->serial, w.cta->rank};
  for (const auto& [domain, know] : sc->observed)
    if (domain.scope <= scope && distance({domain.cluster, domain.rank}, me) <= domain.scope)
      mutable_knowledge(g).join(*know);
}

void Races::publish_sc(const Warp& w, Group& g, uint8_t scope, const Knowledge& fenced) {
  auto left = std::make_shared<Knowledge>(fenced);
  left->sc.reset();
  left->started = 0;  // ranks are of one cluster
  const uint32_t cluster = thread(w).home->serial;
  FencedKnowledge::Sets mine;
  for (uint8_t reach : {kScopeCta, kScopeCluster, kScopeGpu})
    if (reach == std::min<uint8_t>(scope, kScopeGpu) || (narrow_sc_ && reach < scope))
      mine[reach == kScopeGpu       ? Domain{reach, 0, 0}
           : reach == kScopeCluster ? Domain{reach, cluster, 0}
                                    : Domain{reach, cluster, w.cta->rank}] = left;
  join_sets(mutable_knowledge(g).mutable_sc().fenced, mine);
}

// A strong write passes the fences before it to each observer of it or of a later write: coherence order may
// not contradict causality either (8.10.1).
void Races::flag_sc(const Exec& x, uint64_t key, int lane, bool reads, bool write) {
  Thread& t = thread(x.w);
  if (reads)
    if (const auto f = flags_.find(key);
        f != flags_.end() && f->second->sc && group_of(t, lane).observed != f->second->sc) {
      split(t, 1u << lane);
      Group& g = group_of(t, lane);
      g.observed = f->second->sc;
      join_sets(mutable_knowledge(g).mutable_sc().observed, f->second->sc->fenced);
    }
  if (!write) return;
  const auto& mine = group_of(t, lane).know->sc;
  if (!mine || mine->fenced.empty()) return;
  Flag& f = changing(key);
  if (f.sc == mine) return;
  auto both = f.sc ? std::make_shared<FencedKnowledge>(*f.sc) : std::make_shared<FencedKnowledge>();
  join_sets(both->fenced, mine->fenced);
  f.sc = std::move(both);
  released_.insert(t.home->serial);
}

}  // namespace tileproof
