// Control flow, warp-level operations, the cluster barrier.
#include "machine.hpp"
#include "enumerations/sync.hpp"
#include "flow.hpp"
#include "slots/sync.hpp"
#include "slots/control.hpp"

namespace tileproof {
namespace {

// The interpreter runs branches itself; this entry only gives them an identity in the table.
Step bra(Exec&, const Instr&) { return Step::Stop; }

// One target of brx.idx: whether the index is the target's place in the list.
Step brx_case(Exec& x, const Instr& i) {
  const uint32_t* index = x.src<uint32_t>(i.o[slot::brx_case::index]);
  uint32_t hits = 0;
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    hits |= static_cast<uint32_t>(index[l] == static_cast<uint64_t>(i.imm)) << l;
  }
  uint32_t& matches = *x.dst<uint32_t>(i.o[slot::brx_case::matches]);
  matches = (matches & ~x.mask) | hits;
  return Step::Next;
}

// After the last target: the behaviour is undefined (PTX ISA 9.7.12.4).
Step brx_none(Exec& x, const Instr& i) {
  const int l = x.lane();
  const uint32_t found = x.src<uint32_t>(i.o[slot::brx_none::index])[l];
  x.e.fault("branch-index",
            "brx.idx with index " + std::to_string(found) + ", and its list has " +
                std::to_string(i.m[slot::brx_none::targets]) + " targets",
            x.origin(l));
  return Step::Stop;
}

Step ret(Exec& x, const Instr& i) {
  const uint32_t lanes = x.mask;
  x.s->mask &= ~lanes;
  if (!x.s->mask) {
    x.s->dead = true;
    x.e.exit_lanes(x.w, lanes, &i);
    return Step::Jump;
  }
  Split* s = x.s;
  s->pc++;
  x.e.exit_lanes(x.w, lanes, &i);
  return Step::Jump;
}

// The comparison that led to an instruction: of its guard, or of the branch before its basic block.
std::string condition(const Exec& x, const Instr& at) {
  const std::vector<Instr>& code = x.e.program.code;
  const int32_t here = static_cast<int32_t>(&at - code.data());
  int32_t decides = at.pred >= 0 ? here : -1;
  for (int32_t k = here; k >= 0 && decides < 0; --k) {
    for (const Instr& from : code)
      if (from.fn == &bra && from.pred >= 0 && from.target == k)
        decides = static_cast<int32_t>(&from - code.data());
    if (decides >= 0 || k == 0) break;
    const Instr& before = code[static_cast<size_t>(k - 1)];
    if (before.fn != &bra) continue;
    if (before.pred >= 0) decides = k - 1;
    break;
  }
  if (decides < 0) return "";
  const int32_t predicate = code[static_cast<size_t>(decides)].pred;
  for (int32_t k = decides - 1; k >= 0; --k) {
    const Instr& i = code[static_cast<size_t>(k)];
    for (int slot = 0; slot < 8; ++slot)
      if ((i.written >> slot & 1) && i.o[slot] == predicate) {
        std::string text = ", by " + x.e.program.names[static_cast<size_t>(i.name)] + " at PTX line " +
                           std::to_string(i.line);
        if (i.source >= 0) text += " (" + x.e.program.sources[static_cast<size_t>(i.source)] + ")";
        return text;
      }
  }
  return "";
}

Step trap(Exec& x, const Instr& i) {
  std::string message = "the kernel executed trap" + condition(x, i);
  const int base = x.cta.tmem.first_base;
  if (base > 0 && !x.e.fits_twice(x.cta)) {
    x.e.fault("trap-beside",
              message +
                  ", beside another kernel's CTA, which has the first columns of tensor memory: two CTAs "
                  "of this launch do not fit onto a processor",
              x.origin(x.lane()));
    return Step::Stop;
  }
  if (x.e.config.environment) {
    message += "; environment " + std::to_string(x.e.config.environment);
    if (base >= 0) message += ", in which the CTA's tensor memory begins at column " + std::to_string(base);
  }
  x.e.fault("trap", message, x.origin(x.lane()));
  return Step::Stop;
}

#define TP_MEMBERS(off) \
  if (!sync_members(x, off)) return x.e.stopped ? Step::Stop : Step::Block

// elect.sync d|p, mask: the lowest lane of the mask, always the same one (PTX ISA 9.7.13.14).
Step elect(Exec& x, const Instr& i) {
  TP_MEMBERS(i.o[slot::elect::mask]);
  const uint32_t* masks =
      x.src<uint32_t>(i.o[slot::elect::mask]);  // groups of lanes with masks of their own may run together
  uint32_t elected = 0;
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m), leader = __builtin_ctz(masks[l] & x.mask);
    elected |= static_cast<uint32_t>(leader == l) << l;
    if (i.o[slot::elect::leader] != INT32_MIN)
      x.dst<uint32_t>(i.o[slot::elect::leader])[l] = static_cast<uint32_t>(leader);
  }
  uint32_t& p = *x.dst<uint32_t>(i.o[slot::elect::chosen]);
  p = (p & ~x.mask) | elected;
  return Step::Next;
}

// The lane that each lane's shfl reads, itself where none is in range, and whether one is. Lane by lane
// without a branch; of lanes that do not take part nothing is used.
void aim(const Exec& x, const Instr& i, uint32_t* source, uint32_t* there) {
  const uint32_t *b = x.src<uint32_t>(i.o[slot::shfl::b]), *c = x.src<uint32_t>(i.o[slot::shfl::c]);
  const auto each = [&](auto lane_and_ok) {
    for (uint32_t l = 0; l < 32; ++l) {
      const uint32_t clamp = c[l] & 31, seg = c[l] >> 8 & 31;
      const auto [j, ok] = lane_and_ok(static_cast<int>(l), static_cast<int>(b[l] & 31),
                                       static_cast<int>((l & seg) | (clamp & ~seg)),
                                       static_cast<int>(l & seg), static_cast<int>(~seg & 31));
      source[l] = ok ? static_cast<uint32_t>(j) : l;
      there[l] = ok;
    }
  };
  switch (static_cast<Shuffle>(i.m[slot::shfl::mode])) {
    case Shuffle::Up:
      each([](int l, int by, int most, int, int) { return std::pair(l - by, l - by >= most); });
      break;
    case Shuffle::Down:
      each([](int l, int by, int most, int, int) { return std::pair(l + by, l + by <= most); });
      break;
    case Shuffle::Bfly:
      each([](int l, int by, int most, int, int) { return std::pair(l ^ by, (l ^ by) <= most); });
      break;
    case Shuffle::Idx:
      each([](int, int by, int most, int least, int free) {
        return std::pair(least | (by & free), (least | (by & free)) <= most);
      });
      break;
  }
}

bool uniform(const uint32_t* v) {
  uint32_t other = 0;
  for (int l = 1; l < 32; ++l) other |= v[l] ^ v[0];
  return !other;
}

// Of a whole warp with all of it as members, butterflies and broadcasts over 32 lanes, which all find their
// lane. False, with nothing done, for what else there is.
bool shuffle_whole(const Exec& x, const Instr& i, const uint32_t* a, const uint32_t* members, uint32_t* d) {
  const auto mode = static_cast<Shuffle>(i.m[slot::shfl::mode]);
  if (x.mask != ~0u || (mode != Shuffle::Bfly && mode != Shuffle::Idx)) return false;
  const uint32_t *b = x.src<uint32_t>(i.o[slot::shfl::b]), *c = x.src<uint32_t>(i.o[slot::shfl::c]);
  uint32_t named = ~0u;
  for (int l = 0; l < 32; ++l) named &= members[l];
  if (named != ~0u || (c[0] & 0x1f1f) != 0x1f || !uniform(c) || !uniform(b)) return false;
  const uint32_t by = b[0] & 31;
  if (mode == Shuffle::Idx)
    for (uint32_t l = 0; l < 32; ++l) d[l] = a[by];
  else
    for (uint32_t l = 0; l < 32; ++l) d[l] = a[l ^ by];
  if (i.o[slot::shfl::inside] != INT32_MIN) *x.dst<uint32_t>(i.o[slot::shfl::inside]) = ~0u;
  return true;
}

// shfl.sync d|p, a, b, c, mask: `mode` a Shuffle (PTX ISA 9.7.9.6).
Step shfl(Exec& x, const Instr& i) {
  TP_MEMBERS(i.o[slot::shfl::mask]);
  uint32_t a[32];
  std::memcpy(a, x.src<uint32_t>(i.o[slot::shfl::a]), sizeof a);
  uint32_t* d = x.dst<uint32_t>(i.o[slot::shfl::dst]);
  const uint32_t* members = x.src<uint32_t>(i.o[slot::shfl::mask]);
  if (shuffle_whole(x, i, a, members, d)) return Step::Next;
  uint32_t source[32], there[32];
  aim(x, i, source, there);
  uint32_t p = 0, outside = 0;
  for (uint32_t l = 0; l < 32; ++l) {
    p |= there[l] << l;
    outside |= (~(x.mask & members[l]) >> source[l] & 1) << l;
  }
  for (uint32_t m = outside & x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    x.e.error("shfl-inactive",
              "shfl.sync reads lane " + std::to_string(source[l]) + ", which does not take part",
              x.origin(l));
  }
  if (x.mask == ~0u) {
    for (uint32_t l = 0; l < 32; ++l) d[l] = a[source[l]];
  } else {
    for (uint32_t m = x.mask; m; m &= m - 1) {
      const int l = __builtin_ctz(m);
      d[l] = a[source[l]];
    }
  }
  if (i.o[slot::shfl::inside] != INT32_MIN) {
    uint32_t& q = *x.dst<uint32_t>(i.o[slot::shfl::inside]);
    q = (q & ~x.mask) | (p & x.mask);
  }
  return Step::Next;
}

// vote.sync: `mode` a Vote; `negated` 1 when the source predicate is negated.
Step vote(Exec& x, const Instr& i) {
  TP_MEMBERS(i.o[slot::vote::mask]);
  const Vote mode = static_cast<Vote>(i.m[slot::vote::mode]);
  uint32_t v = *x.src<uint32_t>(i.o[slot::vote::source]);
  if (i.m[slot::vote::negated]) v = ~v;
  const uint32_t* masks = x.src<uint32_t>(i.o[slot::vote::mask]);
  uint32_t result = 0;
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const uint32_t group = masks[l] & x.mask, yes = v & group;
    if (mode == Vote::Ballot)
      x.dst<uint32_t>(i.o[slot::vote::dst])[l] = yes;
    else
      result |= static_cast<uint32_t>(mode == Vote::All   ? yes == group
                                      : mode == Vote::Any ? yes != 0
                                                          : yes == 0 || yes == group)
                << l;
  }
  if (mode == Vote::Ballot) return Step::Next;
  uint32_t& p = *x.dst<uint32_t>(i.o[slot::vote::dst]);
  p = (p & ~x.mask) | result;
  return Step::Next;
}

Step activemask(Exec& x, const Instr& i) {
  for (uint32_t m = x.mask; m; m &= m - 1)
    x.dst<uint32_t>(i.o[slot::activemask::dst])[__builtin_ctz(m)] = x.mask;
  return Step::Next;
}

Step warp_sync(Exec& x, const Instr& i) {
  TP_MEMBERS(i.o[slot::bar_warp_sync::mask]);
  const uint32_t* masks = x.src<uint32_t>(i.o[slot::bar_warp_sync::mask]);
  for (uint32_t left = x.mask; left;) {  // lanes of one mask wait for one another
    uint32_t lanes = 0;
    for (uint32_t m = left; m; m &= m - 1)
      if (masks[__builtin_ctz(m)] == masks[__builtin_ctz(left)]) lanes |= m & (0u - m);
    x.e.tell(&Listener::warp_sync, x.w, lanes);
    left &= ~lanes;
  }
  return Step::Next;
}

// barrier.cluster has neither .sync nor the sentence of barrier.cta that a thread waits for its warp, so that
// .aligned relies on where the code generator lets parted lanes meet (PTX ISA 9.7.13.3). NVIDIA's kernels do:
// told when strict only.
void tell_parted(Exec& x, const std::vector<uint32_t>& parts, const char* what) {
  if (!x.e.config.strict) return;
  std::string lanes;
  int count = 0;
  for (uint32_t p : parts)
    if (p & x.w.live) lanes += (count++ ? ", " : "") + hex(p & x.w.live);
  if (count < 2) return;
  x.e.error("cluster-barrier-parted",
            std::string("barrier.cluster.") + what +
                " with .aligned, and a branch has parted the lanes of its warp (" + lanes +
                "): no instruction such as bar.warp.sync has synchronised them since",
            x.origin(x.lane()));
}

// The lanes of the warp come together; false while some are still to come, or exit.
bool aligned(Exec& x, const char* what) {
  const std::vector<uint32_t> parts = x.w.parts;
  if (!x.whole_warp(false)) return false;
  tell_parted(x, parts, what);
  return true;
}

// barrier.cluster.arrive / wait: each thread arrives once per round (PTX ISA 9.7.13.3).
Step cluster_arrive(Exec& x, const Instr& i) {
  if (i.m[slot::barrier_cluster_arrive::aligned] && !aligned(x, "arrive")) return Step::Block;
  if (x.w.cluster_owes & x.mask) {
    x.e.fault("cluster-barrier-twice", "a thread arrives at the cluster barrier again before it waited",
              x.origin(x.lane()));
    return Step::Stop;
  }
  x.w.cluster_arrived |= x.mask;
  x.w.cluster_owes |= x.mask;
  for (uint32_t m = x.mask; m; m &= m - 1)
    x.w.cluster_tokens[static_cast<size_t>(__builtin_ctz(m))] = x.cta.cluster->barrier_generation;
  x.e.tell(&Listener::cluster_arrive, x, !i.m[slot::barrier_cluster_arrive::relaxed]);
  x.cta.cluster->barrier_arrived += static_cast<uint32_t>(__builtin_popcount(x.mask));
  ++x.e.progress;
  x.e.cluster_barrier_check(*x.cta.cluster);
  return Step::Next;
}
Step cluster_wait(Exec& x, const Instr& i) {
  if (i.m[slot::barrier_cluster_wait::aligned] && !aligned(x, "wait")) return Step::Block;
  if ((x.w.cluster_owes & x.mask) != x.mask) {
    x.e.fault("cluster-barrier-wait",
              "a thread waits at the cluster barrier and has not arrived since its last wait",
              x.origin(x.lane()));
    return Step::Stop;
  }
  const uint32_t round = x.cta.cluster->barrier_generation;
  bool over = true;
  for (uint32_t m = x.mask; m; m &= m - 1)
    over &= x.w.cluster_tokens[static_cast<size_t>(__builtin_ctz(m))] != round;
  if (over) {
    x.w.cluster_owes &= ~x.mask;
    x.e.tell(&Listener::cluster_pass, x.w, x.mask);
    x.w.pass(&i, x.e.counters.warp_instructions);
    return Step::Next;
  }
  x.s->wait = Wait::ClusterBarrier;
  x.s->token = round;
  return Step::Block;
}

// griddepcontrol.wait and .launch_dependents: who runs is decided by the stream, what they order by who
// listens.
Step griddepcontrol(Exec& x, const Instr& i) {
  x.e.tell(i.m[slot::griddepcontrol::wait] ? &Listener::grid_wait : &Listener::grid_launch_dependents, x);
  return Step::Next;
}

const Registrar sync({
    {"griddepcontrol", griddepcontrol},
    {"bra", bra},
    {"brx.case", brx_case},
    {"brx.none", brx_none},
    {"ret", ret},
    {"trap", trap},
    {"elect", elect},
    {"shfl", shfl},
    {"vote", vote},
    {"activemask", activemask},
    {"bar.warp.sync", warp_sync},
    {"barrier.cluster.arrive", cluster_arrive},
    {"barrier.cluster.wait", cluster_wait},
});

}  // namespace

std::array<uint32_t, 32> shuffle_sources(const Exec& x, const Instr& i) {
  std::array<uint32_t, 32> source{};
  uint32_t there[32];
  aim(x, i, source.data(), there);
  return source;
}

}  // namespace tileproof
