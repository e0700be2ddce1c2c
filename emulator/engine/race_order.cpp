// What depends on the order of accesses that may come in any order: strong accesses, and sums
// (docs/certificate.md).
#include <algorithm>

#include "first_columns.hpp"
#include "machine.hpp"
#include "race.hpp"
#include "schedule.hpp"
#include "slots/atomics.hpp"

namespace tileproof {

namespace {
// The words of an opcode.
std::vector<std::string> words_of(const std::string& opcode) {
  std::vector<std::string> words(1);
  for (char c : opcode) {
    if (c == '.')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}
}  // namespace

// The kind of a reduction whose result nothing asks for; operations of one kind may be exchanged. 0: of no
// kind. Sums of floats may be exchanged as well, but round in their order: kSum.
uint8_t Races::adds_of(const Instr* i) {
  if (!i) return 0;
  if (adds_.empty()) adds_.resize(e_.program.code.size(), 255);
  uint8_t& known = adds_[static_cast<size_t>(i - e_.program.code.data())];
  if (known != 255) return known;
  known = 0;
  const std::vector<std::string> words = words_of(mnemonic(i));
  if (words[0] == "atom" && i->o[slot::atom::dst] != INT32_MIN) return known;
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  const char* operation = nullptr;
  for (const char* one : {"add", "min", "max", "and", "or", "xor"})
    if (has(one)) operation = one;
  if (!operation) return known;
  std::string type = has("tensor") ? "tensor" : words.back();
  if (type.ends_with("x2")) type.resize(type.size() - 2);
  const auto [kind, fresh] =
      kinds_.try_emplace(std::string(operation) + type, static_cast<uint8_t>(kinds_.size() + 1));
  const bool inexact = type == "tensor" || type[0] == 'f' || type[0] == 'b';
  known = kind->second;
  if (*operation == 'a' && operation[1] == 'd' && inexact && !type.starts_with("b8")) known |= kSum;
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

// The columns of an allocation depend on those before it.
void Races::allocates(const Exec& x) {
  Thread& t = thread(x.w);
  PhaseEvent& last = state(x.cta).allocated;
  PhaseEvent event{t.agent, t.now, t.all, x.origin(x.lane())};
  event.hold = e_.scheduler->running(x.w, *x.s);
  const auto know = joined(t);
  if (last.agent && !follows({know.get(), t.agent, t.all, t.now, t.together}, last))
    doubt("order-decides", event.at, last.at,
          mnemonic(event.at.instr) + " and " + mnemonic(last.at.instr) +
              " of one CTA are in no order: which columns are free depends on it",
          last.hold);
  last = event;
}

void Races::tmem_base(const Exec& x, uint32_t offset, int base, int columns, int serial, bool fixed) {
  if (columns_) columns_->allocated(x, offset, base, columns, serial, fixed);
}

}  // namespace tileproof
