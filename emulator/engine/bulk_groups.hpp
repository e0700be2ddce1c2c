// Bulk async-groups of one thread (PTX ISA 9.7.9.27.2.1): open, commit, wait.
#pragma once

#include <deque>
#include <memory>

namespace tileproof {

struct BulkGroup {
  int reads_left = 0;   // copies whose source is still to be read
  int writes_left = 0;  // copies whose destination is still to be written
  bool over(bool reads_only) const { return !reads_left && (reads_only || !writes_left); }
};

struct BulkThread {
  std::shared_ptr<BulkGroup> open;                   // not committed yet
  std::deque<std::shared_ptr<BulkGroup>> committed;  // oldest first; those that are over leave from the front

  // A copy joins the open group.
  std::shared_ptr<BulkGroup> join() {
    if (!open) open = std::make_shared<BulkGroup>();
    open->reads_left++;
    open->writes_left++;
    return open;
  }
  void commit() {
    committed.push_back(open ? std::move(open) : std::make_shared<BulkGroup>());
    open.reset();
  }
  // wait_group N: all committed groups but the N most recent ones are over, however many of those N still
  // run.
  bool waited(int newest, bool reads_only) const {
    const size_t kept = newest > 0 ? static_cast<size_t>(newest) : 0;
    for (size_t i = 0; i + kept < committed.size(); ++i)
      if (!committed[i]->over(reads_only)) return false;
    return true;
  }
  size_t drop_finished() {  // how many those are
    const size_t before = committed.size();
    while (!committed.empty() && committed.front()->over(false)) committed.pop_front();
    return before - committed.size();
  }
};

}  // namespace tileproof
