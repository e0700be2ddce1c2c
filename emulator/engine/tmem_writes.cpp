// Pending marks of tensor memory, by whom (tmem_writes.hpp).
#include <algorithm>

#include "queues.hpp"

namespace tileproof {

bool LaterWrites::pending(uint8_t state, const Cta& cta, int lane, int column) {
  const int marks = (state & kPendingMask) / kPendingOne;
  if (!marks) return false;
  if (!known_) {
    known_ = true;
    engine_.each_write_to_come(queue_, [this](const TmemWrite& w) {
      const auto same =
          std::find_if(writes_.begin(), writes_.end(), [&](const TmemWrite& o) { return o.same_cells(w); });
      if (same != writes_.end())
        same->count++;
      else
        writes_.push_back(w);
    });
  }
  int later = 0;
  for (const TmemWrite& w : writes_)
    if (w.covers(cta, lane, column)) later += w.count;
  return marks > later;  // marks end at kPendingMask, `later` does not
}

void Engine::each_write_to_come(uint64_t queue, const std::function<void(const TmemWrite&)>& f) const {
  const auto it = queues_.find(queue);
  if (it == queues_.end()) return;
  for (const AsyncOp& op : it->second)
    for (const TmemWrite& w : op.writes) f(w);
}

// tcgen05.st without its wait::st has been told; that the cells then read as poison would only hide what the
// kernel does besides.
bool Engine::finish_stores_to(const Cta& cta, int lane, int column) {
  if (config.strict) return false;
  std::vector<uint64_t> found;
  for (const auto& [queue, ops] : queues_)
    if (is_store_queue(queue))
      for (const AsyncOp& op : ops)
        if (std::any_of(op.writes.begin(), op.writes.end(),
                        [&](const TmemWrite& w) { return w.covers(cta, lane, column); })) {
          found.push_back(queue);
          break;
        }
  for (uint64_t queue : found) complete_queue(queue);
  return !found.empty();
}

}  // namespace tileproof
