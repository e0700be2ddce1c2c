// Which reads of global memory a value, an address or a condition depends on. Only where a kernel has relaxed
// strong loads and stores: there a chain of dependencies and of relaxed communication orders a read before a
// write (PTX ISA 8.10.4, No-Thin-Air), and nothing else of the race checker does.
//
// A set may lack reads, and then an ordered pair is reported; it never has a read that the value does not
// depend on by the program's text. A read counts as used as soon as something follows from it that is not
// followed further. Nothing depends on the value of a read that is not used.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tileproof {

struct Cta;
struct Exec;
struct Instr;
struct Program;
struct Warp;

using DependencyId = uint32_t;  // a set of reads; 0: none

class Dependences {
 public:
  explicit Dependences(const Program& program);
  // Whether the kernel has relaxed strong stores and loads of global memory.
  static bool wanted(const Program& program);

  void start(const Cta& cta);
  // Around an instruction that is no branch, of the lanes in x.mask; between the two its accesses are told.
  void before(const Exec& x);
  void after(const Exec& x);
  // A condition skips `lanes`, whose results keep what they hold: that depends on it as well.
  void skipped(const Warp& w, const Instr& i, uint32_t lanes);
  void branch(const Warp& w, const Instr& i, uint32_t lanes);

  // A lane of the running instruction loads weakly (`read`: the load's number, 0 for its first lane; returns
  // it), loads strongly, or stores strongly.
  uint32_t weak_read(const Exec& x, int lane, uint32_t read);
  void strong_read(const Exec& x, int lane, uint64_t address, uint32_t size);
  void strong_write(const Exec& x, int lane, uint64_t address, uint32_t size);
  void shared(const Exec& x, const Cta& cta, uint32_t offset, uint32_t size, int lane, bool write);
  void overwritten(const Cta& cta, uint32_t offset, uint32_t size);
  // An asynchronous operation reads these bytes.
  void taken(const Cta& cta, uint32_t offset, uint32_t size);
  // Of these lanes of a read (by the number of its first element) those on which neither what this lane of
  // the running store stores, nor where, nor whether at all depends.
  uint32_t apart(const Exec& x, int lane, const Instr& load, uint32_t read, uint32_t lanes);
  bool used(const Instr& load, uint32_t read, uint32_t lanes) const;

 private:
  struct Read {
    uint32_t number, lanes;
    auto operator<=>(const Read&) const = default;
  };
  struct Set {
    const Instr* polled = nullptr;  // a strong load that gave it
    std::vector<Read> reads;        // by number
    auto operator<=>(const Set&) const = default;
  };
  using Lanes = std::array<DependencyId, 32>;
  struct Registers {
    std::vector<Lanes> of;  // by offset / 64
    Lanes control{};        // of loops that wait for a value of another thread
  };

  DependencyId id(Set set);
  DependencyId both(DependencyId a, DependencyId b);
  DependencyId at(const Registers& r, int32_t offset, int lane) const {
    return offset < 0 ? 0 : r.of[static_cast<size_t>(offset) / 64][static_cast<size_t>(lane)];
  }
  Registers& of(const Warp& w);
  void use(DependencyId set);
  void use_operands(const Exec& x);
  void exchanged(const Exec& x);
  DependencyId stored(const Exec& x, size_t lane, uint32_t k);
  template <class F>
  void each_element(const Exec& x, uint64_t first, uint32_t size, F&& f);
  bool leaves_loop_of(const Instr& branch, const Instr& load) const;

  const Program& program_;
  std::vector<Set> sets_;           // from 1
  std::vector<bool> uses_of_sets_;  // which have been used, with all their reads
  std::vector<uint32_t> used_;      // by number of a read: lanes
  std::map<Set, DependencyId> ids_;
  std::map<std::pair<DependencyId, DependencyId>, DependencyId> unions_;
  size_t kept_ = 0;
  std::unordered_map<const Warp*, Registers> warps_;
  std::unordered_map<const Cta*, std::vector<DependencyId>> shared_;
  std::map<std::pair<uint64_t, uint32_t>, DependencyId> flags_;  // by address in global memory, and size
  uint32_t reads_ = 1;
  Lanes uses_{}, gives_{};  // of the running instruction: what its operands, and its results, depend on
  std::array<Lanes, 16> elements_{};  // of a load: what each element depends on besides
  std::array<uint32_t, 32> from_{};   // of a shfl: the lane that each lane reads
};

}  // namespace tileproof
