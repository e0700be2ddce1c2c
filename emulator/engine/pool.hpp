// Memory for objects of one size that come and go in great numbers. It is given out in the order of its
// addresses, whatever the order in which objects end: a random order of free places would be one of the cache
// misses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace tileproof {

// Of a thread. Objects may outlive it, and then end in one other thread.
template <size_t kBytes>
class Pool {
 public:
  static void* take() {
    Pool& pool = here();
    if (!pool.block_ || pool.block_->given == kObjects) [[unlikely]]
      pool.next();
    Block& block = *pool.block_;
    ++block.live;
    Place& place = block.places[block.given++];
    place.block = &block;
    return place.bytes;
  }
  static void give(void* at) {
    Block* block = reinterpret_cast<Place*>(static_cast<std::byte*>(at) - offsetof(Place, bytes))->block;
    if (--block->live) return;
    if (!block->pool) {
      delete block;
    } else if (block->given == kObjects) {
      block->given = 0;
      if (block != block->pool->block_) block->pool->free_.push_back(block);
    }
  }
  ~Pool() {
    for (Block* block : blocks_)
      if (block->live)
        block->pool = nullptr;
      else
        delete block;
  }

 private:
  static constexpr uint32_t kObjects = 64;
  struct Block;
  struct Place {
    Block* block;
    alignas(16) std::byte bytes[kBytes];
  };
  struct Block {
    Pool* pool = nullptr;  // null: its thread has ended
    uint32_t given = 0, live = 0;
    Place places[kObjects];
  };
  static Pool& here() {
    static thread_local Pool pool;
    return pool;
  }
  void next() {
    if (free_.empty()) {
      blocks_.push_back(new Block);
      blocks_.back()->pool = this;
      free_.push_back(blocks_.back());
    }
    block_ = free_.back();
    free_.pop_back();
  }
  Block* block_ = nullptr;    // that places are given out of
  std::vector<Block*> free_;  // without an object
  std::vector<Block*> blocks_;
};

// For std::allocate_shared.
template <class T>
struct Pooled {
  using value_type = T;
  Pooled() = default;
  template <class U>
  Pooled(const Pooled<U>&) {}
  T* allocate(size_t n) {
    return static_cast<T*>(n == 1 ? Pool<sizeof(T)>::take() : ::operator new(n * sizeof(T)));
  }
  void deallocate(T* at, size_t n) {
    if (n == 1)
      Pool<sizeof(T)>::give(at);
    else
      ::operator delete(at);
  }
  template <class U>
  bool operator==(const Pooled<U>&) const {
    return true;
  }
};

}  // namespace tileproof
