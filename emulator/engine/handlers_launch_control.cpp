// clusterlaunchcontrol: a running cluster asks for one that has not started (PTX ISA 9.7.13.16).
#include "machine.hpp"
#include "slots/launch_control.hpp"

namespace tileproof {
namespace {

// The answer is opaque to kernels. Here: the first CTA's id, and whether the request was granted.
struct Response {
  uint32_t x = 0, y = 0, z = 0, state = 0;
};
static_assert(sizeof(Response) == 16);
constexpr uint32_t kRefused = 0x30434c43, kGranted = 0x31434c43;

Step try_cancel(Exec& x, const Instr& i) {
  namespace s = slot::clc_try_cancel;
  Engine* e = &x.e;
  for (uint32_t lanes = x.mask; lanes; lanes &= lanes - 1) {
    const int l = __builtin_ctz(lanes);
    const Origin at = x.origin(l);
    const uint32_t dst = x.src<uint32_t>(i.o[s::dst])[l], bar = x.src<uint32_t>(i.o[s::barrier])[l];
    if (!x.shared_owner(dst, l, false) || !x.shared_owner(bar, l, false)) return Step::Stop;
    const uint32_t offset = dst & kOffsetMask, bar_offset = bar & kOffsetMask;
    if (offset % 16) {
      e->fault("misaligned",
               "the response of clusterlaunchcontrol.try_cancel at " + hex(dst) +
                   "; 16-byte alignment is required",
               at, dst);
      return Step::Stop;
    }
    if (x.cta.claim_refused)
      e->error(
          "clc-after-refusal",
          "this CTA makes another request after a refused request, which is undefined (PTX ISA 9.7.13.16.1)",
          at, dst);
    std::vector<Cta*> to;
    if (i.m[s::multicast])
      for (auto& cta : x.cta.cluster->ctas) to.push_back(cta.get());
    else
      to.push_back(&x.cta);
    const bool pending = !e->early();
    for (Cta* cta : to) {
      if (!e->shared_range(*cta, offset, 16, at, "a launch-control response") ||
          !e->barrier_at(*cta, bar_offset, at))
        return Step::Stop;
      if (pending) add_pending(&cta->shared.state[offset], 16);
    }
    e->issue("launch control", 0, at, [=] {
      Response r;
      r.state = kRefused;
      if (const auto claimed = e->claim_cluster()) r = {claimed->x, claimed->y, claimed->z, kGranted};
      for (Cta* cta : to) {
        if (cta->exited()) {
          e->fault("access-after-exit", "a launch-control response comes to a CTA that has exited", at, dst);
          return;
        }
        e->async_write_shared(*cta, offset, reinterpret_cast<const uint8_t*>(&r), 16, pending, at);
        e->barrier_complete_tx(*cta, bar_offset, 16, at);
      }
    });
  }
  return Step::Next;
}

// The response in lane l; null after a finding.
const Response* response(Exec& x, int32_t slot, int l) {
  const Response* r = &x.src<Response>(slot)[l];
  if (r->state == kRefused || r->state == kGranted) return r;
  x.e.error("clc-response", "these 16 bytes are no answer of clusterlaunchcontrol.try_cancel", x.origin(l));
  return nullptr;
}

Step is_canceled(Exec& x, const Instr& i) {
  namespace s = slot::clc_is_canceled;
  uint32_t& p = *x.dst<uint32_t>(i.o[s::dst]);
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const Response* r = response(x, i.o[s::response], l);
    const bool granted = r && r->state == kGranted;
    if (r && !granted) x.cta.claim_refused = true;
    p = granted ? p | 1u << l : p & ~(1u << l);
  }
  return Step::Next;
}

Step first_ctaid(Exec& x, const Instr& i) {
  namespace s = slot::clc_first_ctaid;
  for (uint32_t m = x.mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const Response* r = response(x, i.o[s::response], l);
    // Undefined, so that nothing may depend on it: Triton reads it before it tests is_canceled.
    const PoisonId undefined =
        r && r->state == kRefused
            ? x.e.poisons.read(
                  "clc-response",
                  "the first CTA of a request that was refused is undefined: is_canceled must be "
                  "tested first (PTX ISA 9.7.13.16.2)",
                  x.origin(l), 0, true)
            : 0;
    const Response out = r && r->state == kGranted ? *r : Response{~0u, ~0u, ~0u, 0};
    const uint32_t values[] = {out.x, out.y, out.z, 0};
    for (int k = 0; k < 4; ++k)
      if (i.o[s::x + k] != INT32_MIN) {
        x.dst<uint32_t>(i.o[s::x + k])[l] = values[k];
        if (undefined) x.e.mark_poison(x.w, i.o[s::x + k], l, nullptr, undefined);
      }
  }
  return Step::Next;
}

const Registrar launch_control({
    {"clc.try_cancel", try_cancel},
    {"clc.is_canceled", is_canceled},
    {"clc.first_ctaid", first_ctaid},
});

}  // namespace
}  // namespace tileproof
