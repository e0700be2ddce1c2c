// Whether two conflicting accesses are ordered as the PTX ISA asks (docs/races.md), and the
// finding when they are not.
#include <cmath>
#include <cstring>

#include "machine.hpp"
#include "race.hpp"
#include "race_dependence.hpp"

namespace tileproof {

bool Races::covered(const View& v, Order order, const Access& a, int8_t lane) const {
  if (v.know->of[order].covers(a.agent, a.tick)) return true;
  const bool asked_for_all = for_all_lanes_;
  for_all_lanes_ = false;
  if (a.agent == v.agent) {  // the same warp: a thread's own accesses are in program order
    const uint32_t lanes = lane < 32 ? 1u << lane : a.lanes;
    const bool mine = lane == kWholeWarp || (lanes & ~v.lanes) == 0;
    const bool fenced =
        order == kProxyShared || order == kProxySharedOwn || order == kProxyGlobal || order == kInitFence;
    if (mine && a.tick <= (fenced ? v.own[order] : v.now)) {
      for_all_lanes_ = asked_for_all && v.path == Path::Warpgroup;
      return true;
    }
  }
  if (v.copies && copy_covered(v, order, a, lane < 32 ? 1u << lane : a.lanes)) return true;
  return v.know->of[order].covers(a.agent, a.tick, lane, a.lanes);
}

namespace {
constexpr const char* kCopyUnwaited = "race-copy-unwaited";
constexpr const char* kCopyMissing =
    "the completion of the copy (its mbarrier phase, or its bulk group and a barrier), seen by the second";
constexpr const char* kClusters =
    "clusters run in any order and at once: only a release and an acquire at gpu scope order them, or "
    "atomics on both sides";
constexpr const char* kBarrier = "a barrier (mbarrier, named or cluster) from the first to the second";
constexpr size_t kMostLate = 1 << 16;
constexpr const char* kCommitFence =
    "tcgen05.fence::after_thread_sync between the wait on the commit and the second (PTX ISA 9.7.16.6.4)";
}  // namespace

// No thread runs that could still use a value.
void Races::settle_reads() {
  for (const LateRead& late : late_) {
    const Access &a = accesses_[late.first], &b = accesses_[late.second];
    if (!follows_->used(*a.at.instr, a.read, late.lanes)) {  // in the other order it is a finding
      doubt("order-decides", b.at, a.at,
            mnemonic(a.at.instr) + ", whose result is not used, and " + mnemonic(b.at.instr) +
                " access the same bytes in no order");
      continue;
    }
    const bool far = a.cluster != b.cluster;
    report(Severity::Error, far ? "race-clusters" : "race-unordered", late.first, false, late.second, true,
           Place::Global, late.rank, late.address, far ? kClusters : kBarrier);
  }
  late_.clear();
}

// Lane by lane where the units of the granule are of several; for each warp of a wgmma.
void Races::check(const Slot& first, bool first_writes, uint32_t second, bool second_writes, const View& v,
                  Place place, int rank, uint64_t address) {
  bool ordered = memo_for_ == second;
  const View* const view = &v;
  for (const View* by : readers(view)) {
    for_all_lanes_ = true;
    int last = -1;
    for (uint32_t units = first.units; units; units &= units - 1) {
      const int8_t lane = first.lane_of(__builtin_ctz(units));
      if (lane == last) continue;
      last = lane;
      compare(first, lane, first_writes, second, second_writes, *by, place, rank, address);
      if (!first.stride) break;
    }
    const bool own = accesses_[first.record].agent == by->agent && by->path != Path::Warpgroup;
    ordered = ordered && for_all_lanes_ && !own;
  }
  if (ordered) memo_[first.record & 7] = first.record;
}

void Races::compare(const Slot& first, int8_t lane, bool first_writes, uint32_t second, bool second_writes,
                    const View& v, Place place, int rank, uint64_t address) {
  const Access& a = accesses_[first.record];
  const Access& b = accesses_[second];
  if (lane == kCrowd) {
    for_all_lanes_ = false;
    if (!second_writes || a.adds != b.adds)
      doubt(a.adds & kSum ? "order-decides" : "not-tracked", b.at, a.at,
            mnemonic(b.at.instr) + " accesses " + describe(place, rank, address) +
                ", to which many threads add by " + mnemonic(a.at.instr) + " in no order");
    return;
  }
  if (a.adds & kSum && (!second_writes || (b.strong && a.adds != b.adds)))
    sum_read(first, second, place, rank, address);
  if (a.strong && b.strong && together(a, b)) {
    if (!a.adds || a.adds != b.adds) strong_pair(a, b, lane, v, place, rank, address);
    return;
  }
  if (a.unwritten && b.unwritten && second_writes && place == Place::Global) return;  // both are errors
  auto say = [&](Severity severity, const char* code, std::string_view missing) {
    report(severity, code, first.record, first_writes, second, second_writes, place, rank, address, missing);
  };
  const bool generics = a.path == Path::Generic && v.path == Path::Generic && place != Place::Tmem;
  const bool writes = generics && second_writes && (first_writes || asks_of_reads_);
  // A flag: the axioms describe what accesses of equal size may read in a race (PTX ISA 8.7.2). What the flag
  // should order is compared by itself, and a weak store orders nothing.
  if (generics && uniform_ && first_writes != second_writes && a.strong != b.strong &&
      a.strong == second_writes && !covered(v, kHappens, a, lane)) {
    const Access& read = first_writes ? b : a;
    if (read.scope >= distance({a.cluster, a.at.rank}, {b.cluster, b.at.rank})) {
      say(Severity::Warning, "race-weak-flag",
          ".relaxed, .release or .volatile at the store: only morally strong accesses are read whole (PTX "
          "ISA "
          "8.10.3), and the weak store orders nothing before it");
      return;
    }
  }
  // A write that depends on the read, through other threads: no read sees what depends on it (PTX
  // ISA 8.10.4). Else the read matters if its value is used, also later.
  if (writer_ && generics && !first_writes && !a.strong && a.read && place == Place::Global &&
      !asks_of_reads_ && !covered(v, kHappens, a, lane)) {
    const uint32_t apart =
        follows_->apart(*writer_, writer_lane_, *a.at.instr, a.read, lane < 32 ? 1u << lane : a.lanes);
    if (apart && late_.size() < kMostLate) late_.push_back({first.record, second, apart, rank, address});
    ++told_;
    if (late_.size() < kMostLate) return;
  }
  if (a.strong && b.strong && !covered(v, kHappens, a, lane)) {
    say(Severity::Error, "race-scope",
        "a scope of both accesses that includes the other's thread: .cluster within a cluster, .gpu beyond "
        "it");
    return;
  }
  if (a.cluster != b.cluster && !covered(v, kHappens, a, lane)) {
    if (!writes || !ask("race-clusters", first, second, place, rank, address, kClusters))
      say(Severity::Error, "race-clusters", kClusters);
    else
      questions_.back().first_writes = first_writes;
    return;
  }
  const bool tensor = v.path == Path::Tensor;
  if (tensor && a.agent == v.pipe) {
    // Two operations of one tensor pipeline: in order only for the pairs of PTX ISA 9.7.16.6.2.
    // Of an MMA only D is written, so that what it reads of another's cells is its A.
    const bool same_accumulator = first_writes && second_writes && a.shape == b.shape;
    if (place != Place::Tmem || same_accumulator || !a.shape) return;
    const bool complete = covered(v, kHappens, a, kWholeWarp);
    if (complete && covered(v, kAfterSync, a, kWholeWarp)) return;
    if (complete && covered(v, kCommitted, a, kWholeWarp)) {
      say(Severity::Warning, "race-commit-fence", kCommitFence);
      return;
    }
    if (first_writes && (complete || covered(v, kBeforeSync, a, kWholeWarp))) {
      say(Severity::Error, "race-tcgen05-fence", kCommitFence);
      return;
    }
    // CUTLASS lets an MMA, or the scale factors of the next one, overwrite what an earlier MMA reads.
    const char* missing =
        "tcgen05.commit, a wait on its mbarrier and tcgen05.fence::after_thread_sync between them: only MMAs "
        "with the same accumulator, shape and kind are ordered";
    if (first_writes)
      say(Severity::Error, "race-mma-pipeline", missing);
    else
      say(Severity::Warning, "race-mma-reused", missing);
    return;
  }
  // To free tensor memory order of execution will do (PTX ISA 9.7.16.7.1).
  if (place == Place::Tmem && v.path == Path::Generic && ran(v, a, lane)) return;
  if (!covered(v, kHappens, a, lane)) {
    // Every lane of a warp issues one store: copies of the same bytes, as in CUTLASS's epilogues.
    if (first_writes && second_writes && a.path == Path::Copy && v.path == Path::Copy &&
        a.at.instr == b.at.instr && a.agent == b.agent && a.at.lane != b.at.lane &&
        ask(kCopyUnwaited, first, second, place, rank, address, kCopyMissing))
      return;
    if (v.path != Path::Generic && a.at.time > b.at.time) {
      // The operation was issued before the other access and ran after it: the wait for it is missing.
      unwaited(second, second_writes, first.record, first_writes, place, rank, address);
      return;
    }
    // Shared memory of a CTA, used by its own threads, or that it is done with: DeepGEMM's and Triton's
    // cluster barriers are relaxed.
    const bool own = b.at.rank == rank && v.path == Path::Generic;
    if (place == Place::Shared && a.path == Path::Generic && a.at.rank == rank &&
        (own ? passed(v, a, lane, &Meeting::preceded)
             : b.at.rank != rank && second_writes && passed(v, a, lane, &Meeting::settled))) {
      say(Severity::Warning, "race-relaxed-barrier",
          ".release at the arrival at the cluster barrier between them, the default: a .relaxed arrival "
          "orders "
          "execution, not memory (PTX ISA 9.7.13.3)");
      return;
    }
    // What the second writes at its completion the first may have been meant to see.
    const char* barrier =
        v.path == Path::Generic || v.path == Path::Warp || first_writes
            ? "a barrier (mbarrier, named or cluster) from the first to the second"
            : "a barrier (mbarrier, named or cluster) from the first to the second; or, if the first should "
              "see what the second writes, a wait for its completion before the first";
    switch (a.path) {
      case Path::Generic: {
        const char* missing =
            a.agent == v.agent ? "bar.warp.sync between the lanes of the warp, or a barrier"
            : v.know->of[kHappens].covers_other_lanes(a.agent, a.tick)
                ? "bar.warp.sync by the first's warp: the lane that arrives for the others does not wait for "
                  "them"
                : barrier;
        if (!writes || !ask("race-unordered", first, second, place, rank, address, missing))
          say(Severity::Error, "race-unordered", missing);
        else
          questions_.back().first_writes = first_writes;
        break;
      }
      case Path::Warp:
        // Its issue was released to the second, its completion not.
        if (a.tick != kUnfinished && !v.know->of[kHappens].covers(a.agent, a.issued, lane, a.lanes)) {
          say(Severity::Error, "race-unordered", barrier);
          break;
        }
        // CUTLASS scales accumulators in place so: what is stored comes from what was loaded.
        if (a.used && a.agent == v.agent && v.path == Path::Warp) {
          say(Severity::Warning, "race-tmem-reused",
              "tcgen05.wait::ld before the store: the use of the loaded registers orders the registers, "
              "not the accesses to tensor memory (PTX ISA 9.7.16.6.4.5)");
          break;
        }
        // A dealloc by the warp itself (its path is Generic) is a release as well.
        if (a.used && (a.agent == v.agent ? v.path == Path::Generic
                                          : v.know->of[kHappens].covers(a.agent, a.used, lane, a.lanes))) {
          say(Severity::Error, "race-tmem-released", wait_ld_missing(a));
          break;
        }
        [[fallthrough]];
      case Path::ThreadCopy:
        if (a.path == Path::ThreadCopy && copy_waited(a, lane)) {
          say(Severity::Error, "race-unordered", barrier);
          break;
        }
        [[fallthrough]];
      case Path::Copy:
      case Path::Store:
      case Path::Tensor:
      case Path::Warpgroup:
      case Path::Map:
        unwaited(first.record, first_writes, second, second_writes, place, rank, address);
        break;
    }
    return;
  }
  // Between tcgen05 operations the fences decide, over relaxed arrivals as well (PTX ISA 9.7.16.6.4).
  if (scoped_ && place != Place::Tmem && !covered(v, kScoped, a, lane))
    say(Severity::Warning, "race-scope-default",
        ".release.cluster at the mbarrier arrival, or .acquire.cluster at the wait, between them: a scope "
        "that "
        "is omitted is .cta, and does not include the other CTA (PTX ISA 9.7.13.15.13, .16)");
  if (place == Place::Tmem) {
    const bool fences = v.path != Path::Generic && (a.agent != v.agent || a.path == Path::Tensor);
    if (!fences || covered(v, kAfterSync, a, lane)) return;
    // The canonical patterns wait .relaxed; that an acquiring wait on the commit needs no fence is one
    // reading (docs/assumptions.md).
    if (covered(v, kCommitted, a, lane)) {
      say(Severity::Warning, "race-commit-fence", kCommitFence);
      return;
    }
    // What a barrier of acquire and release orders after wait::ld or wait::st is complete: no C++ kernel of
    // CUTLASS has a fence there (docs/findings.md).
    const char* fence = covered(v, kBeforeSync, a, lane)
                            ? "tcgen05.fence::after_thread_sync between the wait and the second"
                            : "tcgen05.fence::before_thread_sync between the first and its arrival";
    if (a.path == Path::Warp)
      say(Severity::Warning, "race-waited-fence", fence);
    else
      say(Severity::Error, "race-tcgen05-fence", fence);
    return;
  }
  if (v.path == Path::Map) {
    if (a.path != Path::Generic || !first_writes || map_acquired(v, a, lane)) return;
    say(Severity::Error, "race-tensormap-fence",
        map_released(v, a, lane)
            ? "fence.proxy.tensormap::generic.acquire of this map between the order and the copy (PTX ISA "
              "9.7.13.4)"
            : "fence.proxy.tensormap::generic.release by the writing thread, before its barrier, and "
              ".acquire "
              "of this map before the copy (PTX ISA 9.7.13.4)");
    return;
  }
  auto generic = [](Path p) { return p == Path::Generic || p == Path::ThreadCopy || p == Path::Store; };
  if (generic(v.path)) return;
  if (generic(a.path)) {
    const bool shared = place == Place::Shared;
    const char* fence = shared ? "fence.proxy.async (shared memory)" : "fence.proxy.async (global memory)";
    if (!covered(v, shared ? kProxyShared : kProxyGlobal, a, lane)) {
      if (first_writes && second_writes && shared)  // a reduction reads as well
        say(Severity::Warning, "race-proxy-write",
            std::string(fence) + " by the writing threads, before their barrier");
      else if (first_writes)
        say(Severity::Error, "race-proxy-fence",
            std::string(fence) + " by the writing threads, before their barrier");
      else
        say(Severity::Note, "race-proxy-read",
            std::string(fence) + " by the reading threads, as the strict reading of PTX ISA 8.9.5 requires");
      return;
    }
    // Who waits for copies that an mbarrier tracks can only fence on the reading side.
    if (shared && first_writes && a.path == Path::Generic && !covered(v, kProxySharedOwn, a, lane))
      say(Severity::Note, "race-proxy-reader",
          std::string(fence) + " by the writing threads; only the reading side has a fence");
  }
  // Rows 2 and 7 of tests/emulator/test_races.py: a note, since CUTLASS's mainloops leave it out after a
  // copy.
  if (tensor && place == Place::Shared && first_writes && a.agent != v.agent &&
      !covered(v, kAfterHappens, a, lane))
    say(Severity::Note, "race-operand-fence",
        "tcgen05.fence::after_thread_sync between the wait and the second (PTX ISA 9.7.16.12)");
}

bool Races::ask(const char* code, const Slot& first, uint32_t second, Place place, int rank, uint64_t address,
                const char* missing) {
  const uint64_t granule = address & ~uint64_t{15};
  const uint8_t* memory = nullptr;
  if (place == Place::Shared) {
    memory = &e_.cluster_at(accesses_[second].at.cta).cta(rank)->shared.data[granule];
  } else if (const GlobalBuffer* b = e_.memory.find(address, 1)) {
    memory = b->data + static_cast<std::ptrdiff_t>(granule - b->address);
  }
  if (!memory) return false;
  Question q{code, first.record, second, place, rank, address, missing, memory, first.units, {}};
  if (q.units == 0xFFFF)
    std::memcpy(q.before.data(), memory, q.before.size());
  else
    for (uint32_t m = q.units; m; m &= m - 1) q.before[__builtin_ctz(m)] = memory[__builtin_ctz(m)];
  questions_.push_back(q);
  ++told_;
  return true;
}

// Whether the bytes before and after are f32 values that differ by rounding: by 2^-16 of the largest of the
// granule. Lanes or warps that all reduce the same values, each in its own order, leave such (Triton's do).
bool Races::rounded(const Question& q) {
  std::array<uint8_t, 16> now{};
  for (uint32_t m = q.units; m; m &= m - 1) now[__builtin_ctz(m)] = q.memory[__builtin_ctz(m)];
  std::array<float, 4> before, after;
  std::memcpy(before.data(), q.before.data(), sizeof before);
  std::memcpy(after.data(), now.data(), sizeof after);
  float largest = 0;
  for (size_t i = 0; i < 4; ++i)
    if (const auto units = q.units >> (4 * i) & 15) {
      if (units != 15 || !std::isfinite(before[i]) || !std::isfinite(after[i])) return false;
      largest = std::max({largest, std::fabs(before[i]), std::fabs(after[i])});
    }
  if (largest < 1e-30f) return false;  // integers, say
  for (size_t i = 0; i < 4; ++i)
    if ((q.units >> (4 * i) & 15) && std::fabs(before[i] - after[i]) > 0x1p-16f * largest) return false;
  return true;
}

bool Races::unchanged(const Question& q) {
  if (q.units == 0xFFFF) return !std::memcmp(q.memory, q.before.data(), q.before.size());
  for (uint32_t m = q.units; m; m &= m - 1)
    if (q.memory[__builtin_ctz(m)] != q.before[__builtin_ctz(m)]) return false;
  return true;
}

// The second write of each pair has been made.
void Races::answer() {
  for (const Question& q : questions_) {
    uint64_t at = q.address & ~uint64_t{15};
    // What adds, reads as well.
    const bool same = !accesses_[q.first].adds && !accesses_[q.second].adds && unchanged(q);
    if (same && q.one_store) continue;
    if (q.first_writes) {
      const auto [pair, fresh] = alike_.try_emplace(std::minmax(q.first, q.second), same);
      pair->second = pair->second && same;
    }
    at = std::max(q.address, at + static_cast<uint64_t>(__builtin_ctz(q.units)));
    if (!same && q.first_writes && rounded(q)) {
      report(Severity::Warning, "race-rounded-value", q.first, true, q.second, true, q.place, q.rank, at,
             q.missing);
      continue;
    }
    report(same ? Severity::Note : Severity::Error, same ? "race-same-value" : q.code, q.first,
           q.first_writes, q.second, true, q.place, q.rank, at, q.missing);
  }
  questions_.clear();
}

// `second` touches what the asynchronous `first` reads or writes, and its thread has not seen that complete.
void Races::unwaited(uint32_t first, bool first_writes, uint32_t second, bool second_writes, Place place,
                     int rank, uint64_t address) {
  const char *code = "", *missing = "";
  switch (accesses_[first].path) {
    case Path::Generic:
    case Path::Map:
      return;
    case Path::Copy:
      code = kCopyUnwaited;
      missing = kCopyMissing;
      break;
    case Path::Store:
      code = kCopyUnwaited;
      missing =
          place == Place::Global
              ? "an acquire of what the asynchronous store wrote, or of what came after it, by the second"
              : kCopyMissing;
      break;
    case Path::ThreadCopy:
      code = "race-copy-unwaited";
      missing =
          "cp.async.wait_group or wait_all by the copying thread, and a barrier for others; or "
          "cp.async.mbarrier.arrive and a wait for that phase";
      break;
    case Path::Tensor:
      code = "race-mma-unwaited";
      missing = "tcgen05.commit by the issuing thread and a wait on that mbarrier phase before the second";
      break;
    case Path::Warpgroup:
      code = "race-wgmma-unwaited";
      missing = "wgmma.commit_group, wgmma.wait_group for that group, and a barrier from there to the second";
      break;
    case Path::Warp:
      code = "race-tmem-unwaited";
      missing = first_writes ? "tcgen05.wait::st by the first warp" : "tcgen05.wait::ld by the first warp";
      break;
  }
  report(Severity::Error, code, first, first_writes, second, second_writes, place, rank, address, missing);
}

void Races::knows_init(const View& v, uint32_t id, Cta& cta, uint32_t offset, bool from_afar) {
  const Barrier* b = barrier(cta, offset);
  if (!b || !b->init || !id) return;
  const Access& a = accesses_[b->init];
  // A fence.mbarrier_init releases the init even through a relaxed arrival (PTX ISA 9.7.13.4).
  if (!covered(v, kHappens, a, b->init_lane) && !covered(v, kInitFence, a, b->init_lane)) {
    // CUTLASS initialises the mbarrier that TMEM is freed by after its fence.mbarrier_init.
    if (v.path == Path::Generic && v.met >= b->init_round)
      report(Severity::Warning, "race-mbarrier-init-relaxed", b->init, true, id, true, Place::Shared,
             cta.rank, offset, "fence.mbarrier_init after the init, before the relaxed cluster barrier");
    else
      report(Severity::Error, "race-mbarrier-init", b->init, true, id, true, Place::Shared, cta.rank, offset,
             from_afar ? "fence.mbarrier_init and a cluster barrier between them" : "a barrier between them");
  } else if (from_afar && !covered(v, kInitFence, a, b->init_lane) &&
             !covered(v, kProxyShared, a, b->init_lane)) {
    report(Severity::Note, "race-mbarrier-init-fence", b->init, true, id, true, Place::Shared, cta.rank,
           offset,
           "fence.mbarrier_init after the init, before the barrier; a releasing barrier orders as well");
  }
}

std::string Races::describe(Place place, int rank, uint64_t address) const {
  switch (place) {
    case Place::Shared:
      return "shared byte " + hex(address) + " of CTA rank " + std::to_string(rank);
    case Place::Tmem:
      return "TMEM lane " + std::to_string(address >> 16) + " column " + std::to_string(address & 0xffff) +
             " of CTA rank " + std::to_string(rank);
    case Place::Global:
      break;
  }
  const GlobalBuffer* b = e_.memory.find(address, 1);
  return b ? "byte " + std::to_string(address - b->address) + " of " + b->name
           : "global byte " + hex(address);
}

std::string Races::mnemonic(const Instr* i) const {
  if (!i) return "an access";
  const std::string& full = e_.program.names[static_cast<size_t>(i->name)];
  return full.substr(0, full.find(' '));
}

// For a read of tensor memory whose registers were used, and that was released without tcgen05.wait::ld.
std::string Races::wait_ld_missing(const Access& a) const {
  return "tcgen05.wait::ld by the first warp before " +
         (a.released ? "its " + mnemonic(a.released) + " at PTX line " + std::to_string(a.released->line)
                     : std::string("the second")) +
         ": the use of the loaded registers orders the registers, not the read of tensor memory "
         "(PTX ISA 9.7.16.6.4)";
}

namespace {
// Findings of two accesses that nothing orders.
bool unordered(std::string_view code) {
  for (const char* one : {"race-unordered", "race-copy-unwaited", "race-mma-unwaited", "race-wgmma-unwaited",
                          "race-tmem-unwaited", "race-clusters", "race-mma-pipeline", "race-exit"})
    if (code == one) return true;
  return false;
}
}  // namespace

void Races::report(Severity severity, const char* code, uint32_t first, bool first_writes, uint32_t second,
                   bool second_writes, Place place, int rank, uint64_t address, std::string_view edge) {
  ++told_;
  const Access &a = accesses_[first], &b = accesses_[second];
  if (!std::strcmp(code, "race-same-value"))
    doubt(
        "not-tracked", b.at, a.at,
        mnemonic(b.at.instr) + " and " + mnemonic(a.at.instr) +
            " write the same bytes in no order: what came before the first is compared with no later access");
  const auto which = std::make_tuple(code, b.at.instr, a.at.instr, b.at.rank);
  if (const auto told = reported_.find(which); told != reported_.end()) {
    e_.sink.findings[told->second].count++;
    return;
  }
  const std::string name(code);
  if (e_.sink.again(name, b.at, a.at.instr)) return;
  const bool own_commit = a.at.rank == rank, at_exit = name == "race-commit-exit" && own_commit;
  std::string message,
      missing = at_exit || unordered(code) ? unheeded(a, b, edge, at_exit, address) : std::string(edge);
  if (name == "race-exit" || name == "race-store-exit")
    message = "CTA rank " + std::to_string(rank) + " exits while " + mnemonic(a.at.instr) + " of CTA rank " +
              std::to_string(a.at.rank) + " warp " + std::to_string(a.at.warp) +
              " may still reach its shared memory";
  else if (name == "race-commit-exit")
    message = "CTA rank " + std::to_string(rank) + " exits without a wait for the phase of " +
              (own_commit ? "the mbarrier at " + hex(address) : "its mbarrier") + " in which " +
              mnemonic(a.at.instr) + " of " + (own_commit ? "its" : "CTA rank " + std::to_string(a.at.rank)) +
              " warp " + std::to_string(a.at.warp) +
              " arrives; the arrival of a later commit does not imply it";
  else if (name == "pair-may-hang")
    message = mnemonic(b.at.instr) + " of CTA rank " + std::to_string(b.at.rank) + " is ordered after " +
              mnemonic(a.at.instr) + " of CTA rank " + std::to_string(a.at.rank) +
              ", its other part, which may block for it";
  else if (name == "pair-in-use" && mnemonic(b.at.instr).starts_with("tcgen05.dealloc"))
    message = mnemonic(b.at.instr) + " of CTA rank " + std::to_string(b.at.rank) + " frees " +
              describe(place, rank, address) + ", which " + mnemonic(a.at.instr) + " of its warp " +
              std::to_string(a.at.warp) + (first_writes ? " wrote" : " read") +
              "; nothing orders these accesses";
  else if (name == "race-tmem-allocated")
    message = mnemonic(b.at.instr) + (second_writes ? " writes " : " reads ") +
              describe(place, rank, address) + ", whose " + mnemonic(a.at.instr) + " by warp " +
              std::to_string(a.at.warp) + " is not ordered before it";
  else if (name.rfind("race-mbarrier-init", 0) == 0)
    message = mnemonic(b.at.instr) + " uses the mbarrier at shared byte " + hex(address) + " of CTA rank " +
              std::to_string(rank) + ", whose mbarrier.init by CTA rank " + std::to_string(a.at.rank) +
              " warp " + std::to_string(a.at.warp) + " is not ordered before it";
  else
    message = mnemonic(b.at.instr) + (second_writes ? " writes " : " reads ") +
              describe(place, rank, address) + ", which " + mnemonic(a.at.instr) + " of CTA rank " +
              std::to_string(a.at.rank) + " warp " + std::to_string(a.at.warp) +
              (first_writes ? " wrote" : " read") + "; nothing orders these accesses";
  Finding* f = e_.sink.add(severity, name, message + "; missing: " + missing, b.at, address, a.at.instr);
  if (!f || f->has_race) return;
  reported_.emplace(which, static_cast<size_t>(f - e_.sink.findings.data()));
  f->has_race = true;
  Race& r = f->race;
  r.first = a.at;
  r.first_lanes = a.lanes;
  r.first_nth = a.nth;
  r.first_writes = first_writes;
  r.second_nth = b.nth;
  r.second_writes = second_writes;
  r.first_barrier = a.barrier;
  r.first_phase = a.phase;
  r.second_barrier = b.barrier;
  r.second_phase = b.phase;
  r.missing = missing;
  r.space = place == Place::Shared ? "shared" : place == Place::Tmem ? "tmem" : "global";
  r.space_rank = rank;
  if (place == Place::Tmem) r.tmem_base = std::max(0, e_.cluster_at(b.at.cta).cta(rank)->tmem.first_base);
  if (place == Place::Global)
    if (const GlobalBuffer* buffer = e_.memory.find(address, 1)) r.buffer = buffer->name;
}

}  // namespace tileproof
