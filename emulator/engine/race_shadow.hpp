// What the race checker keeps about memory: for each granule of 16 units the accesses that a later one may
// conflict with. A unit is a byte of shared or global memory, or one lane of a TMEM column.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "shared.hpp"

namespace tileproof {

// Of lanes 16 * sixteenth on in a column of tensor memory: what an operation touches lies together.
inline size_t tmem_granule(int sixteenth, int column) {
  return static_cast<size_t>(sixteenth * kTmemColumns + column);
}

struct Slot {
  uint32_t record = 0;  // 0: none
  uint16_t units = 0;
  int8_t lane = 0;        // or kSeveralLanes, kWholeWarp
  uint8_t write : 1 = 0;  // in the overflow list
  uint8_t stride : 7 =
      0;  // units from a lane to the next when neighbours have neighbouring lanes: `lane` is that of unit 0

  uint64_t bits() const { return std::bit_cast<uint64_t>(*this); }
  int8_t lane_of(int unit) const { return stride ? static_cast<int8_t>(lane + unit / stride) : lane; }
  // Those of the lane that touches the first of `at`, as far as lanes are told apart.
  uint16_t of_lane_at(uint16_t at) const {
    if (!stride) return units;
    return static_cast<uint16_t>(units & ((1u << stride) - 1) << __builtin_ctz(at) / stride * stride);
  }
  // The same instruction touches `more` of the granule, by lane `by`.
  void add(uint16_t more, int8_t by, int8_t several) {
    const int first = __builtin_ctz(more), size = __builtin_popcount(more);
    if (stride ? lane_of(first) == by && lane_of(first + size - 1) == by : lane == by) {
      units = static_cast<uint16_t>(units | more);
      return;
    }
    // Two lanes: so far apart as their numbers are, and neither reaches into what would be another's.
    const int mine = __builtin_ctz(units), lanes = by - lane;
    const int pitch = lanes && (first - mine) % lanes == 0 ? (first - mine) / lanes : 0;
    const bool row = !stride && lane < 32 && by < 32 && __builtin_popcount(units) == size && pitch >= size &&
                     mine % pitch + size <= pitch && first % pitch + size <= pitch;
    units = static_cast<uint16_t>(units | more);
    stride = row ? static_cast<uint8_t>(pitch) & 0x7f : 0;
    lane = row ? static_cast<int8_t>(lane - mine / pitch) : several;
  }
};
static_assert(sizeof(Slot) == 8);

struct Cell {
  Slot write, read;
  uint32_t list = 0;  // its place among the shadow's lists, from 1
  // Further slots of the granule are in the shadow's overflow list.
  bool more() const { return write.write; }
  void more(bool v) { write.write = v; }
};
static_assert(sizeof(Cell) == 20);

// Lists of further slots; one that is dropped is used again.
class Overflow {
 public:
  std::vector<Slot>& of(Cell& c) {
    if (!c.list && !free_.empty()) {
      c.list = free_.back();
      free_.pop_back();
    } else if (!c.list) {
      lists_.emplace_back();
      c.list = static_cast<uint32_t>(lists_.size());
    }
    return lists_[c.list - 1];
  }
  void drop(Cell& c) {
    if (!c.list) return;
    lists_[c.list - 1].clear();
    free_.push_back(c.list);
    c.list = 0;
  }
  void clear() {
    lists_.clear();
    free_.clear();
  }

 private:
  std::deque<std::vector<Slot>> lists_;
  std::vector<uint32_t> free_;
};

// The reads of a granule that its cell has in more than one slot.
struct Readers {
  uint64_t first = 0;
  bool more = false;
  uint32_t count = 0;
  std::array<uint64_t, 4> list{};  // with writes that the cell has kept
  bool operator==(const Readers&) const = default;
  bool has(uint64_t slot) const {
    return slot == first || std::find(list.begin(), list.begin() + count, slot) != list.begin() + count;
  }
};

class Shadow {
 public:
  void resize(size_t granules) {
    cells_.assign(granules, Cell{});
    overflow_.clear();
  }
  Cell& at(size_t granule) { return cells_[granule]; }
  std::vector<Slot>& overflow(Cell& c) { return overflow_.of(c); }
  void drop(Cell& c) { overflow_.drop(c); }
  // False where there are too many.
  bool readers(Cell& c, Readers& out) {
    out = {c.read.bits(), c.more()};
    if (!out.more) return true;
    const auto& list = overflow_.of(c);
    if (list.size() > out.list.size()) return false;
    for (const Slot& s : list) out.list[out.count++] = s.bits();
    return true;
  }
  void set_readers(Cell& c, const Readers& r) {
    c.read = std::bit_cast<Slot>(r.first);
    c.more(r.more);
    if (!r.more) return;
    auto& list = overflow_.of(c);
    list.resize(r.count);
    for (uint32_t k = 0; k < r.count; ++k) list[k] = std::bit_cast<Slot>(r.list[k]);
  }

 private:
  std::vector<Cell> cells_;
  Overflow overflow_;
};

// Global memory: pages of granules, made when first touched.
class PagedShadow {
 public:
  Cell& at(uint64_t granule) {
    const uint64_t number = granule / kPage;
    if (number != last_number_ || !last_) {
      auto& p = pages_[number];
      if (!p) p = std::make_unique<Page>();
      last_ = p.get();
      last_number_ = number;
      if (!last_->touched) {
        last_->touched = true;
        touched_.push_back(last_);
      }
    }
    return last_->cells[granule % kPage];
  }
  std::vector<Slot>& overflow(Cell& c) { return overflow_.of(c); }
  void drop(Cell& c) { overflow_.drop(c); }
  // Calls f for every slot of the pages touched since the last call.
  template <class F>
  void each_touched(F&& f) {
    for (Page* p : touched_) {
      p->touched = false;
      for (Cell& c : p->cells) {
        f(c.write);
        f(c.read);
        if (!c.more()) continue;
        auto& list = overflow_.of(c);
        for (Slot& s : list) f(s);
        // Slots that now stand for one access.
        for (size_t k = 0; k < list.size(); ++k)
          for (size_t n = k + 1; n < list.size(); ++n)
            if (list[n].record == list[k].record && list[n].write == list[k].write) {
              list[k].units |= list[n].units;
              list[k].stride = 0;
              list[k].lane = 126;  // several
              list[n].units = 0;
            }
        std::erase_if(list, [](const Slot& s) { return !s.units; });
      }
    }
    touched_.clear();
    last_ = nullptr;
  }

 private:
  static constexpr uint64_t kPage = 256;
  struct Page {
    Cell cells[kPage];
    bool touched = false;
  };
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  Overflow overflow_;
  std::vector<Page*> touched_;
  uint64_t last_number_ = 0;
  Page* last_ = nullptr;
};

}  // namespace tileproof
