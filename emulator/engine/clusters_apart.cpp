// Clusters on several threads: who touches what, additions in order, and the threads.
#include "clusters_apart.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <optional>
#include <system_error>
#include <thread>

#include "budget.hpp"
#include "machine.hpp"
#include "schedule.hpp"

namespace tileproof {
namespace {

constexpr uint64_t kSectorBits = 5;
constexpr uint32_t kMany = ~0u, kAdded = ~0u;

template <class T>
T* zeros(uint64_t count) {
  return static_cast<T*>(std::calloc(std::max<uint64_t>(count, 1), sizeof(T)));
}

}  // namespace

Footprints::Footprints(const GlobalMemory& memory, uint64_t room)
    : notes_(memory.buffers().size()), room_(room) {
  for (size_t k = 0; k < notes_.size(); ++k) {
    const GlobalBuffer& b = memory.buffers()[k];
    if (!b.writable) continue;
    const uint64_t sectors = (b.size >> kSectorBits) + 1;
    notes_[k].writer.reset(zeros<uint32_t>(sectors));
    notes_[k].reader.reset(zeros<uint32_t>(sectors));
    notes_[k].kept.reset(zeros<uint8_t>((b.size >> kPageBits) + 1));
    ready_ &= notes_[k].writer && notes_[k].reader && notes_[k].kept;
  }
}

// A reader leaves its note before it looks for a writer, and a writer the other way round: of two that meet,
// the later sees the other.
bool Footprints::note(size_t buffer, const GlobalBuffer& b, uint64_t address, uint64_t size, Use use,
                      uint32_t cluster) {
  if (!b.writable || !size) return use == Use::Read || !size;
  Notes& n = notes_[buffer];
  const uint64_t at = address - b.address;
  const uint32_t me = cluster + 1;
  for (uint64_t s = at >> kSectorBits; s <= (at + size - 1) >> kSectorBits; ++s) {
    std::atomic_ref<uint32_t> writer(n.writer[s]), reader(n.reader[s]);
    if (use == Use::Read) {
      uint32_t who = reader.load();
      if (who == me || who == kMany) continue;  // a writer that came since has seen it
      if (who || !reader.compare_exchange_strong(who, me)) reader.store(kMany);
      who = writer.load();
      if (who && who != me) return false;
      continue;
    }
    const uint32_t mine = use == Use::Add ? kAdded : me;
    uint32_t who = writer.load();
    if (who == mine) continue;  // a reader that came since has seen it
    if (who || !writer.compare_exchange_strong(who, mine)) {
      if (who != mine) return false;
      continue;
    }
    who = reader.load();
    if (who && (use == Use::Add || who != me)) return false;
  }
  if (use != Use::Read)
    for (uint64_t page = at >> kPageBits; page <= (at + size - 1) >> kPageBits; ++page)
      if (!keep(n, b, page)) return false;
  return true;
}

bool Footprints::keep(Notes& n, const GlobalBuffer& b, uint64_t page) {
  std::atomic_ref<uint8_t> kept(n.kept[page]);
  if (kept.load()) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (kept.load()) return true;
  Page p;
  p.first = page << kPageBits;
  p.size = std::min(kPageBytes, b.size - p.first);
  if ((taken_ += 2 * p.size) > room_) return false;
  p.data.assign(b.data + p.first, b.data + p.first + p.size);
  if (b.written) p.written.assign(b.written + p.first, b.written + p.first + p.size);
  if (b.pages) p.mark = b.pages[page];
  n.pages.push_back(std::move(p));
  kept.store(1);
  return true;
}

void Footprints::restore(const GlobalMemory& memory) {
  for (size_t k = 0; k < notes_.size(); ++k) {
    const GlobalBuffer& b = memory.buffers()[k];
    for (const Page& p : notes_[k].pages) {
      std::copy(p.data.begin(), p.data.end(), b.data + p.first);
      std::copy(p.written.begin(), p.written.end(), b.written + p.first);
      if (b.pages) b.pages[p.first >> kPageBits] = p.mark;
    }
  }
}

void KeptReductions::add(Reduction op, AtomicType type, bool flushes, uint64_t address,
                         const uint8_t* operands, uint32_t bytes) {
  Head h{};
  if (!log_.empty()) {
    std::memcpy(&h, &log_[last_], sizeof h);
    if (h.address + h.bytes == address && h.op == op && h.type == type && h.flushes == flushes &&
        h.bytes < 1u << 30) {
      h.bytes += bytes;
      std::memcpy(&log_[last_], &h, sizeof h);
      log_.insert(log_.end(), operands, operands + bytes);
      return;
    }
  }
  last_ = log_.size();
  h = {address, bytes, op, type, flushes};
  log_.resize(last_ + sizeof h);
  std::memcpy(&log_[last_], &h, sizeof h);
  log_.insert(log_.end(), operands, operands + bytes);
}

void KeptReductions::apply(GlobalMemory& memory) const {
  for (size_t at = 0; at < log_.size();) {
    Head h;
    std::memcpy(&h, &log_[at], sizeof h);
    at += sizeof h;
    const GlobalBuffer& b = *memory.find(h.address, h.bytes);
    reduce_row(h.op, h.type, h.flushes, b.data + (h.address - b.address), &log_[at], h.bytes);
    at += h.bytes;
  }
}

Counters& Counters::operator+=(const Counters& o) {
  using Words = std::array<uint64_t, sizeof(Counters) / sizeof(uint64_t)>;
  Words sums = std::bit_cast<Words>(*this);
  const Words others = std::bit_cast<Words>(o);
  for (size_t k = 0; k < sums.size(); ++k) sums[k] += others[k];
  return *this = std::bit_cast<Counters>(sums);
}

bool Engine::meets_nobody(const GlobalBuffer& b, uint64_t address, uint64_t size, Use use) {
  const size_t number = static_cast<size_t>(&b - memory.buffers().data());
  if (apart_->footprints.note(number, b, address, size, use, apart_->cluster)) return true;
  stopped = true;
  return false;
}

// Whether clusters from here on may run apart: no record or check follows the order of events, and the
// schedule of a cluster does not depend on those before it.
bool Engine::can_run_apart() const {
  const bool in_turn =
      config.policy == Policy::Early || config.policy == Policy::Late || config.policy == Policy::LateNewest;
  const uint64_t work = counters.warp_instructions * clusters_.size();
  return config.threads > 1 && !clusters_.empty() && live.empty() && !stopped && in_turn &&
         !config.environment && config.together <= 1 && !config.record && config.decisions.empty() &&
         listeners_.empty() && !recorded && !config.grant_claims && sink.findings.empty() &&
         poisons.dropped().empty() && printf_text.empty() && work >= kWorthThreads;
}

namespace {

// Clusters are handed out in order; what they leave is taken over in order.
class Turns {
 public:
  Turns(size_t count, size_t window) : count_(count), window_(window) {}

  // The number of the next cluster; none when all are handed out, or it is over. `poll` ends the wait.
  template <class Poll>
  std::optional<size_t> next(Poll&& poll) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!over_ && next_ < count_ && next_ >= taken_over_ + window_) {
      changed_.wait_for(lock, std::chrono::milliseconds(50));
      if (poll()) over_ = true;
    }
    if (over_ || next_ >= count_) return std::nullopt;
    return next_++;
  }

  // Runs `take` when it is this cluster's turn, here or in the thread that comes before it.
  void done(size_t n, std::function<void()> take) {
    std::unique_lock<std::mutex> lock(mutex_);
    waiting_.emplace(n, std::move(take));
    if (taking_) return;
    taking_ = true;
    for (auto it = waiting_.begin(); !over_ && it != waiting_.end() && it->first == taken_over_;
         it = waiting_.begin()) {
      const auto now = std::move(it->second);
      waiting_.erase(it);
      lock.unlock();
      now();
      lock.lock();
      ++taken_over_;
      changed_.notify_all();
    }
    taking_ = false;
  }

  void stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  bool over() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return over_;
  }
  bool complete() const { return !over_ && taken_over_ == count_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const size_t count_, window_;
  size_t next_ = 0, taken_over_ = 0;
  std::map<size_t, std::function<void()>> waiting_;
  bool taking_ = false, over_ = false;
};

}  // namespace

void Engine::run_apart() {
  const std::vector<Dim3> firsts(clusters_.begin(), clusters_.end());
  const size_t threads = std::min<size_t>(config.threads, firsts.size());
  Footprints footprints(memory, config.room - std::min(config.room, memory.taken()));
  if (!footprints.ready()) return;
  Turns turns(firsts.size(), 2 * threads);
  std::vector<GlobalMemory> views(threads, memory);
  std::vector<std::unique_ptr<Engine>> engines;
  for (size_t k = 0; k < threads; ++k) {
    Config c = config;
    c.threads = 1;
    if (k) c.interrupted = [&turns] { return turns.over(); };
    engines.push_back(std::make_unique<Engine>(program, views[k], c));
  }
  const auto work = [&](Engine& e, bool own) {
    try {
      const auto poll = [&] { return e.interrupted |= own && config.interrupted && config.interrupted(); };
      while (const auto n = turns.next(poll)) {
        // As many clusters wait for their turn as run, twice over.
        Apart apart{footprints, static_cast<uint32_t>(*n), kMostHeld / (3 * threads), {}};
        e.apart_ = &apart;
        e.accompanied_ = *n + 1 < firsts.size() && config.resident > 1;
        e.scheduler->start_machine();
        e.start_cluster(firsts[*n]);
        e.scheduler->run();
        if (e.stopped || !e.sink.findings.empty() || !e.poisons.dropped().empty() || !e.printf_text.empty())
          return turns.stop();
        turns.done(*n, [this, reductions = std::move(apart.reductions),
                        captures = std::move(e.tap_records)]() mutable {
          reductions.apply(memory);
          std::move(captures.begin(), captures.end(), std::back_inserter(tap_records));
        });
        e.tap_records.clear();
      }
    } catch (const std::bad_alloc&) {
      turns.stop();
    }
  };
  const size_t captured = tap_records.size();
  std::vector<std::thread> others;
  try {
    for (size_t k = 1; k < threads; ++k) others.emplace_back(work, std::ref(*engines[k]), false);
  } catch (const std::system_error&) {  // the host has no more threads: fewer run
  }
  work(*engines[0], true);
  for (std::thread& t : others) t.join();
  interrupted = engines[0]->interrupted;
  bool whole = turns.complete() && !interrupted;
  uint64_t instructions = counters.warp_instructions, held = held_;
  for (const auto& e : engines) {
    instructions += e->counters.warp_instructions;
    held += e->held_;
  }
  whole &= instructions <= config.instruction_limit && held <= kMostHeld;
  if (!whole) {
    tap_records.resize(captured);
    footprints.restore(memory);
    stopped = interrupted;
    return;
  }
  clusters_.clear();
  threads_used = static_cast<uint32_t>(1 + others.size());
  held_ = held;
  for (size_t k = 0; k < threads; ++k) take_over(*engines[k]);
}

void Engine::take_over(Engine& e) {
  counters += e.counters;
  started_ += e.started_;
  for (size_t k = 0; k < executed.size(); ++k) executed[k] |= e.executed[k];
  inits.merge(e.inits);
  announced.merge(e.announced);
  memory.take_over(e.memory);
}

}  // namespace tileproof
