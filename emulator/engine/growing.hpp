// A sequence that grows to many megabytes without being copied: its pages are moved, and only pages that are
// used cost memory.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace tileproof {

// Pages that a sequence of this thread had, for the next.
class SparePages {
 public:
  struct Pages {
    void* at = nullptr;
    size_t bytes = 0;
  };
  static Pages take() { return std::exchange(here().pages_, Pages{}); }
  static void give(Pages pages) {
    Pages& kept = here().pages_;
    if (pages.bytes > kept.bytes && pages.bytes <= kMost) std::swap(kept, pages);
    if (pages.at) munmap(pages.at, pages.bytes);
  }
  ~SparePages() {
    if (pages_.at) munmap(pages_.at, pages_.bytes);
  }

 private:
  static constexpr size_t kMost = size_t{64} << 20;
  static SparePages& here() {
    static thread_local SparePages spare;
    return spare;
  }
  Pages pages_;
};

template <class T>
class Growing {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Growing() = default;
  Growing(const Growing&) = delete;
  ~Growing() { SparePages::give(pages_); }
  T& operator[](size_t k) { return static_cast<T*>(pages_.at)[k]; }
  const T& operator[](size_t k) const { return static_cast<const T*>(pages_.at)[k]; }
  size_t size() const { return size_; }
  T& push_back(const T& value) {
    if ((size_ + 1) * sizeof(T) > pages_.bytes) [[unlikely]] {
      const T copy = value;  // it may lie in what moves
      grow();
      return (*this)[size_++] = copy;
    }
    return (*this)[size_++] = value;
  }
  void shrink(size_t size) { size_ = size; }

 private:
  static constexpr size_t kFirst = size_t{512} << 10, kLarge = size_t{4} << 20;

  void grow() {
    if (!pages_.at) pages_ = SparePages::take();
    if (pages_.bytes > size_ * sizeof(T)) return;
    const size_t bytes = pages_.at ? 2 * pages_.bytes : kFirst;
    void* at = pages_.at ? mremap(pages_.at, pages_.bytes, bytes, MREMAP_MAYMOVE)
                         : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    if (bytes >= kLarge) madvise(at, bytes, MADV_HUGEPAGE);  // a hint: fewer page faults
    pages_ = {at, bytes};
  }

  SparePages::Pages pages_;
  size_t size_ = 0;
};

}  // namespace tileproof
