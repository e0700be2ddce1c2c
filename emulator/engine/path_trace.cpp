#include "path_trace.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "machine.hpp"

namespace tileproof {

uint32_t bank_passes(const LaneBytes& lanes) {
  constexpr uint32_t kBanks = 32, kWord = 4;
  uint32_t passes = 0;
  for (size_t first = 0; first < lanes.size();) {
    const size_t end = std::min(lanes.size(), first + 128 / std::max(lanes[first].second, kWord));
    std::array<std::set<uint32_t>, kBanks> words;
    for (; first < end; ++first) {
      const auto [offset, bytes] = lanes[first];
      for (uint32_t word = offset / kWord; word * kWord < offset + bytes; ++word)
        words[word % kBanks].insert(word);
    }
    size_t most = 0;
    for (const auto& bank : words) most = std::max(most, bank.size());
    passes += static_cast<uint32_t>(most);
  }
  return passes;
}

namespace {

// In the order of PATH_KINDS, behind the last Event.
enum class PathEvent : uint8_t {
  SharedAccess = static_cast<uint8_t>(Event::Branch) + 1,
  RemoteAccess,
  GroupJoin,
  GroupCommit,
  GroupPass
};

class PathTrace : public Trace {
 public:
  explicit PathTrace(const Engine& engine) : Trace(engine), engine_(engine) {}

  void generic_shared(const Exec& x, Cta& cta, uint32_t offset, uint32_t size, int, bool) override {
    if (&cta != &x.cta) return;
    const uint64_t now = engine_.counters.warp_instructions;
    if (time_ != now) tell();
    if (lanes_.empty()) {
      at_ = x.origin(x.lane());
      time_ = now;
    }
    lanes_.emplace_back(offset, size);
  }
  void finish_cluster(Cluster&) override { tell(); }

  // Where the bytes of a remote store land.
  void completing(const AsyncOp& op) override {
    remote_ = !std::strcmp(op.engine, "remote store") ? &op : nullptr;
  }
  void async_shared(Cta&, uint32_t offset, uint32_t, bool write) override {
    if (!remote_ || !write) return;
    if (TraceEvent* e = add(PathEvent::RemoteAccess, remote_->origin)) {
      e->op = remote_->seq;
      e->value = offset;
    }
  }
  void completed(const AsyncOp& op) override {
    remote_ = nullptr;
    Trace::completed(op);
  }

  void bulk_open(const Warp&, int lane) override { joins_ = lane; }
  void copy_open(const Exec&) override { joins_ = kWarp; }
  void issue(AsyncOp& op) override {
    Trace::issue(op);
    if (joins_ == kNone) return;
    if (TraceEvent* e = add(PathEvent::GroupJoin, op.origin)) {
      e->op = op.seq;
      e->lane = static_cast<int16_t>(joins_);
    }
    joins_ = kNone;
  }
  void bulk_commit(const Warp& w, int lane) override {
    group(PathEvent::GroupCommit, w, 1u << lane, lane, 0, false);
  }
  void bulk_pass(const Warp& w, int lane, int64_t allowed, bool reads_only) override {
    group(PathEvent::GroupPass, w, 1u << lane, lane, allowed, reads_only);
  }
  void copy_commit(const Warp& w, uint32_t lanes) override {
    group(PathEvent::GroupCommit, w, lanes, kWarp, 0, false);
  }
  void copy_pass(const Warp& w, uint32_t lanes, int64_t allowed) override {
    group(PathEvent::GroupPass, w, lanes, kWarp, allowed, false);
  }

 private:
  static constexpr int kWarp = -1, kNone = -2;

  TraceEvent* add(PathEvent kind, const Origin& at) { return event(static_cast<uint8_t>(kind), at); }

  // The access of the instruction before.
  void tell() {
    if (lanes_.empty()) return;
    if (TraceEvent* e = add(PathEvent::SharedAccess, at_)) {
      e->time = time_;
      e->value = bank_passes(lanes_);
    }
    lanes_.clear();
  }

  void group(PathEvent kind, const Warp& w, uint32_t lanes, int lane, int64_t value, bool reads_only) {
    const Instr* instr = nullptr;
    for (const Split& s : w.splits)
      if (!s.dead && s.mask & lanes) instr = &engine_.program.code[static_cast<size_t>(s.pc)];
    if (TraceEvent* e = add(kind, Origin{instr, w.cta->id, w.cta->rank, w.index, lane})) {
      e->lanes = lanes;
      e->value = value;
      e->phase = reads_only;
    }
  }

  const Engine& engine_;
  LaneBytes lanes_;
  Origin at_;
  uint64_t time_ = 0;
  const AsyncOp* remote_ = nullptr;
  int joins_ = kNone;
};

}  // namespace

std::unique_ptr<Trace> path_trace(const Engine& engine) { return std::make_unique<PathTrace>(engine); }

}  // namespace tileproof
