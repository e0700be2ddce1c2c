#include "reductions.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "change.hpp"
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

bool floats(AtomicType t) { return t >= AtomicType::F32 && t <= AtomicType::Bf16x2; }
}  // namespace

std::string reduction_kind(const Program& program, const Instr& i, const Change* by) {
  const std::vector<std::string> words = words_of(program.names[static_cast<size_t>(i.name)]);
  if (words[0] == "atom" && i.o[slot::atom::dst] != INT32_MIN) return "";
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  const char* operation = nullptr;
  for (const char* one : {"add", "min", "max", "and", "or", "xor"})
    if (has(one)) operation = one;
  if (!operation) return "";
  std::string type = has("tensor") ? "tensor" : words.back();
  if (type.ends_with("x2")) type.resize(type.size() - 2);
  if (by && has("tensor"))
    type = (floats(by->type) ? "f-tensor" : "tensor-") + std::to_string(static_cast<int>(by->type));
  return operation + ("." + type);
}

bool rounds(const std::string& kind) {
  if (!kind.starts_with("add.")) return false;
  const std::string type = kind.substr(4);
  return type == "tensor" || type[0] == 'f' || (type[0] == 'b' && !type.starts_with("b8"));
}

}  // namespace tileproof
