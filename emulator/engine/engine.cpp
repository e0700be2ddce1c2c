// Launch, clusters and the scheduler: which lanes run next, where diverged lanes meet, when nothing can move.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "budget.hpp"
#include "grids.hpp"
#include "path_trace.hpp"
#include "race.hpp"
#include "race_dependence.hpp"
#include "schedule.hpp"
#include "specials.hpp"
#include "wgmma.hpp"

namespace tileproof {

std::string hex(uint64_t v) {
  char b[32];
  std::snprintf(b, sizeof b, "0x%llx", static_cast<unsigned long long>(v));
  return b;
}

Engine::Engine(const Program& p, GlobalMemory& m, Config c)
    : program(p),
      memory(m),
      config(std::move(c)),
      executed(p.code.size(), 0),
      rng(config.seed * 0x9e3779b97f4a7c15ull + 1),
      scheduler(Scheduler::make(*this)),
      watch_(config.seconds_limit, config.interrupted) {
  sink.weights = config.weights;
  sink.stopped = &stopped;
  if (config.trace_limit) {
    trace = config.path ? path_trace(*this) : std::make_unique<Trace>(*this);
    listeners_.push_back(trace.get());
  }
  if (config.races) {
    races_ = std::make_unique<Races>(*this);
    listeners_.push_back(races_.get());
  }
  mark_fragment_accesses(program, executed);
  if (!config.recorded.empty()) {
    recorded = std::make_unique<RegisterRecord>(p, config.recorded, kMostRecordedWords);
    for (const uint32_t k : config.recorded) executed[k] |= kRecorded;
  }
  if (config.grid_record) {
    grids_ = std::make_unique<Grids>(*this);
    listeners_.push_back(grids_.get());
  }
}

Engine::~Engine() = default;

void Engine::run() {
  std::deque<Dim3>& firsts = clusters_;
  const Dim3 g = config.grid, c = config.cluster;
  if (config.clusters) {
    const uint32_t across = g.x / c.x, down = g.y / c.y;
    for (const uint32_t n : *config.clusters)
      firsts.push_back({n % across * c.x, n / across % down * c.y, n / across / down * c.z});
  } else {
    for (uint32_t z = 0; z < g.z; z += c.z)
      for (uint32_t y = 0; y < g.y; y += c.y)
        for (uint32_t x = 0; x < g.x; x += c.x) firsts.push_back({x, y, z});
  }
  // The order of clusters is unspecified in CUDA, and so is which run at once: a random environment shuffles
  // them, and starts up to three together. Otherwise the next one starts when those that run only wait for
  // it, or are over.
  uint64_t together = 1;
  if (config.environment) {
    std::mt19937_64 draw(config.environment);
    std::shuffle(firsts.begin(), firsts.end(), draw);
    together = std::min<uint64_t>(1 + mix(config.environment, 3) % 3, config.resident);
  }
  if (config.together) together = std::min(config.together, config.resident);
  check_groups();
  bool tried = false;
  while (!clusters_.empty() && !stopped) {
    scheduler->start_machine();
    for (uint64_t k = 0; k < together && !clusters_.empty(); ++k) start_next();
    scheduler->run();
    if (!tried && can_run_apart()) {
      tried = true;
      run_apart();
    }
  }
  for (auto& cluster : live) finish_cluster(*cluster);  // the launch was stopped
  if (!stopped) check_outputs();
  note_dropped_poison();
  for (uint8_t& marks : executed) marks &= static_cast<uint8_t>(~kSlowly);
}

bool Engine::start_another() {
  if (accompanied_) stopped = true;
  if (clusters_.empty() || live.size() >= config.resident) return false;
  start_next();
  return true;
}

void Engine::retire() {
  ended_ = false;
  for (size_t k = 0; k < live.size() && !stopped;) {
    if (live[k]->live_threads) {
      ++k;
      continue;
    }
    finish_cluster(*live[k]);
    if (stopped) return;
    spare_.push_back(std::move(live[k]));
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(k));
  }
}

Cluster& Engine::cluster_at(Dim3 cta) const {
  const Dim3 c = config.cluster;
  for (const auto& cluster : live)
    if (cta.x - cluster->first.x < c.x && cta.y - cluster->first.y < c.y && cta.z - cluster->first.z < c.z)
      return *cluster;
  return *live.front();
}

// Which one is unspecified: the one that would start next, in the order that the environment has drawn.
std::optional<Dim3> Engine::claim_cluster() {
  if (!config.grant_claims || clusters_.empty()) return std::nullopt;
  const Dim3 claimed = clusters_.front();
  clusters_.pop_front();
  ++counters.claimed_clusters;
  return claimed;
}

void Engine::hold(uint64_t bytes, const Origin& at) {
  held_ += bytes;
  if (held_ > kMostHeld && !stopped)
    fault("memory-limit",
          "captures, data on its way and groups of copies take more than " + std::to_string(kMostHeld) +
              " bytes of the host",
          at);
}

std::shared_ptr<std::vector<uint8_t>> Engine::held_bytes(size_t n, const Origin& at) {
  hold(n, at);
  return {new std::vector<uint8_t>(n), [this, n](std::vector<uint8_t>* bytes) {
            release(n);
            delete bytes;
          }};
}

void Engine::start_cluster(Dim3 first) {
  spend(256, Origin{nullptr, first, 0, -1, -1});
  if (spare_.empty()) spare_.push_back(std::make_unique<Cluster>());
  uint32_t slot = 0;
  while (slot < live.size() && live[slot]->slot == slot) ++slot;
  Cluster* cluster =
      live.insert(live.begin() + static_cast<std::ptrdiff_t>(slot), std::move(spare_.back()))->get();
  spare_.pop_back();
  cluster->slot = slot;
  cluster->serial = started_++;
  last_start_ = counters.warp_instructions;
  const Dim3 c = config.cluster;
  cluster->first = first;
  cluster->ctas.resize(c.volume());
  cluster->barrier_generation = cluster->barrier_arrived = 0;
  cluster->live_threads = 0;
  const uint32_t threads = config.block.volume();
  const int warps = static_cast<int>((threads + 31) / 32);
  for (uint32_t r = 0; r < c.volume(); ++r) {
    if (!cluster->ctas[r]) cluster->ctas[r] = std::make_unique<Cta>();
    Cta& cta = *cluster->ctas[r];
    cta.cluster = cluster;
    cta.rank = static_cast<int32_t>(r);
    cta.id = {first.x + r % c.x, first.y + r / c.x % c.y, first.z + r / (c.x * c.y)};
    cta.shared.reset(kReservedSharedBytes + static_cast<size_t>(program.static_shared_bytes) +
                     config.dynamic_shared + 1024);
    cta.shared.data.resize(kReservedSharedBytes + static_cast<size_t>(program.static_shared_bytes) +
                           config.dynamic_shared);
    cta.tmem.reset();
    cta.named.fill(NamedBarrier{});
    for (const auto& group : cta.warpgroups)
      if (group)
        for (const WarpFragments& warp : group->warps) release(kGroupBytes * warp.groups.size());
    cta.warpgroups.clear();
    cta.pair_ops.clear();
    cta.pair_allocations.clear();
    cta.collectors.fill(Collector{});
    cta.register_pool = 0;
    cta.claim_refused = false;
    cta.live_threads = threads;
    cluster->live_threads += threads;
    cta.warps.resize(static_cast<size_t>(warps));
    for (int i = 0; i < warps; ++i) start_warp(cta, cta.warps[static_cast<size_t>(i)], i);
  }
  scheduler->start_cluster(*cluster);
  tell(&Listener::start_cluster, *cluster);
}

void Engine::start_warp(Cta& cta, Warp& w, int index) {
  const uint32_t threads = config.block.volume();
  const uint32_t first = static_cast<uint32_t>(index) * 32;
  const uint32_t lanes = std::min(32u, threads - first);
  w.cta = &cta;
  w.index = index;
  w.live = lanes == 32 ? ~0u : (1u << lanes) - 1;
  // What is read before it is written does not depend on the CTA that ran here before.
  w.registers.assign(static_cast<size_t>(program.register_bytes + 63) / 64, {});
  w.load_of_register.clear();
  w.splits.clear();
  w.joins.clear();
  w.parts.clear();
  w.apart.clear();
  for (const auto& [lane, thread] : w.bulk) release(kGroupBytes * thread.committed.size());
  w.bulk.clear();
  if (w.copies) release(kGroupBytes * w.copies->committed());
  w.copies.reset();
  w.tmem_loads.clear();
  w.open_loads = 0;
  w.poison.clear();
  w.local_poison.clear();
  w.slow = races_ && races_->follows();
  w.exits.clear();
  w.passes.clear();
  w.cluster_arrived = 0;
  w.cluster_owes = 0;
  w.cluster_tokens.fill(0);
  w.maxnreg = config.launch_registers;
  w.steps.fill(0);
  w.local.assign(static_cast<size_t>(program.local_bytes) * 32, 0);
  Split s;
  s.mask = w.live;
  w.splits.push_back(s);
  fill_specials(*this, cta, w);
}

// ---------------------------------------------------------------------------------------------------------
// Running

Engine::Ran Engine::run_split(Warp& w, size_t index, uint32_t most, bool consult) {
  static const Handler branch = handler_table()[static_cast<size_t>(branch_handler())];
  Cta& cta = *w.cta;
  const Instr* code = program.code.data();
  uint8_t* const ran_ever = executed.data();
  Exec x{*this, cta, w, nullptr, w.regs(), program.constants.data(), 0, nullptr};
  // mbarrier_wait itself says when its wait is over.
  if (Split& s = w.splits[index]; s.wait != Wait::None && s.wait != Wait::MbarrierParity)
    tell(&Listener::wait_ends, w, s, code + s.pc);
  w.splits[index].wait = Wait::None;
  Ran ran;
  const uint64_t before = progress;
  const Split& first = w.splits[index];
  const int leader = __builtin_ctz(first.mask);
  const bool spins = first.seen_progress == progress && first.idle >= kSpin;
  const uint32_t idle_limit = kSpin + (spins ? first.idle : 0);
  uint64_t quiet = 0;  // instructions since the last visible operation
  while (!stopped) {
    Split* s = &w.splits[index];
    if (s->pc == s->rpc) {
      enter_join(w, index);
      return ran;
    }
    const Instr& i = code[s->pc];
    uint32_t mask = s->mask;
    if (i.pred >= 0) {
      const uint32_t p = *reinterpret_cast<const uint32_t*>(x.regs + i.pred);
      mask &= i.pred_neg ? ~p : p;
      if (w.slow) [[unlikely]] {
        if (w.poison.any()) poison_guard(w, *s, i, mask);
        if (races_ && races_->follows() && i.fn != branch) races_->follows()->skipped(w, i, s->mask & ~mask);
      }
    }
    if (i.visible && mask) {
      if (ran.steps == most || (consult && (progress != before || __builtin_ctz(s->mask) != leader))) {
        ran.resumable = true;
        return ran;
      }
      quiet = 0;
    } else if (++quiet > 20000) {
      s->idle = idle_limit;
      s->seen_progress = progress;
      return ran;
    }
    ++counters.warp_instructions;
    if (i.fn == branch) {
      ran_ever[s->pc] |=
          static_cast<uint8_t>(kRan | (mask ? kTaken : 0) | (mask != s->mask ? kFellThrough : 0));
      if (config.path) tell(&Listener::branch, w, s->mask, &i, mask);
      if (races_ && races_->follows()) [[unlikely]]
        races_->follows()->branch(w, i, s->mask);
      if (mask == s->mask) {
        s->pc = i.target;
      } else if (!mask) {
        s->pc++;
      } else {
        diverge(w, index, i, mask);
        // Both sides are schedulable now; the taken side goes on here.
      }
      spend(heard() ? 32 : 1,
            Origin{&i, cta.id, cta.rank, w.index, static_cast<int32_t>(__builtin_ctz(s->mask))});
      if (counters.warp_instructions > config.instruction_limit) {
        fault("instruction-limit",
              "the launch ran " + std::to_string(config.instruction_limit) +
                  " warp instructions without ending",
              Origin{&i, cta.id, cta.rank, w.index, static_cast<int32_t>(__builtin_ctz(s->mask))});
        return ran;
      }
      if (counters.warp_instructions - last_effect_ > config.livelock_limit) {
        if (progress != last_progress_) {
          last_progress_ = progress;
          last_effect_ = counters.warp_instructions;
        } else {
          report_livelock(
              Origin{&i, cta.id, cta.rank, w.index, static_cast<int32_t>(__builtin_ctz(s->mask))});
          return ran;
        }
      }
      continue;
    }
    if (!mask) {
      s->pc++;
      continue;
    }
    const uint8_t marks = ran_ever[s->pc] |= kRan;
    x.s = s;
    x.mask = mask;
    x.instr = &i;
    const size_t lead = static_cast<size_t>(__builtin_ctz(s->mask));
    const Step step = w.slow || (marks & kSlowly) ? run_slowly(x, i) : i.fn(x, i);
    s = &w.splits[index];
    switch (step) {
      case Step::Next:
      case Step::Yield:
        s->pc++;
        break;
      case Step::Jump:
        break;
      case Step::Block:
        if (!s->dead) tell(&Listener::wait_begins, w, *s, &i);
        s->tries++;
        return ran;
      case Step::Stop:
        stopped = true;
        return ran;
    }
    if (i.visible) {
      ++w.steps[lead];
      ++ran.steps;
      ++counters.schedule_points;
      s->tries = 0;
      s->idle = s->seen_progress == progress ? s->idle + 1 : 0;
      s->seen_progress = progress;
      if (s->idle >= idle_limit || step == Step::Yield) return ran;
    }
    if (step == Step::Jump && s->dead) return ran;
  }
  return ran;
}

void Engine::look_at_the_clock(const Origin& at) {
  next_look_ = looks_ + 1024;
  if (memory.taken() > config.room && !stopped) {
    fault("memory-limit", "the launch stores to more global memory than this machine has for it", at);
    return;
  }
  switch (watch_.look()) {
    case Watch::Verdict::GoOn:
      return;
    case Watch::Verdict::TimeLimit: {
      char seconds[32];
      std::snprintf(seconds, sizeof seconds, "%g", config.seconds_limit);
      fault("time-limit", std::string("the launch ran for ") + seconds + " seconds without ending", at);
      return;
    }
    case Watch::Verdict::Interrupted:
      interrupted = stopped = true;
      return;
  }
}

void Engine::exit_lanes(Warp& w, uint32_t lanes, const Instr* at) {
  lanes &= w.live;
  if (!w.exits.empty() && w.exits.back().second == at)
    w.exits.back().first |= lanes;
  else
    w.exits.push_back({lanes, at});
  if (w.copies)
    for (uint32_t m = lanes; m; m &= m - 1) {
      const size_t l = static_cast<size_t>(__builtin_ctz(m));
      if (w.copies->issued[l] > w.copies->tracked[l])
        warn(
            "async-pending-at-exit",
            "a thread exits without having waited for its last cp.async (cp.async.wait_group, or an mbarrier "
            "that tracks it)",
            Origin{at, w.cta->id, w.cta->rank, w.index, static_cast<int32_t>(l)});
    }
  if (const size_t n = static_cast<size_t>(w.index / kWarpgroup);
      n < w.cta->warpgroups.size() && w.cta->warpgroups[n]) {
    const WarpFragments& mine = w.cta->warpgroups[n]->warps[static_cast<size_t>(w.index % kWarpgroup)];
    if (mine.issued > mine.waited)
      warn("async-pending-at-exit",
           "a warp exits without having waited for its last wgmma.mma_async (wgmma.commit_group and "
           "wait_group)",
           Origin{at, w.cta->id, w.cta->rank, w.index,
                  static_cast<int32_t>(__builtin_ctz(lanes ? lanes : 1))});
  }
  w.live &= ~lanes;
  Cluster& cluster = *w.cta->cluster;
  // A thread that arrived at the cluster barrier and exited is no longer waited for, and no longer counts.
  cluster.barrier_arrived -= static_cast<uint32_t>(__builtin_popcount(lanes & w.cluster_arrived));
  w.cluster_arrived &= ~lanes;
  const uint32_t n = static_cast<uint32_t>(__builtin_popcount(lanes));
  w.cta->live_threads -= n;
  cluster.live_threads -= n;
  ended_ |= !cluster.live_threads;
  ++progress;
  tell(&Listener::exit, w, lanes, at);
  if (w.cta->exited())
    check_pair_exit(*w.cta, Origin{at, w.cta->id, w.cta->rank, w.index,
                                   static_cast<int32_t>(__builtin_ctz(lanes ? lanes : 1))});
  for (size_t j = 0; j < w.joins.size(); ++j)
    if (w.joins[j].expected) leave_join(w, static_cast<int32_t>(j));
  for (int id = 0; id < 16; ++id) named_barrier_check(*w.cta, id);
  cluster_barrier_check(cluster);
}

// The tail of a pipeline may leave its barriers of free buffers half arrived, so that this is said when
// strict only; bytes that were announced and never come leave a phase that nobody can wait for.
void Engine::tell_left_over(const Cluster& cluster) {
  for (const auto& cta : cluster.ctas)
    for (const Mbarrier& b : cta->shared.bars) {
      if (!b.live || (b.pending == b.expected && !b.tx)) continue;
      const std::string of = "phase " + std::to_string(b.phase) + " of the mbarrier at shared offset " +
                             hex(b.offset) + " has " + std::to_string(b.expected - b.pending) + " of " +
                             std::to_string(b.expected) + " arrivals";
      const std::string end = " as its CTA has exited";
      const Origin at{b.history.init, cta->id, cta->rank, b.history.init_warp, -1};
      if (!b.tx)
        note("mbarrier-left-over", of + end, at);
      else if (b.tx > 0)
        error("mbarrier-bytes-left", of + " and lacks " + std::to_string(b.tx) + " bytes" + end, at);
      else
        error("mbarrier-bytes-left",
              of + " and " + std::to_string(-b.tx) + " bytes that nobody announced" + end, at);
    }
}

void Engine::finish_cluster(Cluster& cluster) {
  if (!stopped) {
    for (const auto& q : queues_)
      for (const AsyncOp& op : q.second) {
        if (op.cluster != &cluster || !std::strcmp(op.engine, "commit")) continue;  // commit-at-exit
        warn("async-pending-at-exit",
             std::string(op.engine) +
                 " issued here was still in flight when the last thread of the cluster exited",
             op.origin);
      }
    scheduler->drain(cluster);
  }
  tell(&Listener::finish_cluster, cluster);
  if (stopped) return;
  if (config.strict) tell_left_over(cluster);
  for (auto& cta : cluster.ctas)
    if (!cta->tmem.allocations.empty()) {
      int columns = 0;
      for (auto& a : cta->tmem.allocations) columns += a.second;
      Origin at{nullptr, cta->id, cta->rank, -1, -1};
      error("tmem-leak",
            "the CTA exited with " + std::to_string(columns) +
                " TMEM columns still allocated; every tcgen05.alloc needs its tcgen05.dealloc (PTX ISA "
                "9.7.16.7.1)",
            at);
    }
}

}  // namespace tileproof
