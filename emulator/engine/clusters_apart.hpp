// Clusters of a launch on several threads, with the results of a single thread.
//
// Clusters share global memory alone, and a single thread runs them in turn. So a cluster may run beside
// those before it if it touches nothing that they write. `Footprints` holds which cluster reads, writes or
// adds to each sector. Additions (reductions without a result) are kept and made in the order of the
// clusters: their sums are rounded as on a single thread. If two clusters meet, memory is put back and a
// single thread runs them.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "memory.hpp"
#include "reduce.hpp"

namespace tileproof {

enum class Use : uint8_t { Read, Write, Add };

class Footprints {
 public:
  // `room`: bytes that the copies of written pages may take.
  Footprints(const GlobalMemory& memory, uint64_t room);
  // Whether there is memory for the notes.
  bool ready() const { return ready_; }
  // Before a cluster uses bytes inside a buffer. False: it meets another cluster there, or its own additions,
  // or there is no room to keep what it overwrites.
  bool note(size_t buffer, const GlobalBuffer& b, uint64_t address, uint64_t size, Use use, uint32_t cluster);
  // Puts back what was there before the first write. No thread runs any more.
  void restore(const GlobalMemory& memory);

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  // Zeros that take no memory of the host until they are written.
  template <class T>
  using Zeros = std::unique_ptr<T[], Free>;
  struct Page {
    uint64_t first = 0, size = 0;  // bytes of the buffer
    uint8_t mark = 0;
    std::vector<uint8_t> data, written;
  };
  struct Notes {
    Zeros<uint32_t> writer, reader;  // of each sector: 0, a cluster's number plus 1, or kAdded, kMany
    Zeros<uint8_t> kept;             // of each page
    std::vector<Page> pages;
  };
  bool keep(Notes& n, const GlobalBuffer& b, uint64_t page);

  std::vector<Notes> notes_;  // by buffer; none for a buffer that is only read
  uint64_t room_;
  std::mutex mutex_;  // of pages and kept bytes
  std::atomic<uint64_t> taken_ = 0;
  bool ready_ = true;
};

// The reductions of one cluster to global memory, in its order.
class KeptReductions {
 public:
  void add(Reduction op, AtomicType type, bool flushes, uint64_t address, const uint8_t* operands,
           uint32_t bytes);
  void apply(GlobalMemory& memory) const;
  uint64_t bytes() const { return log_.size(); }

 private:
  struct Head {
    uint64_t address;
    uint32_t bytes;
    Reduction op;
    AtomicType type;
    bool flushes;
  };
  std::vector<uint8_t> log_;  // a Head and its operands, again and again
  size_t last_ = 0;           // the last Head, if there is any
};

// What a thread that runs clusters beside others knows of them.
struct Apart {
  Footprints& footprints;
  uint32_t cluster = 0;
  uint64_t most = 0;  // bytes of its reductions
  KeptReductions reductions;
};

}  // namespace tileproof
