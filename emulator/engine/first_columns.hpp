// The first column of an allocation of tensor memory, followed through registers and shared memory: the
// certificate of a launch holds for every first column when only addresses of tensor memory depend on it,
// each by an offset that is the same for all (docs/certificate.md).
//
// A register "moves" with an allocation when it holds the first column plus something that does not depend on
// it. Instructions whose registers have ever done so are marked in Engine::executed, and the interpreter
// hands them to `run`; the others run as ever.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "program.hpp"

namespace tileproof {

class Engine;
struct Cta;
struct Exec;
struct Origin;
struct Warp;

class FirstColumns {
 public:
  // `doubt` takes what else depends on a first column: the instruction, and how.
  using Doubt = std::function<void(const Origin& at, const std::string& text)>;

  FirstColumns(Engine& engine, Doubt doubt);
  // Whether the kernel allocates tensor memory or uses it.
  static bool wanted(const Program& program);
  // A CTA begins, perhaps in the place of another.
  void start(const Cta& cta);
  // The running tcgen05.alloc has written its first column to `offset`; `fixed`: no other is possible.
  void allocated(const Exec& x, uint32_t offset, int base, int columns, int serial, bool fixed);
  // Runs a marked instruction, by `execute`.
  Step run(Exec& x, const std::function<Step()>& execute);
  // An access to shared memory: of a lane of the running instruction, and of an asynchronous operation.
  void shared(const Exec& x, const Cta& cta, uint32_t offset, uint32_t size, int lane, bool write) {
    if (near(offset, size) || storing_) touch(x, cta, offset, size, lane, write);
  }
  void copied(const Cta& cta, uint32_t offset, uint32_t size, bool write, const Origin& at) {
    if (near(offset, size)) touch_copied(cta, offset, size, write, at);
  }

  // Whether a first column may be in these bytes of shared memory.
  bool near(uint32_t offset, uint32_t size) const { return offset < end_ && offset + size > begin_; }

 private:
  using Id = uint32_t;  // of an allocation, 0: none
  using Lanes = std::array<Id, 32>;
  using Bytes = std::vector<uint8_t>;
  struct Allocation {
    const Cta* cta;
    int base, columns, serial;
    bool fixed;
  };
  struct Word {
    uint32_t offset;
    Id id;
  };
  struct Operand {
    int32_t offset;
    int number;  // -1: in vec
    Lanes moves;
    Bytes before;  // what the register held

    bool moves_in(uint32_t lanes) const;
  };
  using Operands = std::vector<Operand>;

  void touch(const Exec& x, const Cta& cta, uint32_t offset, uint32_t size, int lane, bool write);
  void touch_copied(const Cta& cta, uint32_t offset, uint32_t size, bool write, const Origin& at);
  void keep(const Cta& cta, uint32_t offset, Id id);
  bool forget(const Cta& cta, uint32_t offset, uint32_t size);
  Lanes* lanes(const Warp& w, int32_t offset);
  void set(const Warp& w, int32_t offset, int lane, Id id);
  void mark(int32_t offset);
  void clear_results(const Exec& x);
  Operands operands(const Exec& x);
  const char* wrong_address(const Exec& x, int32_t operand);
  bool crossed(const Exec& x) const;
  void compute(Exec& x, const Operands& in, const std::array<uint32_t, 32>& from);
  void replay(Exec& x, const Operands& in);
  size_t bytes(int32_t offset) const;
  void open(const Exec& x, const char* how);

  Engine& e_;
  Doubt doubt_;
  std::vector<Allocation> allocations_;                    // by id - 1
  std::unordered_map<const Cta*, std::vector<Id>> given_;  // by serial - 1
  std::unordered_map<const Warp*, std::unordered_map<int32_t, Lanes>> registers_;
  std::unordered_map<const Cta*, std::vector<Word>> words_;
  uint32_t begin_ = UINT32_MAX, end_ = 0;               // all words are in here
  std::vector<std::vector<uint32_t>> touches_;          // instructions by register, by offset / 64
  std::vector<bool> marked_;                            // registers, by offset / 64
  std::vector<std::pair<int32_t, Bytes>> overwritten_;  // results of the running instruction, before it
  bool storing_ = false;                                // a marked st runs
  uint32_t stored_ = 0;                                 // its lanes whose values went to a word
};

}  // namespace tileproof
