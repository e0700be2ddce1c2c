// The cells of D: its layouts, and the marks of an MMA that is to come.
#include "mma.hpp"

namespace tileproof {

// Data-path layouts A..G of one CTA (PTX ISA 9.7.16.10.5): rows of this CTA are 0 .. rows-1.
void segments(const MmaRequest& r, const InstructionDescriptor& d, std::vector<Segment>& out) {
  const int c0 = static_cast<int>(r.d_taddr & 0xffff);
  const int lane0 = static_cast<int>(r.d_taddr >> 16);
  out.clear();
  const int rows = d.m / r.cta_group;
  auto whole = [&](int lane, int row) { out.push_back({lane, row, 0, d.n, c0}); };
  if (rows == 128) {
    for (int m = 0; m < 128; ++m) whole(m, m);  // layouts A and D
  } else if (rows == 64 && (r.cta_group == 2 || r.ws)) {
    for (int half = 0; half < 2; ++half)  // layouts B and E
      for (int m = 0; m < 64; ++m) out.push_back({m + 64 * half, m, half * d.n / 2, d.n / 2, c0});
  } else if (rows == 64) {
    for (int m = 0; m < 64; ++m) whole(m % 16 + 32 * (m / 16) + (lane0 & 16), m);  // layout F
  } else {
    for (int q = 0; q < 4; ++q)  // layout G
      for (int m = 0; m < 32; ++m) out.push_back({m + 32 * q, m, q * d.n / 4, d.n / 4, c0});
  }
}

bool d_allocated(Engine& e, const MmaRequest& r, Cta& cta, const InstructionDescriptor& d) {
  const int c0 = static_cast<int>(r.d_taddr & 0xffff);
  const int rows = d.m / r.cta_group;
  const int columns = rows == 64 && (r.cta_group == 2 || r.ws) ? d.n / 2 : rows == 32 ? d.n / 4 : d.n;
  if (may_access(cta, r.origin.rank, c0, columns, e.config.strict)) return true;
  e.fault("tmem-not-allocated",
          "tcgen05.mma writes TMEM columns [" + std::to_string(c0) + ", " + std::to_string(c0 + columns) +
              ") of CTA rank " + std::to_string(cta.rank) + ", which are not all allocated",
          r.origin, r.d_taddr);
  return false;
}

std::vector<TmemWrite> mark_mma(Engine& e, const MmaRequest& r) {
  std::vector<TmemWrite> writes;
  if (e.early()) return writes;
  const InstructionDescriptor d = r.descriptor();
  std::vector<Segment> segs;
  segments(r, d, segs);
  for (Cta* cta : r.members()) {
    if (!cta) continue;
    if (!d_allocated(e, r, *cta, d)) return writes;
    TmemWrite w{cta, {}, segs[0].column, segs[0].columns};  // all segments have the same columns
    for (const Segment& s : segs) {
      add_pending(cta->tmem.change_state(s.lane, s.column), static_cast<size_t>(s.columns));
      w.add_lane(s.lane);
    }
    writes.push_back(w);
  }
  return writes;
}

}  // namespace tileproof
