// Which descriptors and shapes of tcgen05.mma are legal: the table of spec/machine/descriptor_rules.py,
// handed over when the emulator is imported. The engine holds no rule of its own.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "enumerations/tcgen05_mma.hpp"

namespace tileproof {

constexpr int kFormats = static_cast<int>(std::size(kFormatWords));

struct DescriptorField {
  std::string name;
  int low = 0, bits = 0;
  uint64_t codes = 0;  // legal ones; 0: any
  std::string only;    // the form without which it must be 0
  uint64_t value(uint64_t word) const { return word >> low & ((1ull << bits) - 1); }
  std::string place() const;
};

struct DescriptorConflict {
  DescriptorField first, second;
  uint64_t first_codes = 0, second_codes = 0;
  std::string why;
};

struct DescriptorRules {
  std::vector<DescriptorField> fields;
  std::vector<DescriptorConflict> conflicts;
};

struct FormatRules {
  std::string name;
  int k = 0, scales = 0;
  DescriptorRules instruction;
};

struct ShapeRule {
  Format format;
  int cta_group;
  bool ws, a_in_tmem, b_transposed;
  int m;
  uint64_t ns;  // bit n / 8
};

struct MmaRules {
  std::vector<FormatRules> formats;
  std::array<DescriptorRules, 2> matrix;  // plain; of a transposed tf32 operand
  std::vector<ShapeRule> shapes;
};
// The one table; filled by the front end.
MmaRules& mma_rules();

struct MmaForm {
  Format format = Format::F16;
  int cta_group = 1;
  bool ws = false, sparse = false, a_in_tmem = false;
};

// What is wrong, in the words of spec/machine/descriptor_rules.py; empty: nothing.
std::string wrong_instruction(uint32_t word, const MmaForm& form);
std::string wrong_matrix(uint64_t word, bool transposed_tf32);
std::string wrong_shape(int m, int n, const MmaForm& form, bool b_transposed);

}  // namespace tileproof
