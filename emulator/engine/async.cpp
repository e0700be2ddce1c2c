// Asynchronous operations, mbarriers, and the checked memory accesses of the asynchronous engines.
#include <algorithm>
#include <cstring>
#include <utility>

#include "change.hpp"
#include "clusters_apart.hpp"
#include "schedule.hpp"

namespace tileproof {

// ---------------------------------------------------------------------------------------------------------
// Issue and completion

void Engine::issue(const char* engine, uint64_t queue, const Origin& origin, std::function<void()> complete,
                   std::vector<TmemWrite> writes, int64_t amount, bool by_phase) {
  ++counters.async_operations;
  ++progress;
  AsyncOp op;
  op.seq = ++seq_;
  op.queue = queue;
  op.engine = engine;
  op.amount = amount;
  op.by_phase = by_phase;
  op.origin = origin;
  op.cluster = &cluster_at(origin.cta);
  op.source_rank = origin.rank;
  op.complete = std::move(complete);
  op.writes = std::move(writes);
  tell(&Listener::issue, op);
  if (early() && (queue == 0 || queues_.find(queue) == queues_.end())) {
    finish(op);
    spend(16 + static_cast<uint64_t>(std::max<int64_t>(amount, 0)) / 64, origin);
    return;
  }
  if (unordered_.size() + queued_ >= kMostInFlight) {
    if (!stopped)
      fault("memory-limit", std::to_string(kMostInFlight) + " asynchronous operations are in flight", origin);
    return;
  }
  scheduler->name(op);
  if (queue == 0) {
    unordered_.add(std::move(op));
    return;
  }
  scheduler->queues_changed();
  queues_[queue].push_back(std::move(op));
  ++queued_;
}

void Engine::finish(AsyncOp& op) {
  const AsyncOp* outer = scheduler->completing(&op);  // a read may complete the stores that it needs
  const uint64_t outer_queue = std::exchange(completing_queue_, op.queue);
  tell(&Listener::completing, op);
  op.complete();
  completing_queue_ = outer_queue;
  scheduler->completing(outer);
  tell(&Listener::completed, op);
}

AsyncOp Engine::take_first(std::deque<AsyncOp>& queue) {
  AsyncOp op = std::move(queue.front());
  queue.pop_front();
  --queued_;
  if (queue.empty()) queues_.erase(op.queue);
  scheduler->queues_changed();
  return op;
}

void Engine::complete(AsyncOp op) {
  ++progress;
  finish(op);
  spend(16 + static_cast<uint64_t>(std::max<int64_t>(op.amount, 0)) / 64, op.origin);
}

void Engine::complete_queue(uint64_t queue) {
  for (auto it = queues_.find(queue); it != queues_.end(); it = queues_.find(queue)) {
    AsyncOp op = take_first(it->second);
    finish(op);
  }
}

// ---------------------------------------------------------------------------------------------------------
// mbarrier (PTX ISA 9.7.13.15)

Mbarrier* Engine::barrier_at(Cta& cta, uint32_t offset, const Origin& at) {
  if (cta.exited()) {
    fault("access-after-exit",
          "an mbarrier of CTA rank " + std::to_string(cta.rank) +
              " is used after that CTA exited; a cluster barrier must keep it alive",
          at, offset);
    return nullptr;
  }
  Mbarrier* b = cta.shared.barrier(offset);
  if (!b)
    fault("mbarrier-uninitialised",
          "no mbarrier was initialised at shared offset " + hex(offset) + " of CTA rank " +
              std::to_string(cta.rank),
          at, offset);
  return b;
}

void Engine::barrier_arrive(Cta& cta, uint32_t offset, uint32_t count, const Origin& at) {
  Mbarrier* b = barrier_at(cta, offset, at);
  if (!b) return;
  ++progress;
  if (count == 0 || count > (1u << 20) - 1) {
    fault("mbarrier-count", "an arrival of count " + std::to_string(count) + "; 1 to 2^20-1 are legal", at,
          offset);
    return;
  }
  if (b->pending < static_cast<int32_t>(count)) {
    fault("mbarrier-over-arrival",
          "phase " + std::to_string(b->phase) + " of the mbarrier at shared offset " + hex(offset) +
              " expects " + std::to_string(b->expected) + " arrivals and has " + std::to_string(b->pending) +
              " left, but " + std::to_string(count) + " more arrive" +
              (b->tx ? " (" + std::to_string(b->tx) + " bytes are outstanding)" : ""),
          at, offset);
    return;
  }
  b->history.record(Deed::Arrive, at, count, b->phase, counters.warp_instructions);
  tell(&Listener::mbarrier_arrived, cta, *b, count, at);
  b->pending -= static_cast<int32_t>(count);
  try_complete(cta, *b, at);
}

void Engine::barrier_drop(Cta& cta, uint32_t offset, uint32_t count, const Origin& at) {
  Mbarrier* b = barrier_at(cta, offset, at);
  if (!b) return;
  if (count > static_cast<uint32_t>(b->expected)) {
    fault("mbarrier-count",
          "mbarrier.arrive_drop takes " + std::to_string(count) + " from " + std::to_string(b->expected) +
              " expected arrivals",
          at, offset);
    return;
  }
  b->expected -= static_cast<int32_t>(count);
  barrier_arrive(cta, offset, count, at);
}

void Engine::barrier_expect(Cta& cta, uint32_t offset, int64_t bytes, const Origin& at) {
  Mbarrier* b = barrier_at(cta, offset, at);
  if (!b) return;
  ++progress;
  b->history.record(Deed::Expect, at, bytes, b->phase, counters.warp_instructions);
  tell(&Listener::mbarrier_expected, cta, *b, bytes, at);
  b->tx += bytes;
  b->announced += bytes;
  if (b->tx > (1 << 20) - 1)
    fault("mbarrier-tx-range", "the transaction count " + std::to_string(b->tx) + " exceeds 2^20-1", at,
          offset);
}

void Engine::barrier_complete_tx(Cta& cta, uint32_t offset, int64_t bytes, const Origin& at) {
  Mbarrier* b = barrier_at(cta, offset, at);
  if (!b) return;
  b->delivered = b->phase;
  b->history.record(Deed::Deliver, at, bytes, b->phase, counters.warp_instructions);
  tell(&Listener::mbarrier_deliver, cta, *b, bytes, at);
  b->tx -= bytes;
  if (b->tx < -((1 << 20) - 1)) {
    fault("mbarrier-tx-range", "the transaction count " + std::to_string(b->tx) + " is below -(2^20-1)", at,
          offset);
    return;
  }
  try_complete(cta, *b, at);
}

void Engine::try_complete(Cta& cta, Mbarrier& b, const Origin& at) {
  if (b.pending != 0 || b.tx != 0) return;
  b.phase++;
  b.pending = b.expected;
  if (b.announced != b.listed && announced.size() < kMostListed)
    announced.emplace(cta.rank, b.offset, b.listed = b.announced);
  else if (b.announced != b.listed && !announced.contains({cta.rank, b.offset, b.announced}))
    ++cut["byte counts of mbarrier phases"];
  b.announced = 0;
  tell(&Listener::mbarrier_done, cta, b, at);
  ++counters.barrier_phases;
  ++progress;
  phase_complete(cta, b);
}

// Taps listen here: what a phase publishes is captured at the moment it completes.
void Engine::phase_complete(Cta& cta, Mbarrier& b) {
  for (size_t t = 0; t < config.taps.size(); ++t) {
    const Tap& tap = config.taps[t];
    if (tap.barrier != b.offset) continue;
    Capture r;
    r.tap = static_cast<int32_t>(t);
    r.cta = cta.id;
    r.rank = cta.rank;
    r.phase = b.phase - 1;
    hold(tap.tmem ? 5 * kTmemLanes * static_cast<uint64_t>(tap.columns) : 2 * uint64_t{tap.bytes},
         Origin{b.history.init, cta.id, cta.rank, -1, -1});
    if (stopped) return;
    if (tap.tmem) {
      // What the commit's pipeline writes later is not pending for what it publishes.
      LaterWrites later(*this, completing_queue_);
      const int base = std::max(cta.tmem.first_base, 0) + tap.column;
      const int inside = std::clamp(kTmemColumns - base, 0, tap.columns);
      const size_t columns = static_cast<size_t>(tap.columns), some = static_cast<size_t>(inside);
      r.data.resize(kTmemLanes * columns * 4);
      r.valid.resize(kTmemLanes * columns);  // beyond the last column: not
      uint8_t *data = r.data.data(), *valid = r.valid.data();
      for (int lane = 0; lane < kTmemLanes; ++lane, data += 4 * columns, valid += columns) {
        if (inside) std::memcpy(data, cta.tmem.at(lane, base), 4 * some);
        for (size_t c = some; c < columns; ++c) std::memcpy(data + 4 * c, &kPoisonWord, 4);
        if (inside && all_valid(cta.tmem.state_at(lane, base), some)) {
          std::memset(valid, 1, some);
          continue;
        }
        for (int c = 0; c < inside; ++c) {
          const uint8_t state = *cta.tmem.state_at(lane, base + c);
          valid[c] = (state & kValid) && !(state & ~(kValid | kPendingMask)) &&
                     !later.pending(state, cta, lane, base + c);
        }
      }
    } else {
      const size_t whole = cta.shared.data.size();
      const size_t some = tap.offset < whole ? std::min<size_t>(tap.bytes, whole - tap.offset) : 0;
      r.data.assign(tap.bytes, kPoisonByte);
      r.valid.resize(tap.bytes);
      if (some) std::memcpy(r.data.data(), cta.shared.data.data() + tap.offset, some);
      for (size_t k = 0; k < some; ++k) r.valid[k] = cta.shared.state[tap.offset + k] == kValid;
    }
    tap_records.push_back(std::move(r));
  }
}

// ---------------------------------------------------------------------------------------------------------
// Accesses of TMA, bulk copies and the tensor core

const uint8_t* Engine::async_read_global(uint64_t address, uint32_t size, const Origin& at) {
  GlobalBuffer* b = memory.find(address, size);
  if (!b) {
    fault("global-out-of-bounds",
          "an asynchronous copy reads " + std::to_string(size) + " bytes at " + hex(address) +
              ", outside every buffer",
          at, address);
    return nullptr;
  }
  if (apart() && !meets_nobody(*b, address, size, Use::Read)) return nullptr;
  if (!b->initialised(address, size))
    error("global-uninitialised",
          "an asynchronous copy reads bytes of " + b->name + " that were never written", at, address);
  tell(&Listener::async_global, *b, address, size, false, nullptr);
  if (unseen != Unseen::No) {
    unseen = Unseen::No;
    if (unseen_bytes_.size() < size) unseen_bytes_.resize(size, kPoisonByte);
    return unseen_bytes_.data();
  }
  return b->data + (address - b->address);
}

bool Engine::async_store_global(uint64_t address, const uint8_t* data, uint32_t size, const Change& change,
                                const Origin& at) {
  const bool add = change.op.has_value();
  GlobalBuffer* b = memory.find(address, size);
  if (!b || !b->writable) {
    fault(b ? "global-read-only" : "global-out-of-bounds",
          "an asynchronous copy writes " + std::to_string(size) + " bytes at " + hex(address) +
              (b ? ", in the read-only buffer " + b->name : ", outside every buffer"),
          at, address);
    return false;
  }
  if (apart() && !meets_nobody(*b, address, size, add ? Use::Add : Use::Write)) return false;
  if (add && !b->initialised(address, size))
    error("global-uninitialised",
          "an asynchronous copy adds to bytes of " + b->name + " that were never written", at, address);
  b->mark(address, size);
  tell(&Listener::async_global, *b, address, size, true, add ? &change : nullptr);
  uint8_t* to = b->data + (address - b->address);
  if (add)
    reduce_global(*change.op, change.type, change.flushes, address, to, data, size);
  else
    std::memcpy(to, data, size);
  return true;
}

void Engine::reduce_global(Reduction op, AtomicType type, bool flushes, uint64_t address, uint8_t* cells,
                           const uint8_t* operands, uint32_t bytes) {
  if (heard()) additions.add(address, operands, bytes);
  if (!apart_) return reduce_row(op, type, flushes, cells, operands, bytes);
  apart_->reductions.add(op, type, flushes, address, operands, bytes);
  stopped = stopped || apart_->reductions.bytes() > apart_->most;  // a single thread keeps none
}

bool Engine::shared_range(Cta& cta, uint32_t offset, uint32_t size, const Origin& at, const char* who) {
  if (cta.exited()) {
    fault("access-after-exit",
          std::string(who) + " touches shared memory of CTA rank " + std::to_string(cta.rank) +
              " after it exited",
          at, offset);
    return false;
  }
  if (offset < kReservedSharedBytes || static_cast<uint64_t>(offset) + size > cta.shared.data.size()) {
    fault("shared-out-of-bounds",
          std::string(who) + " touches shared bytes [" + hex(offset) + ", " + hex(offset + size) +
              ") of CTA rank " + std::to_string(cta.rank) + ", which has [0x400, " +
              hex(cta.shared.data.size()) + ")",
          at, offset);
    return false;
  }
  return true;
}

bool Engine::store_may_read(Cta& cta, uint32_t offset, const Origin& at, const char* who) {
  // With race checking the exit itself was told (race-store-exit), whatever the schedule.
  if (cta.exited() && !sink.told("race-store-exit", at.instr))
    warn("bulk-store-at-exit",
         std::string(who) + " still reads shared memory of CTA rank " + std::to_string(cta.rank) +
             ", which has exited: cp.async.bulk.wait_group.read is missing",
         at, offset);
  return !stopped;
}

bool Engine::async_read_shared(Cta& cta, uint32_t offset, uint32_t size, uint8_t* out, const Origin& at,
                               const char* who) {
  return shared_range(cta, offset, size, at, who) && read_shared(cta, offset, size, out, at, who);
}

bool Engine::read_shared(Cta& cta, uint32_t offset, uint32_t size, uint8_t* out, const Origin& at,
                         const char* who) {
  const uint8_t* state = &cta.shared.state[offset];
  const bool valid = all_valid(state, size);
  const auto nobodys = [](uint8_t s) { return !(s & (kPendingMask | kMbarrier | kValid)); };
  unseen = !valid && std::any_of(state, state + size, nobodys) ? Unseen::Error : Unseen::No;
  tell(&Listener::async_shared, cta, offset, size, false);
  unseen = Unseen::No;
  if (valid) {
    std::memcpy(out, &cta.shared.data[offset], size);
    return true;
  }
  bool never = false, pending = false, barrier = false;
  for (uint32_t i = 0; i < size; ++i) {
    const uint8_t s = state[i];
    if (s == kValid) {
      out[i] = cta.shared.data[offset + i];
      continue;
    }
    out[i] = kPoisonByte;
    barrier |= (s & kMbarrier) != 0;
    pending |= (s & kPendingMask) != 0;
    never |= !(s & (kPendingMask | kMbarrier | kValid));
  }
  if (barrier)
    error("mbarrier-read-as-data", std::string(who) + " reads the bytes of a live mbarrier", at, offset);
  if (pending)
    error("shared-pending",
          std::string(who) + " reads shared bytes at " + hex(offset) + " of CTA rank " +
              std::to_string(cta.rank) + " whose asynchronous copy has not completed: a wait is missing",
          at, offset);
  if (never) {
    bool fresh = false;
    const PoisonId set = poison_in(cta, offset, size, fresh);
    if (fresh)
      error("shared-uninitialised",
            std::string(who) + " reads shared bytes at " + hex(offset) + " of CTA rank " +
                std::to_string(cta.rank) + " that were never written",
            at, offset);
    if (set) poison_used(set, at.instr, "");
  }
  return true;
}

void Engine::async_write_shared(Cta& cta, uint32_t offset, const uint8_t* data, uint32_t size,
                                bool was_pending, const Origin& at) {
  tell(&Listener::async_shared, cta, offset, size, true);  // before: what is there is compared
  std::memcpy(&cta.shared.data[offset], data, size);
  uint8_t* state = &cta.shared.state[offset];
  for (uint32_t i = 0; i < size; i += 8)
    if (state[i] & kMbarrier) {
      error("mbarrier-overwritten",
            "an asynchronous copy overwrites a live mbarrier of CTA rank " + std::to_string(cta.rank), at,
            offset + i);
      break;
    }
  if (was_pending)
    complete_pending(state, size);
  else
    for (uint32_t i = 0; i < size; ++i) state[i] |= kValid;
}

}  // namespace tileproof
