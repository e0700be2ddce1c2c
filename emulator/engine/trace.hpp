// What a launch leaves behind: the producers of each mbarrier (always), and a list of events (when asked
// for).
#pragma once

#include <cstdint>
#include <vector>

#include "listener.hpp"
#include "enumerations/trace.hpp"
#include "program.hpp"

namespace tileproof {

// What a producer does to an mbarrier.
enum class Deed : uint8_t { Arrive, Expect, Deliver };

// One instruction of one warp that acted on an mbarrier: in the phase of its last deed, and in the one
// before.
struct Producer {
  const Instr* instr = nullptr;
  int16_t rank = 0;
  int16_t warp = 0;
  Deed deed = Deed::Arrive;
  uint32_t phase = 0;
  uint32_t lanes[2] = {0, 0};  // this phase, the phase before
  int64_t amount[2] = {0, 0};  // arrivals or bytes
  uint64_t deeds = 0;          // in all phases
  uint64_t last = 0;           // order stamp
};

// The last successful wait of a warp of the barrier's own CTA.
struct PassedWait {
  const Instr* instr = nullptr;
  int64_t phase = -2;  // -1: the phase before the first; -2: never
  uint64_t last = 0;   // order stamp
};

struct BarrierHistory {
  const Instr* init = nullptr;
  int16_t init_warp = -1;
  std::vector<Producer> producers;
  std::vector<PassedWait> passed;  // by warp

  void record(Deed deed, const Origin& at, int64_t amount, uint32_t phase, uint64_t now);
  void pass(int warp, const Instr* instr, int64_t phase, uint64_t now) {
    if (passed.size() <= static_cast<size_t>(warp)) passed.resize(static_cast<size_t>(warp) + 1);
    passed[static_cast<size_t>(warp)] = {instr, phase, now};
  }

 private:
  uint32_t hint_ = 0;  // the producer found last
};

// One event; the layout is EVENT in emulator/trace.py.
struct TraceEvent {
  uint64_t time;  // warp instructions executed so far
  uint64_t op;    // asynchronous operation, 0 when none
  int64_t value;  // arrivals, bytes, parity or TMEM column
  int32_t pc;
  uint32_t cta[3];
  int32_t barrier;  // byte offset of an mbarrier, id of a named barrier, -1 when none
  int32_t phase;
  uint32_t lanes;
  int16_t rank, warp, lane;
  int16_t to_rank;  // of the barrier
  uint8_t kind, object, engine, pad;
};
static_assert(sizeof(TraceEvent) == 64);

class Engine;

// Keeps the events of a launch.
class Trace : public Listener {
 public:
  explicit Trace(const Engine& engine) : e_(engine) {}
  std::vector<TraceEvent> events;
  uint64_t dropped = 0;

  void exit(const Warp& w, uint32_t lanes, const Instr* at) override;
  void branch(const Warp& w, uint32_t lanes, const Instr* at, uint32_t taken) override;
  void wait_begins(const Warp& w, Split& s, const Instr* instr) override;
  void wait_ends(const Warp& w, Split& s, const Instr* instr) override;
  void mbarrier_arrived(const Cta& cta, const Mbarrier& b, uint32_t count, const Origin& at) override;
  void mbarrier_expected(const Cta& cta, const Mbarrier& b, int64_t bytes, const Origin& at) override;
  void mbarrier_deliver(Cta& cta, const Mbarrier& b, int64_t bytes, const Origin& at) override;
  void mbarrier_done(Cta& cta, const Mbarrier& b, const Origin& at) override;
  void mbarrier_passed(const Exec& x, uint32_t offset, uint32_t parity) override;
  void named_arrive(const Exec& x, uint32_t id) override;
  void cluster_arrive(const Exec& x, bool releases) override;
  void issue(AsyncOp& op) override;
  void completed(const AsyncOp& op) override;
  void tmem_load(const Exec& x, PendingTmemLoad& load, int column) override;

 protected:
  // A new event of now, to be filled further; null when the trace is full.
  TraceEvent* event(uint8_t kind, const Origin& at);

 private:
  TraceEvent* event(Event kind, Object object, const Origin& at);
  void on_wait(Event kind, const Warp& w, const Split& s, const Instr* instr);
  void on_barrier(Event kind, const Cta& cta, const Mbarrier& b, int64_t phase, int64_t value,
                  const Origin& at);
  const Engine& e_;
};

// A TraceEngine.
uint8_t engine_number(const char* name);

}  // namespace tileproof
