#include "register_record.hpp"

#include <algorithm>
#include <cstring>

#include "machine.hpp"

namespace tileproof {

RegisterRecord::RegisterRecord(const Program& program, const std::vector<uint32_t>& instructions,
                               uint64_t words)
    : results(instructions.size()), program_(program), position_(program.code.size(), -1), room_(words) {
  for (size_t k = 0; k < instructions.size(); ++k) {
    const Instr& i = program.code[instructions[k]];
    position_[instructions[k]] = static_cast<int32_t>(k);
    auto& to = results[k].registers;
    const auto take = [&](int32_t offset) {
      if (offset >= 0 && program.register_widths[static_cast<size_t>(offset) / 64] == 4) to.push_back(offset);
    };
    for (int slot = 0; slot < 8; ++slot)
      if (i.written & (1 << slot)) take(i.o[slot]);
    for (int at = i.vec_from; at < i.vec_end; ++at) take(program.vec[static_cast<size_t>(i.vec + at)]);
  }
}

void RegisterRecord::add(const Exec& x, const Instr& i) {
  Results& to = results[static_cast<size_t>(position_[static_cast<size_t>(&i - program_.code.data())])];
  const uint64_t words = 3 + kWarpSize * to.registers.size();
  if (words > room_) {
    ++dropped;
    return;
  }
  room_ -= words;
  const Dim3 cta = x.cta.id, grid = x.e.config.grid;
  to.words.push_back(cta.x + grid.x * (cta.y + grid.y * cta.z));
  to.words.push_back(static_cast<uint32_t>(x.w.index));
  to.words.push_back(x.mask);
  for (const int32_t offset : to.registers) {
    const size_t begin = to.words.size();
    to.words.resize(begin + kWarpSize);
    std::memcpy(&to.words[begin], x.regs + offset, kWarpSize * sizeof(uint32_t));
  }
}

}  // namespace tileproof
