// Global memory: buffers with guard space between them, bounds-checked and init-tracked per byte.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared.hpp"

namespace tileproof {

constexpr int kPageBits = 12;
constexpr uint64_t kPageBytes = 1 << kPageBits;

struct GlobalBuffer {
  uint64_t address = 0;
  uint64_t size = 0;
  uint8_t* data = nullptr;
  uint8_t* written = nullptr;  // one per byte, null when the buffer began initialised
  uint8_t* pages = nullptr;    // one per page: whether something was stored in it; null: nobody asks
  bool writable = true;
  bool stored = false;         // the launch wrote to it
  uint64_t touched_pages = 0;  // pages in which this launch was the first to store
  std::string name;

  // Whether all bytes of a range inside the buffer were written; and marks them so.
  bool initialised(uint64_t at, size_t n) const { return !written || all_valid(written + (at - address), n); }
  void mark(uint64_t at, size_t n) {
    stored = true;
    if (written) std::memset(written + (at - address), kValid, n);
    if (!pages) return;
    for (uint64_t page = (at - address) >> kPageBits; page <= (at - address + n - 1) >> kPageBits; ++page) {
      std::atomic_ref<uint8_t> mark(pages[page]);  // other threads' clusters may store in the same page
      if (!mark.load(std::memory_order_relaxed)) touched_pages += !mark.exchange(1);
    }
  }
};

class GlobalMemory {
 public:
  void add(const GlobalBuffer& b) {
    auto it = std::upper_bound(buffers_.begin(), buffers_.end(), b.address,
                               [](uint64_t a, const GlobalBuffer& x) { return a < x.address; });
    buffers_.insert(it, b);
    last_ = 0;
  }

  const std::vector<GlobalBuffer>& buffers() const { return buffers_; }

  // Bytes of the host that the stores of this launch took: data, and marks where writes are tracked.
  uint64_t taken() const {
    uint64_t bytes = 0;
    for (const GlobalBuffer& b : buffers_) bytes += b.touched_pages * kPageBytes * (b.written ? 2 : 1);
    return bytes;
  }

  // What the stores through another view of the same buffers did.
  void take_over(const GlobalMemory& view) {
    for (size_t k = 0; k < buffers_.size(); ++k) {
      buffers_[k].stored |= view.buffers_[k].stored;
      buffers_[k].touched_pages += view.buffers_[k].touched_pages;
    }
  }

  // The buffer that holds all of [address, address + size), or null.
  GlobalBuffer* find(uint64_t address, uint64_t size) {
    if (last_ < buffers_.size()) {
      GlobalBuffer& b = buffers_[last_];
      if (address >= b.address && address + size <= b.address + b.size && address + size >= address)
        return &b;
    }
    GlobalBuffer* b = nearest(address);
    if (!b || address + size > b->address + b->size || address + size < address) return nullptr;
    last_ = static_cast<size_t>(b - buffers_.data());
    return b;
  }

  // The last buffer that starts at or before address: what an out-of-bounds access most likely ran past.
  GlobalBuffer* nearest(uint64_t address) {
    auto it = std::upper_bound(buffers_.begin(), buffers_.end(), address,
                               [](uint64_t a, const GlobalBuffer& x) { return a < x.address; });
    return it == buffers_.begin() ? nullptr : &*(it - 1);
  }

  GlobalBuffer* following(uint64_t address) {
    auto it = std::upper_bound(buffers_.begin(), buffers_.end(), address,
                               [](uint64_t a, const GlobalBuffer& x) { return a < x.address; });
    return it == buffers_.end() ? nullptr : &*it;
  }

 private:
  std::vector<GlobalBuffer> buffers_;
  size_t last_ = 0;
};

}  // namespace tileproof
