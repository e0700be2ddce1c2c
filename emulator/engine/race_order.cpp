// What depends on the order of accesses that may come in any order: strong accesses, and sums
// (docs/certificate.md).
#include <algorithm>

#include "change.hpp"
#include "first_columns.hpp"
#include "grids.hpp"
#include "machine.hpp"
#include "race.hpp"
#include "reductions.hpp"
#include "schedule.hpp"

namespace tileproof {

// The kind of a reduction whose result nothing asks for; operations of one kind may be exchanged. 0: of no
// kind. Sums of floats may be exchanged as well, but round in their order: kSum.
uint8_t Races::adds_of(const Instr* i, const Change* by) {
  if (!i) return 0;
  if (adds_.empty()) adds_.resize(e_.program.code.size(), 255);
  uint8_t& known = by ? async_adds_.try_emplace({i, static_cast<int>(by->type)}, 255).first->second
                      : adds_[static_cast<size_t>(i - e_.program.code.data())];
  if (known != 255) return known;
  known = 0;
  const std::string kind = reduction_kind(e_.program, *i, by);
  if (kind.empty()) return known;
  known = kinds_.try_emplace(kind, static_cast<uint8_t>(kinds_.size() + 1)).first->second;
  if (rounds(kind)) known |= kSum;
  e_.sums |= (known & kSum) != 0;
  return known;
}

// Two strong accesses may race; what they read or leave then depends on their order.
void Races::strong_pair(const Access& a, const Access& b, int8_t lane, const View& v, Place place, int rank,
                        uint64_t address) {
  if (covered(v, kHappens, a, lane)) return;
  doubt("order-decides", b.at, a.at,
        mnemonic(a.at.instr) + " and " + mnemonic(b.at.instr) + " access " + describe(place, rank, address) +
            ", and nothing orders them: their results depend on which is first",
        a.hold);
}

// A read meets one addition after another: of two at the same bytes, the earlier is held back.
void Races::sum_read(const Slot& first, uint32_t second, Place place, int rank, uint64_t address) {
  const Access &a = accesses_[first.record], &b = accesses_[second];
  Decision hold{0, kNoStep};
  if (summed_.second == second && summed_.address == address && summed_.first.units & first.units &&
      summed_.first.record != first.record)
    hold = accesses_[std::min(summed_.first.record, first.record)].hold;
  summed_ = {first, second, address};
  doubt("order-decides", b.at, a.at,
        mnemonic(b.at.instr) + " reads " + describe(place, rank, address) + ", a sum of floats by " +
            mnemonic(a.at.instr) + ", which is rounded in the order of the additions",
        hold);
}

// Whether an event comes before the running instruction, or there is none: of an instruction of the whole
// warp, by what any lane knows.
bool Races::settled(const Exec& x, const PhaseEvent& last) {
  Thread& t = thread(x.w);
  const auto know = joined(t);
  return !last.agent || follows({know.get(), t.agent, t.all, t.now, t.together}, last);
}

// The columns of an allocation depend on those before it.
void Races::allocates(const Exec& x) {
  Thread& t = thread(x.w);
  PhaseEvent& last = state(x.cta).allocated;
  PhaseEvent event{t.agent, t.now, t.all, x.origin(x.lane())};
  event.hold = e_.scheduler->running(x.w, *x.s);
  if (!settled(x, last))
    doubt("order-decides", event.at, last.at,
          mnemonic(event.at.instr) + " and " + mnemonic(last.at.instr) +
              " of one CTA are in no order: which columns are free depends on it",
          last.hold);
  last = event;
}

// From the first launch_dependents of a CTA on, CTAs of the next grid may hold the columns that are free.
void Races::tmem_alloc(const Exec& x) {
  allocates(x);
  CtaState& s = state(x.cta);
  s.given = s.allocated;
  if (s.triggered && e_.config.grid_record) e_.config.grid_record->allocates_late = true;
}

// An alloc of the CTA after the permit is given up is illegal, so that the last alloc comes before.
void Races::tmem_relinquish(const Exec& x) {
  const PhaseEvent& last = state(x.cta).given;
  if (settled(x, last)) return;
  const Origin at = x.origin(x.lane());
  doubt("order-decides", at, last.at,
        mnemonic(at.instr) + " and " + mnemonic(last.at.instr) + " of one CTA are in no order", last.hold);
}

void Races::accesses_untold(const Exec& x, int lane, const char* why) {
  const Origin at = x.origin(lane);
  doubt("unsupported", at, at, mnemonic(at.instr) + " " + why);
}

// A collector buffer holds the matrix of the last product that filled it, until the next product.
void Races::collector(const Exec& x, int lane, int buffer, bool held) {
  Thread& t = thread(x.w);
  PhaseEvent event{t.agent, t.now, 1u << lane, x.origin(lane)};
  event.hold = e_.scheduler->running(x.w, *x.s);
  auto& open = state(x.cta).collectors[static_cast<size_t>(buffer)];
  const Actor who{group_of(t, lane).know.get(), t.agent, 1u << lane, t.now, t.together};
  std::erase_if(open, [&](const auto& last) { return follows(who, last.first); });
  for (const auto& [last, was_held] : open)
    if (held || was_held)
      doubt("order-decides", event.at, last.at,
            mnemonic(event.at.instr) + " and " + mnemonic(last.at.instr) +
                " are in no order: what the collector buffer holds depends on it",
            last.hold);
  open.push_back({event, held});
}

void Races::grid_launch_dependents(const Exec& x) {
  CtaState& s = state(x.cta);
  s.triggered = true;
  if (!s.given.agent || !e_.config.grid_record) return;
  const Thread& t = thread(x.w);
  for (const Group& g : t.groups)
    if (const uint32_t mine = g.lanes & x.mask)
      e_.config.grid_record->allocates_late |=
          !follows({g.know.get(), t.agent, mine, t.now, t.together}, s.given);
}

void Races::tmem_base(const Exec& x, uint32_t offset, int base, int columns, int serial, bool fixed) {
  Thread& t = thread(x.w);
  const uint32_t id = record(t, x.origin(x.lane()), t.all, Path::Warp);
  finish(id, t.agent, t.now, t.all);
  t.now++;
  forget_view();
  for (int u = base / 32; u < (base + columns) / 32; ++u) state(x.cta).columns[static_cast<size_t>(u)] = id;
  if (columns_) columns_->allocated(x, offset, base, columns, serial, fixed);
}

// An access of columns that may run before their allocation. Of a pair, the part of the other CTA is asked
// for by the letter only: CUTLASS's products start when the issuing CTA has done its own
// (docs/assumptions.md).
void Races::after_alloc(const View& v, uint32_t id, bool write, Cta& cta, int column, int columns) {
  uint32_t last = 0;
  for (int u = column / 32; u <= (column + columns - 1) / 32; ++u) {
    const uint32_t from = state(cta).columns[static_cast<size_t>(u)];
    if ((from && from == last) || (from && ran(v, accesses_[from], kWholeWarp))) continue;
    last = from;
    if (v.at.rank == cta.rank) {
      if (from)
        report(Severity::Error, "race-tmem-allocated", from, true, id, write, Place::Tmem, cta.rank,
               static_cast<uint64_t>(column), "a barrier after the first, before the second");
      continue;
    }
    const std::string text = mnemonic(v.at.instr) + " of CTA rank " + std::to_string(v.at.rank) +
                             ": nothing ensures that CTA rank " + std::to_string(cta.rank) +
                             " has done its part of the allocation of TMEM column " + std::to_string(column);
    if (e_.config.strict)
      e_.error("pair-not-allocated", text, v.at);
    else
      doubt("open", v.at, from ? accesses_[from].at : v.at, text);
    return;
  }
}

}  // namespace tileproof
