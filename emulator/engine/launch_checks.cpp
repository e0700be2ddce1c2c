// What is true of a whole launch: one .cta_group, every output written.
#include <algorithm>

#include "machine.hpp"

namespace tileproof {

// All tcgen05 instructions of a kernel must have one .cta_group (PTX ISA 9.7.16.7.1); ptxas 13 refuses
// others, older ones took them, and they ran.
void Engine::check_groups() {
  auto group = [&](const Instr& i) {
    const std::string& name = program.names[static_cast<size_t>(i.name)];
    return !name.starts_with("tcgen05.")            ? 0
           : name.find("cta_group::1") != name.npos ? 1
           : name.find("cta_group::2") != name.npos ? 2
                                                    : 0;
  };
  std::vector<int> of_name(program.names.size(), -1);
  int first = 0;
  for (const Instr& i : program.code) {
    int& known = of_name[static_cast<size_t>(i.name)];
    if (known >= 0) continue;
    known = group(i);
    if (!known || known == first) continue;
    if (first) {
      mixed_groups = true;
      warn("cta-group-mixed",
           "the kernel has tcgen05 instructions of cta_group::1 and of cta_group::2, which ptxas 13 refuses; "
           "a "
           "commit of either group does not cover the other",
           Origin{&i, {0, 0, 0}, -1, -1, -1});
      return;
    }
    first = known;
  }
}

void Engine::check_outputs() {
  std::string missing;
  uint64_t first_address = 0;
  for (const uint64_t address : config.outputs) {
    const GlobalBuffer* b = memory.find(address, 1);
    if (!b || !b->written) continue;
    const uint64_t left = static_cast<uint64_t>(std::count(b->written, b->written + b->size, 0));
    if (!left) continue;
    const uint64_t first = static_cast<uint64_t>(std::find(b->written, b->written + b->size, 0) - b->written);
    if (missing.empty()) first_address = b->address + first;
    missing += (missing.empty() ? "" : "; ") + b->name + ": " + std::to_string(left) + " of " +
               std::to_string(b->size) + " bytes, the first at offset " + std::to_string(first);
  }
  if (!missing.empty())
    error("output-unwritten", "outputs that the launch did not write: " + missing, Origin{}, first_address);
}

}  // namespace tileproof
