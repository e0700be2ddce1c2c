// cp.async.bulk.commit_group and wait_group (PTX ISA 9.7.9.27.2).
#include "machine.hpp"
#include "slots/bulk_copy.hpp"

namespace tileproof {
namespace {

Step bulk_commit(Exec& x, const Instr&) {
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    BulkThread& t = x.w.bulk[l];
    t.commit();
    x.e.hold(kGroupBytes, x.origin(l));
    if (t.committed.size() % 1024 == 0) x.e.release(kGroupBytes * t.drop_finished());
    x.e.tell(&Listener::bulk_commit, x.w, l);
  }
  ++x.e.progress;
  return Step::Next;
}

// imm N.
Step bulk_wait(Exec& x, const Instr& i) {
  const bool reads_only = i.m[slot::bulk_wait::reads_only];
  const int newest = static_cast<int>(i.imm);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    BulkThread& t = x.w.bulk[__builtin_ctz(m)];
    x.e.release(kGroupBytes * t.drop_finished());
    if (t.waited(newest, reads_only)) continue;
    x.s->wait = Wait::BulkGroup;
    x.s->lanes_wanted = x.mask;
    x.s->bulk_allowed = newest;
    x.s->bulk_read_only = reads_only;
    return Step::Block;
  }
  for (uint32_t m = x.mask; m; m &= m - 1)
    x.e.tell(&Listener::bulk_pass, x.w, __builtin_ctz(m), newest, reads_only);
  return Step::Next;
}

const Registrar bulk({{"bulk.commit", bulk_commit}, {"bulk.wait", bulk_wait}});

}  // namespace
}  // namespace tileproof
