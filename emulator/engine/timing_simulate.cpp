// The discrete-event model: warps issue machine code and wait, simulate.py on the engine.
#include <algorithm>
#include <bit>
#include <optional>
#include <stdexcept>

#include "timing.hpp"

namespace tileproof::timing {

namespace {

constexpr int64_t kWholeWarp = 0xFFFFFFFF;

struct Walk {
  int64_t warp = 0, entry = 0, first = 0, at = 0, cluster = -1;
  double ready = 0, stored = 0, reached = 0;
  std::array<double, 6> boards{};
  std::array<int64_t, 6> holder{};
  std::vector<int64_t> lanes_remaining;
};

// What happens at a clock: a warp goes on (its number), or `Later` (its place in the pool, as ~place).
struct Item {
  double time;
  uint64_t tie, count;
  int64_t what;
  bool before(const Item& other) const {
    if (time != other.time) return time < other.time;
    return tie != other.tie ? tie < other.tie : count < other.count;
  }
};

class Heap {
 public:
  bool empty() const { return items_.empty(); }
  const Item& top() const { return items_.front(); }
  void push(const Item& item) {
    items_.push_back(item);
    size_t at = items_.size() - 1;
    for (size_t up; at && item.before(items_[up = (at - 1) / 2]); at = up) items_[at] = items_[up];
    items_[at] = item;
  }
  Item pop() {
    const Item first = items_.front(), last = items_.back();
    items_.pop_back();
    if (!items_.empty()) sink(last);
    return first;
  }
  // The first of `item` and what is here; the others stay.
  Item push_pop(const Item& item) {
    if (items_.empty() || !items_.front().before(item)) return item;
    const Item first = items_.front();
    sink(item);
    return first;
  }

 private:
  void sink(const Item& item) {
    const size_t size = items_.size();
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < size; at = child) {
      if (child + 1 < size && items_[child + 1].before(items_[child])) ++child;
      if (!items_[child].before(item)) break;
      items_[at] = items_[child];
    }
    items_[at] = item;
  }
  std::vector<Item> items_;
};

class Simulation final : public Host {
 public:
  Simulation(const Program& program, const std::array<double, FIGURES>& figures, bool alone, int64_t order,
             double working_set)
      : p_(program),
        f_{figures, &out_.used},
        units_(program, f_, alone, working_set, out_, *this),
        waiters_(program.phases.size()),
        done_at_(program.phases.size(), -1),
        slots_(static_cast<size_t>(program.slots), 0.0),
        step_cursor_(program.step_groups.size(), 0),
        pass_cursor_(program.pass_groups.size(), 0),
        touched_cursor_(program.touched_groups.size(), 0) {
    if (order >= 0) drawn_.emplace(static_cast<uint64_t>(order));
    for (const auto& phase : program.phases) remaining_.push_back(phase[1]);
    walks_.resize(program.warps.size());
    out_.log_times.resize(program.warps.size());
    out_.log_lines.resize(program.warps.size());
  }

  Result run() {
    for (size_t n = 0; n < p_.warps.size(); ++n) {
      const WarpOf& warp = p_.warps[n];
      walks_[n].warp = static_cast<int64_t>(n);
      if (!warp.count) continue;
      walks_[n].first = block(p_.passages[static_cast<size_t>(warp.passages)]).first;
      push(0.0, static_cast<int64_t>(n));
    }
    play();
    for (size_t n = 0; n < p_.step_groups.size(); ++n)
      if (const int64_t missing = p_.step_groups[n].count - step_cursor_[n])
        out_.remaining.emplace_back(p_.step_groups[n].line, missing);
    for (size_t n = 0; n < out_.ends.size(); ++n)
      out_.clocks = n ? std::max(out_.clocks, out_.ends[n].second) : out_.ends[n].second;
    return std::move(out_);
  }

  void later(double time, const Later& what) override {
    int64_t place;
    if (unused_.empty()) {
      place = static_cast<int64_t>(pool_.size());
      pool_.push_back(what);
    } else {
      place = unused_.back();
      unused_.pop_back();
      pool_[static_cast<size_t>(place)] = what;
    }
    push(time, ~place);
  }

  void contribute(double time, int64_t phase, const Origin& origin) override {
    later(time, {Later::Contribute, 0, phase, 0, origin, 0, 0, 0});
  }

 private:
  const Block& block(const Passage& entry) const { return p_.blocks[static_cast<size_t>(entry.block)]; }
  const Passage& passage(const Walk& walk) const {
    return p_.passages[static_cast<size_t>(p_.warps[static_cast<size_t>(walk.warp)].passages + walk.entry)];
  }
  double& slot(const Walk& walk) {
    return slots_[static_cast<size_t>(p_.warps[static_cast<size_t>(walk.warp)].slot)];
  }
  void log(const Walk& walk, double time, const Code& code) {
    out_.log_times[static_cast<size_t>(walk.warp)].push_back(time);
    out_.log_lines[static_cast<size_t>(walk.warp)].push_back(code.line);
  }
  uint64_t tie() {
    ++count_;
    return drawn_ ? (*drawn_)() : count_;
  }
  void push(double time, int64_t what) {
    const uint64_t order = tie();
    heap_.push({time, order, count_, what});
  }

  // Every event in the order of clocks. Most are a plain instruction.
  void play() {
    while (!heap_.empty()) {
      Item item = heap_.pop();
      while (item.what >= 0) {
        Walk& walk = walks_[static_cast<size_t>(item.what)];
        const Code& code = p_.code.at(static_cast<size_t>(walk.first + walk.at));
        double after = 0;
        if (code.flags & kStraight) {
          double& free = slot(walk);
          after = free;
          if (after <= item.time) {
            free = item.time + 1;
            log(walk, item.time, code);
            ++walk.at;
            after = item.time + static_cast<double>(code.stall);
          }
        } else if (!issue(walk, code, item.time, after)) {
          break;
        }
        if (!heap_.empty() && heap_.top().time <= after) {
          const uint64_t order = tie();
          item = heap_.push_pop({after, order, count_, item.what});
        } else {
          item.time = after;
        }
      }
      if (item.what < 0) {
        const int64_t place = ~item.what;
        const Later what = pool_[static_cast<size_t>(place)];
        unused_.push_back(place);
        if (what.type == Later::Contribute)
          contributed(what.phase, what.origin, item.time);
        else
          units_.run(what, item.time);
      }
    }
  }

  // The warp's next clock; false if another event determines it, or the warp has ended.
  bool issue(Walk& walk, const Code& code, double time, double& after) {
    if (code.boards) {
      double need = time;
      int64_t cause = -1;
      for (size_t board = 0; board < 6; ++board)
        if (code.boards >> board & 1 && walk.boards[board] > need)
          need = walk.boards[board], cause = walk.holder[board];
      if (need > time) {
        out_.waits.push_back({walk.warp, -1, cause, code.line, time, need});
        after = need;
        return true;
      }
    }
    double& free = slot(walk);
    if (free > time) {
      after = free;
      return true;
    }
    free = time + 1;
    log(walk, time, code);
    after = time + static_cast<double>(code.stall);
    const Passage& entry = passage(walk);
    if (!(code.flags & kPlain)) {
      double done, read;
      if (code.flags & kServed) {
        std::tie(done, read) = execute(walk, code, time, entry.lanes);
      } else {
        done = time + f_[code.figure];
        read = time + f_[read_operands];
      }
      hold(walk, code.writes, done, code.opcode);
      hold(walk, code.reads, read, code.opcode);
      if (code.flags & kFence && (!(code.flags & kGuard) || due(walk.warp, code, entry)))
        after = std::max(after, fenced(walk, code.flags & kFenceOfCta, time));  // at no scoreboard
    }
    ++walk.at;
    if (code.flags & kLoops && !walk.lanes_remaining.empty()) {
      walk.at = 0;
      after = std::max(after, time + f_[branch]);
    } else if (code.flags & kEnds) {
      const int64_t end = walk.first + walk.at;
      ++walk.entry;
      walk.at = 0;
      if (walk.entry == p_.warps[static_cast<size_t>(walk.warp)].count) {
        out_.ends.emplace_back(walk.warp, after);
        return false;
      }
      walk.first = block(passage(walk)).first;
      if (walk.first != end) after = std::max(after, time + f_[branch]);
    }
    return code.flags & kStepped ? act(walk, code, entry, time, after) : true;
  }

  static void hold(Walk& walk, int64_t board, double until, int64_t opcode) {
    if (board >= 6 || until <= walk.boards[static_cast<size_t>(board)]) return;
    walk.boards[static_cast<size_t>(board)] = until;
    walk.holder[static_cast<size_t>(board)] = opcode;
  }

  // When a fence is over: its scope is the CTA, or more.
  double fenced(Walk& walk, bool cta, double time) {
    if (cta) return std::max(time + f_[fence], walk.stored);
    double behind = 0;
    if (walk.reached != 0) {
      time = std::max(time, walk.reached);
      behind = f_[memory_barrier_global];
      walk.reached = 0;
    }
    return std::max(time + f_[memory_barrier] + behind, walk.stored);
  }

  // The step of an instruction, if any; whether the warp goes on, at `after`.
  bool act(Walk& walk, const Code& code, const Passage& entry, double time, double& after) {
    if (!walk.lanes_remaining.empty() && code.flags & kOneLane) {
      const int64_t number = walk.lanes_remaining.front();
      walk.lanes_remaining.erase(walk.lanes_remaining.begin());
      units_.start(number, walk.warp, time);
      return true;
    }
    const Step* step = next_step(walk.warp, code, entry);
    int64_t waits = step ? step->waits : -1;
    if (code.flags & kClusterWait && walk.cluster >= 0) {
      step = nullptr;
      waits = walk.cluster;
    } else if (!step) {
      return true;
    }
    if (step) {
      arrive(walk, code, *step, time);
      int64_t count = step->issue_count;
      const auto numbers = p_.issues.begin() + step->issues;
      if (count > 1 && code.flags & kOneLane && block(entry).loops) {
        walk.lanes_remaining.assign(numbers + 1, numbers + count);
        count = 1;
      }
      for (int64_t n = 0; n < count; ++n) units_.start(numbers[n], walk.warp, time);
    }
    if (waits < 0) return true;
    if (remaining_[static_cast<size_t>(waits)] > 0) {
      walk.ready = after;
      waiters_[static_cast<size_t>(waits)].push_back({walk.warp, time, code.line, entry.lanes == kWholeWarp});
      return false;
    }
    const bool mbarrier = kind(waits) == Kind::Mbarrier;
    after = std::max(after, time + (mbarrier ? f_[barrier_look] : 0.0));
    return true;
  }

  void arrive(Walk& walk, const Code& code, const Step& step, double time) {
    for (int64_t n = 0; n < step.arrive_count; ++n) {
      const auto [phase, remote] = p_.arrives[static_cast<size_t>(step.arrives + n)];
      double delay = f_[remote ? timing::arrive_remote : timing::arrive];
      const int64_t cta = p_.warps[static_cast<size_t>(walk.warp)].cta;
      if (kind(phase) == Kind::Named) {
        const double done = units_.serve(cta, Unit::NamedBarriers, time, f_[barrier_per_warp], code.line);
        delay = done - time + f_[barrier];
      } else if (kind(phase) == Kind::Cluster) {
        delay = f_[cluster_barrier];
        walk.cluster = phase;
      } else if (step.after_copies) {
        delay += std::max(0.0, units_.copies_done(walk.warp) - time);
      }
      contribute(time + delay, phase,
                 {static_cast<int32_t>(walk.warp), Unit::None, code.line, time, 0.0, 0.0});
    }
  }

  Kind kind(int64_t phase) const { return static_cast<Kind>(p_.phases[static_cast<size_t>(phase)][0]); }

  // The next step of an instruction's line, if any is left; of an instruction with a predicate, if the run
  // had it here.
  const Step* due(int64_t warp, const Code& code, const Passage& entry) {
    const auto found = p_.steps_at.find(p_.key(warp, code.line_number));
    if (code.line_number < 0 || found == p_.steps_at.end()) return nullptr;
    const Group& group = p_.step_groups[static_cast<size_t>(found->second)];
    const int64_t at = step_cursor_[static_cast<size_t>(found->second)];
    if (at == group.count) return nullptr;
    const Step& step = p_.steps[static_cast<size_t>(group.first + at)];
    return code.flags & kGuard && !holds(entry, code.line, step.at) ? nullptr : &step;
  }

  static bool holds(const Passage& entry, int64_t line, int64_t at) {
    if (line < entry.line) return entry.before < at && at <= entry.end;
    return entry.begin < at && at <= entry.next;
  }

  const Step* next_step(int64_t warp, const Code& code, const Passage& entry) {
    const Step* step = due(warp, code, entry);
    if (!step || !p_.does[static_cast<size_t>(code.root * p_.root_sets + step->roots)]) return nullptr;
    ++step_cursor_[static_cast<size_t>(p_.steps_at.at(p_.key(warp, code.line_number)))];
    return step;
  }

  void contributed(int64_t phase, const Origin& origin, double time) {
    const auto number = static_cast<size_t>(phase);
    if (--remaining_[number] > 0) return;
    if (done_at_[number] < 0) {
      done_at_[number] = static_cast<int64_t>(out_.completed.size());
      out_.completed.push_back({phase, time, origin});
    } else {
      out_.completed[static_cast<size_t>(done_at_[number])] = {phase, time, origin};
    }
    const std::vector<Waiter> waiting = std::move(waiters_[number]);
    waiters_[number].clear();
    for (const Waiter& waiter : waiting) {
      const bool mbarrier = kind(phase) == Kind::Mbarrier;
      const double woken = mbarrier ? f_[waiter.whole ? wake : wake_lane] : 0.0;
      out_.waits.push_back({waiter.warp, phase, -1, waiter.line, waiter.since, time + woken});
      push(std::max(walks_[static_cast<size_t>(waiter.warp)].ready, time + woken), waiter.warp);
    }
  }

  // When the result of a synchronous instruction is there, and when its sources are read.
  std::pair<double, double> execute(Walk& walk, const Code& code, double time, int64_t lanes) {
    const WarpOf& warp = p_.warps[static_cast<size_t>(walk.warp)];
    const int64_t cta = warp.cta;
    const auto what = static_cast<What>(code.what);
    switch (what) {
      case What::Addition: {
        const Touched seen = touched(walk.warp, code, lanes);
        const double begin = units_.ahead(cta, time);
        const auto [sent, done] = units_.add(cta, seen, begin, code.line);
        walk.reached = std::max(walk.reached, done);
        return {done + f_[global_load],
                std::max(begin, sent - units_.port_clocks(seen)) + f_[addition_operands]};
      }
      case What::TmemLoad:
      case What::TmemStore: {
        const double clocks = static_cast<double>(code.bytes) / f_[tmem_rate];
        const double done = units_.serve(cta, Unit::Tmem, time, clocks, code.line);
        const double latency = f_[what == What::TmemLoad ? tmem_load_latency : tmem_store_latency];
        return {done + latency, done + latency};
      }
      case What::Transcendental: {
        const double clocks = 128 / f_[transcendental_rate];
        const double done =
            units_.serve(cta, Unit::Transcendental, time, clocks, code.line, warp.scheduler, kParts);
        return {done - clocks + f_[transcendental], done};
      }
      case What::SharedLoad:
      case What::SharedStore: {
        const double count = passes(walk.warp, code, lanes);
        const double done = units_.shared(cta, warp.scheduler, count, time, code.line);
        if (what == What::SharedStore) walk.stored = std::max(walk.stored, done);
        return {done - f_[quarter_pass] + f_[code.figure], done + f_[read_operands]};
      }
      case What::CopyGroup:
        return {time, time};
      case What::GlobalLoad:
      case What::GlobalStore:
      case What::Other:
        break;
    }
    const double done = time + f_[code.figure];
    if (what == What::GlobalLoad) walk.reached = std::max(walk.reached, done);
    if (what == What::GlobalStore) walk.reached = std::max(walk.reached, time);
    return {done, time + f_[read_operands]};
  }

  static double bytes_of(const Code& code, int64_t lanes) {
    return static_cast<double>(std::popcount(static_cast<uint64_t>(lanes)) * 4 * code.bytes);
  }

  // Lines and sectors of an access of global memory: from the run, or contiguous if unknown.
  Touched touched(int64_t warp, const Code& code, int64_t lanes) {
    if (const auto at = next(p_.touched_at, p_.touched_groups, touched_cursor_, warp, code))
      return p_.touched[*at];
    const double bytes = bytes_of(code, lanes);
    return {bytes / 128, 0.0, bytes / 32};
  }

  // Passes over the banks of an access: from the run, or by its bytes if unknown.
  double passes(int64_t warp, const Code& code, int64_t lanes) {
    const double least = std::max(1.0, bytes_of(code, lanes) / 128);
    const auto at = next(p_.passes_at, p_.pass_groups, pass_cursor_, warp, code);
    return at ? std::max(least, p_.passes[*at]) : least;
  }

  // The next of what the run had of a warp at the line of an instruction.
  std::optional<size_t> next(const std::unordered_map<int64_t, int32_t>& groups,
                             const std::vector<Group>& all, std::vector<int64_t>& cursors, int64_t warp,
                             const Code& code) {
    if (code.line_number < 0) return std::nullopt;
    const auto found = groups.find(p_.key(warp, code.line_number));
    if (found == groups.end()) return std::nullopt;
    const auto number = static_cast<size_t>(found->second);
    if (cursors[number] >= all[number].count) return std::nullopt;
    return static_cast<size_t>(all[number].first + cursors[number]++);
  }

  struct Waiter {
    int64_t warp;
    double since;
    int64_t line;
    bool whole;
  };

  const Program& p_;
  Result out_;
  Figures f_;
  Units units_;
  Heap heap_;
  uint64_t count_ = 0;
  std::optional<Random> drawn_;
  std::vector<Walk> walks_;
  std::vector<int64_t> remaining_;
  std::vector<std::vector<Waiter>> waiters_;
  std::vector<int64_t> done_at_;
  std::vector<double> slots_;
  std::vector<int64_t> step_cursor_, pass_cursor_, touched_cursor_;
  std::vector<Later> pool_;
  std::vector<int64_t> unused_;
};

}  // namespace

void Program::finish() {
  const auto index = [this](const std::vector<Group>& groups, std::unordered_map<int64_t, int32_t>& at) {
    for (size_t n = 0; n < groups.size(); ++n)
      at[key(groups[n].warp, groups[n].line_number)] = static_cast<int32_t>(n);
  };
  index(step_groups, steps_at);
  index(pass_groups, passes_at);
  index(touched_groups, touched_at);
}

Result simulate(const Program& program, const std::array<double, FIGURES>& figures, bool alone, int64_t order,
                double working_set) {
  return Simulation(program, figures, alone, order, working_set).run();
}

}  // namespace tileproof::timing
