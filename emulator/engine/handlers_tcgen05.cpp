// tcgen05.mma and commit (PTX ISA 9.7.16.10, 9.7.16.12).
#include "mma.hpp"
#include "queues.hpp"
#include "slots/tcgen05.hpp"
#include "slots/tcgen05_mma.hpp"

namespace tileproof {
namespace {

// A collector buffer may be read only while it holds the same matrix (PTX ISA 9.7.16.10, collector_usage).
void use_collector(Exec& x, const MmaRequest& r, int buffer, CollectorUsage usage) {
  const bool is_b = buffer > 0;
  const InstructionDescriptor d = r.descriptor();
  Collector now;
  now.filled = usage == CollectorUsage::Fill || usage == CollectorUsage::Use;
  now.matrix = is_b ? r.b : r.a;
  now.shape = static_cast<uint32_t>(is_b ? d.n : d.m) << 8 |
              static_cast<uint32_t>(is_b ? d.b_type | d.b_mn_major << 3 : d.a_type | d.a_mn_major << 3) << 4 |
              static_cast<uint32_t>(r.format) << 1 | r.a_in_tmem;
  Collector& held = x.cta.collectors[static_cast<size_t>(buffer)];
  if ((usage == CollectorUsage::Use || usage == CollectorUsage::Lastuse) &&
      (!held.filled || held.matrix != now.matrix || held.shape != now.shape))
    x.e.warn(
        "mma-collector",
        std::string("tcgen05.mma uses the collector buffer of ") + (is_b ? "B" : "A") +
            (held.filled ? ", which was filled with another matrix" : ", which no earlier MMA has filled"),
        r.origin);
  held = now;
}

// imm: scale-input-d; vec: lane mask.
Step mma(Exec& x, const Instr& i) {
  namespace s = slot::tcgen05_mma;
  if (const int by = __builtin_popcount(x.w.executed_by(&i, x.mask)); by > 1)
    x.e.warn("mma-many-threads",
             "tcgen05.mma is issued by " + std::to_string(by) +
                 " threads of a warp: each thread issues an operation",
             x.origin(x.lane()));
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    MmaRequest r;
    r.origin = x.origin(l);
    r.format = static_cast<Format>(i.m[s::format]);
    r.cta_group = i.m[s::cta_group];
    r.queue = tensor_queue(x, l, r.cta_group);
    r.ws = i.m[s::ws];
    r.a_in_tmem = i.m[s::a_in_tmem];
    r.d_taddr = x.src<uint32_t>(i.o[s::d])[l];
    r.a = r.a_in_tmem ? x.src<uint32_t>(i.o[s::a])[l] : x.src<uint64_t>(i.o[s::a])[l];
    r.b = x.src<uint64_t>(i.o[s::b])[l];
    r.idesc = x.src<uint32_t>(i.o[s::idesc])[l];
    r.accumulate = (*x.src<uint32_t>(i.o[s::enable]) >> l & 1) != static_cast<uint32_t>(i.m[s::enable_not]);
    if (i.o[s::scale_a] != INT32_MIN) r.scale_a = x.src<uint32_t>(i.o[s::scale_a])[l];
    if (i.o[s::scale_b] != INT32_MIN) r.scale_b = x.src<uint32_t>(i.o[s::scale_b])[l];
    if (i.o[s::zero_mask] != INT32_MIN) r.zero_mask = x.src<uint64_t>(i.o[s::zero_mask])[l];
    r.scale_d = static_cast<int>(i.imm);
    r.mask_words = i.nvec;
    for (int32_t k = 0; k < i.nvec; ++k)
      r.lane_mask[static_cast<size_t>(k)] =
          x.src<uint32_t>(x.e.program.vec[static_cast<size_t>(i.vec + k)])[l];
    if (r.cta_group == 2) {
      r.even = x.cta.cluster->cta(x.cta.rank & ~1);
      r.odd = x.cta.cluster->cta(x.cta.rank | 1);
      if (!r.odd) {
        x.e.fault("cta-pair", "tcgen05.mma cta_group::2 in a cluster without CTA pairs", r.origin);
        return Step::Stop;
      }
    } else {
      r.even = &x.cta;
    }
    if (const std::string wrong = check_mma(r); !wrong.empty()) {
      x.e.fault("mma-operands", "tcgen05.mma: " + wrong, r.origin, r.d_taddr);
      return Step::Stop;
    }
    if (r.mask_words) x.e.tell(&Listener::accesses_untold, x, l, "with a mask of output lanes");
    const auto usage = static_cast<CollectorUsage>(i.m[s::collector] & 3);
    use_collector(x, r, i.m[s::collector] >> 2, usage);
    x.e.tell(&Listener::collector, x, l, i.m[s::collector] >> 2, usage != CollectorUsage::Discard);
    std::vector<TmemWrite> writes = mark_mma(x.e, r);
    if (x.e.stopped) return Step::Stop;
    Engine* e = &x.e;
    e->issue("MMA", r.queue, r.origin, [e, r] { execute_mma(*e, r); }, std::move(writes), mma_amount(r));
  }
  return x.e.stopped ? Step::Stop : Step::Next;
}

// mask: of CTAs, or none.
Step commit(Exec& x, const Instr& i) {
  namespace s = slot::tcgen05_commit;
  const bool wide = i.m[s::address_bytes] == 8;
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    uint64_t a = wide ? x.src<uint64_t>(i.o[s::barrier])[l] : x.src<uint32_t>(i.o[s::barrier])[l];
    if (wide && a - kSharedWindow < kWindowSize) a -= kSharedWindow;
    const uint32_t offset = static_cast<uint32_t>(a) & kOffsetMask;
    std::vector<Cta*> to;
    if (i.o[s::mask] != INT32_MIN) {
      const uint32_t mask = x.src<uint16_t>(i.o[s::mask])[l];
      for (int r = 0; r < 16; ++r) {
        if (!(mask >> r & 1)) continue;
        Cta* cta = x.cta.cluster->cta(r);
        if (!cta) {
          x.e.fault("shared-no-such-cta",
                    "the commit mask " + hex(mask) + " names CTA rank " + std::to_string(r), x.origin(l));
          return Step::Stop;
        }
        to.push_back(cta);
      }
    } else {
      Cta* owner = x.shared_owner(a, l, true);
      if (!owner) return Step::Stop;
      to.push_back(owner);
    }
    Engine* e = &x.e;
    const Origin at = x.origin(l);
    e->issue("commit", tensor_queue(x, l, i.m[s::cta_group]), at, [e, to, own = &x.cta, offset, at] {
      for (Cta* cta : to) {
        if (cta == own && cta->exited()) {
          e->warn("commit-at-exit",
                  "tcgen05.commit arrives at the mbarrier at shared offset " + hex(offset) +
                      " of its own CTA, which has exited: nothing waited for it",
                  at);
          continue;
        }
        e->tell(&Listener::mbarrier_commit, *cta, offset);
        e->barrier_arrive(*cta, offset, 1, at);
      }
    });
  }
  return x.e.stopped ? Step::Stop : Step::Next;
}

const Registrar tcgen05({
    {"tcgen05.mma", mma},
    {"tcgen05.commit", commit},
});

}  // namespace
}  // namespace tileproof
