// Asynchronous operations that no queue orders, between issue and completion. A kernel may have thousands of
// them in flight (st.async: one per lane), and each completion is a choice among all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace tileproof {

// `Op` has a `seq`, above 0, that grows from issue to issue.
template <class Op>
class Unordered {
 public:
  size_t size() const { return order_.size(); }
  bool empty() const { return order_.empty(); }
  const Op& operator[](size_t place) const { return *order_[place].op; }  // in order of issue
  // Counts the changes that are not an issue or a completion.
  uint64_t rearranged() const { return rearranged_; }

  void add(Op&& op) {
    if (free_.empty()) {
      pool_.emplace_back();
      free_.push_back(&pool_.back());
    }
    Op* to = free_.back();
    free_.pop_back();
    *to = std::move(op);
    order_.push_back({to->seq, to});
  }

  Op take(size_t place) {
    Op* from = order_[place].op;
    order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(place));
    Op op = std::move(*from);
    *from = Op{};
    free_.push_back(from);
    return op;
  }

  size_t place_of(uint64_t seq) const {
    const auto at = std::lower_bound(order_.begin(), order_.end(), seq,
                                     [](const Entry& one, uint64_t wanted) { return one.seq < wanted; });
    return static_cast<size_t>(at - order_.begin());
  }

  struct Entry {
    uint64_t seq;
    Op* op;
  };
  // Those for which `aside` holds are not among the others until `put_back`.
  template <class Aside>
  std::vector<Entry> set_aside(Aside aside) {
    std::vector<Entry> apart;
    for (const Entry& one : order_)
      if (aside(*one.op)) apart.push_back(one);
    if (apart.empty()) return apart;
    std::erase_if(order_, [&](const Entry& one) { return aside(*one.op); });
    ++rearranged_;
    return apart;
  }
  void put_back(const std::vector<Entry>& apart) {
    if (apart.empty()) return;
    const auto old = static_cast<std::ptrdiff_t>(order_.size());
    order_.insert(order_.end(), apart.begin(), apart.end());
    std::inplace_merge(order_.begin(), order_.begin() + old, order_.end(),
                       [](const Entry& a, const Entry& b) { return a.seq < b.seq; });
    ++rearranged_;
  }

 private:
  std::deque<Op> pool_;  // an operation stays where it is until it is taken
  std::vector<Op*> free_;
  std::deque<Entry> order_;
  uint64_t rearranged_ = 0;
};

// The operation of the highest priority, of equal ones the oldest, without a look at the others: what was
// issued since the last question is entered then; what has completed, or has a lower priority by now, is
// noticed when it comes up.
template <class Op>
class Ranked {
 public:
  // nullptr where there is none. A priority that becomes higher is noticed after `forget` only.
  template <class Priority>
  const Op* best(const Unordered<Op>& ops, Priority priority) {
    if (rearranged_ != ops.rearranged()) forget();
    rearranged_ = ops.rearranged();
    for (size_t k = ops.size(); k > 0 && ops[k - 1].seq > entered_; --k)
      enter(ops[k - 1], priority(ops[k - 1]));
    if (!ops.empty()) entered_ = std::max(entered_, ops[ops.size() - 1].seq);
    while (!heap_.empty()) {
      const Entry top = heap_.front();
      const bool waits = top.op->seq == top.seq;
      const uint64_t now = waits ? priority(*top.op) : 0;
      if (waits && now == top.priority) return top.op;
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
      if (waits) enter(*top.op, now);
    }
    return nullptr;
  }
  void forget() {
    heap_.clear();
    entered_ = 0;
  }

 private:
  struct Entry {
    uint64_t priority;
    uint64_t seq;
    const Op* op;
    bool operator<(const Entry& o) const {
      return priority != o.priority ? priority < o.priority : seq > o.seq;
    }
  };
  void enter(const Op& op, uint64_t priority) {
    heap_.push_back({priority, op.seq, &op});
    std::push_heap(heap_.begin(), heap_.end());
  }
  std::vector<Entry> heap_;
  uint64_t entered_ = 0;
  uint64_t rearranged_ = 0;
};

}  // namespace tileproof
