#include "path_trace.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
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

Touched touched(const LaneAddresses& lanes) {
  constexpr uint64_t kLine = 128, kSector = 32;
  std::map<uint64_t, std::pair<uint64_t, uint32_t>> seen;  // by line: where its first lane is, its sectors
  constexpr uint64_t kSeveral = UINT64_MAX;
  for (const auto& [address, bytes] : lanes)
    for (uint64_t sector = address / kSector; sector * kSector < address + bytes; ++sector) {
      const uint64_t first = bytes > 16 ? kSeveral : address;
      auto& [where, sectors] = seen.try_emplace(sector * kSector / kLine, first, 0).first->second;
      if (where != first) where = kSeveral;
      sectors |= 1u << sector % (kLine / kSector);
    }
  Touched out;
  for (const auto& [line, found] : seen) {
    ++out.lines;
    if (found.first == kSeveral)
      out.sectors += static_cast<uint32_t>(__builtin_popcount(found.second));
    else
      ++out.single;
  }
  return out;
}

namespace {

// In the order of PATH_KINDS, behind the last Event.
enum class PathEvent : uint8_t {
  SharedAccess = static_cast<uint8_t>(Event::Branch) + 1,
  RemoteAccess,
  GroupJoin,
  GroupCommit,
  GroupPass,
  GlobalAccess
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
  void generic_global(const Exec& x, const GlobalBuffer&, uint64_t address, uint32_t size, int,
                      bool) override {
    open_global(x);
    addresses_.emplace_back(address, size);
  }
  bool takes_row(const Exec&, const GlobalBuffer&, uint64_t, uint32_t) override { return true; }
  void atomic_row(const Exec& x, const GlobalBuffer&, uint64_t address, uint32_t size) override {
    open_global(x);
    addresses_.emplace_back(address, size * static_cast<uint32_t>(__builtin_popcount(x.mask)));
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

  void open_global(const Exec& x) {
    const uint64_t now = engine_.counters.warp_instructions;
    if (time_ != now) tell();
    if (addresses_.empty()) {
      at_ = x.origin(x.lane());
      time_ = now;
    }
  }

  // The accesses of the instruction before.
  void tell() {
    if (!lanes_.empty())
      if (TraceEvent* e = add(PathEvent::SharedAccess, at_)) {
        e->time = time_;
        e->value = bank_passes(lanes_);
      }
    lanes_.clear();
    if (addresses_.empty()) return;
    if (TraceEvent* e = add(PathEvent::GlobalAccess, at_)) {
      const Touched seen = touched(addresses_);
      e->time = time_;
      e->value = seen.sectors;
      e->op = seen.single;
      e->phase = static_cast<int32_t>(seen.lines);
    }
    addresses_.clear();
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
  LaneAddresses addresses_;
  Origin at_;
  uint64_t time_ = 0;
  const AsyncOp* remote_ = nullptr;
  int joins_ = kNone;
};

}  // namespace

std::unique_ptr<Trace> path_trace(const Engine& engine) { return std::make_unique<PathTrace>(engine); }

}  // namespace tileproof
