// Who is going to write a cell of tensor memory. The pending marks of a cell (shared.hpp) say how many; the
// operations in flight say who, and are asked only where a read meets a mark.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tileproof {

struct Cta;
class Engine;

// A rectangle of cells that one operation marked at its issue.
struct TmemWrite {
  const Cta* cta = nullptr;
  std::array<uint64_t, 2> lanes{};  // bit of each lane
  int column = 0, columns = 0;
  int count = 1;  // operations that write the same
  void add_lane(int lane) { lanes[static_cast<size_t>(lane >> 6)] |= 1ull << (lane & 63); }
  bool covers(const Cta& c, int lane, int at) const {
    return cta == &c && lanes[static_cast<size_t>(lane >> 6)] >> (lane & 63) & 1 && at >= column &&
           at < column + columns;
  }
  bool same_cells(const TmemWrite& o) const {
    return cta == o.cta && lanes == o.lanes && column == o.column && columns == o.columns;
  }
};

// What follows an operation in its own pipeline takes effect after it (PTX ISA 9.7.16.6.2, pipelined
// instructions): its marks are not pending for that operation. While one executes, all that is left in its
// queue is later.
class LaterWrites {
 public:
  LaterWrites(const Engine& engine, uint64_t queue) : engine_(engine), queue_(queue) {}
  // Of a cell's marks, those of others than the later operations of this pipeline.
  bool pending(uint8_t state, const Cta& cta, int lane, int column);

 private:
  const Engine& engine_;
  uint64_t queue_;
  bool known_ = false;
  std::vector<TmemWrite> writes_;
};

}  // namespace tileproof
