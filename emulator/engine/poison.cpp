// The reads of a launch that found nothing written, and the registers of a warp that hold what they gave.
#include "poison.hpp"

#include <algorithm>
#include <cstring>

namespace tileproof {

namespace {
constexpr size_t kMostReads = 1 << 16;  // kept apart; further reads of a finding count as its first
}

PoisonId PoisonLedger::set_of(std::vector<uint32_t> reads) {
  const auto [it, fresh] = ids_.try_emplace(std::move(reads), static_cast<PoisonId>(sets_.size() + 1));
  if (fresh) {
    sets_.push_back(it->first);
    kept_ += it->first.size();
  }
  return it->second;
}

PoisonId PoisonLedger::read(const char* code, std::string message, const Origin& at, uint64_t address,
                            bool quiet) {
  const auto [known, fresh] =
      findings_.try_emplace(Finding{code, at.instr, at.rank}, static_cast<uint32_t>(fates_.size()));
  const uint32_t finding = known->second;
  if (fresh) fates_.push_back({static_cast<uint32_t>(reads_.size()), quiet, false});
  if (!fresh && reads_.size() >= kMostReads) return set_of({fates_[finding].first});
  const uint64_t cta =
      at.cta.x | static_cast<uint64_t>(at.cta.y) << 32 | static_cast<uint64_t>(at.cta.z) << 48;
  const auto [place, first] =
      places_.try_emplace(std::tuple(finding, cta, at.warp, at.lane), static_cast<uint32_t>(reads_.size()));
  PoisonRead made{code, std::move(message), at, address, finding};
  if (first)
    reads_.push_back(std::move(made));
  else if (reads_[place->second].at.time != at.time)
    reads_[place->second] = std::move(made);  // the thread's latest execution
  return set_of({place->second});
}

PoisonId PoisonLedger::both(PoisonId a, PoisonId b) {
  if (a == b || !b) return a;
  if (!a) return b;
  if (a > b) std::swap(a, b);
  if (const auto it = unions_.find({a, b}); it != unions_.end()) return it->second;
  std::vector<uint32_t> all = sets_[a - 1];
  for (uint32_t read : sets_[b - 1])
    if (std::none_of(all.begin(), all.end(),
                     [&](uint32_t r) { return reads_[r].finding == reads_[read].finding; }))
      all.push_back(read);
  std::sort(all.begin(), all.end());
  // Beyond the limits a value keeps the reads of one of its sources: still poison, and still told.
  if (sets_.size() >= kMostPoisonSets || kept_ + all.size() > kMostPoisonReads) return a;
  return unions_[{a, b}] = set_of(std::move(all));
}

void PoisonLedger::computed(PoisonId set) {
  for (uint32_t read : sets_[set - 1]) fates_[reads_[read].finding].quiet = false;
}

std::vector<const PoisonRead*> PoisonLedger::dropped() const {
  std::vector<const PoisonRead*> found;
  for (const Fate& fate : fates_)
    if (!fate.used && !fate.quiet) found.push_back(&reads_[fate.first]);
  return found;
}

void PoisonRegisters::mark(size_t units, int32_t offset, int width, int lane, const uint8_t* bits,
                           PoisonId set) {
  PoisonRegister* r = at(offset);
  if (!r) {
    if (index_.empty()) index_.assign(units, 0);
    uint32_t n = static_cast<uint32_t>(registers_.size());
    if (free_.empty()) {
      registers_.emplace_back();
    } else {
      n = free_.back();
      free_.pop_back();
    }
    r = &registers_[n];
    r->offset = offset;
    r->width = width;
    r->lanes = 0;
    r->bits.resize(static_cast<size_t>(32 * width));
    index_[static_cast<size_t>(offset) / 64] = n + 1;
    ++live_;
  }
  r->lanes |= 1u << lane;
  r->set[static_cast<size_t>(lane)] = set;
  uint8_t* to = r->bits.data() + lane * width;
  if (bits)
    std::memcpy(to, bits, static_cast<size_t>(width));
  else
    std::memset(to, 0xff, static_cast<size_t>(width));
}

void PoisonRegisters::drop(int32_t offset, uint32_t lanes) {
  PoisonRegister* r = at(offset);
  if (!r || (r->lanes &= ~lanes)) return;
  uint32_t& place = index_[static_cast<size_t>(offset) / 64];
  free_.push_back(place - 1);
  place = 0;
  r->offset = -1;
  --live_;
}

}  // namespace tileproof
