#include "mma_rules.hpp"

namespace tileproof {

MmaRules& mma_rules() {
  static MmaRules rules;
  return rules;
}

std::string DescriptorField::place() const {
  if (bits == 1) return "bit " + std::to_string(low);
  return "bits " + std::to_string(low) + "-" + std::to_string(low + bits - 1);
}

namespace {

std::string wrong_field(uint64_t word, const DescriptorField& f, bool used, const char* what) {
  const uint64_t value = f.value(word), codes = used ? f.codes : 1;
  if (!codes || (value < 64 && codes >> value & 1)) return "";
  std::string legal;
  for (int code = 0; code < 64; ++code)
    if (codes >> code & 1) legal += (legal.empty() ? "" : " or ") + std::to_string(code);
  return f.place() + " of the " + what + " (" + f.name + (used ? "" : ", without " + f.only) + ") " +
         (f.bits == 1 ? "is " : "are ") + std::to_string(value) + "; legal: " + legal;
}

template <class Used>
std::string judge(uint64_t word, const DescriptorRules& rules, const char* what, Used&& used) {
  for (const DescriptorField& f : rules.fields)
    if (std::string wrong = wrong_field(word, f, used(f), what); !wrong.empty()) return wrong;
  for (const DescriptorConflict& c : rules.conflicts)
    if (c.first_codes >> c.first.value(word) & 1 && c.second_codes >> c.second.value(word) & 1)
      return c.why + " (" + c.first.place() + " and " + c.second.place() + " of the " + what + ")";
  return "";
}

}  // namespace

std::string wrong_instruction(uint32_t word, const MmaForm& form) {
  return judge(word, mma_rules().formats.at(static_cast<size_t>(form.format)).instruction,
               "instruction descriptor", [&](const DescriptorField& f) {
                 if (f.only.empty()) return true;
                 return f.only == ".ws" ? form.ws : f.only == ".sp" ? form.sparse : !form.a_in_tmem;
               });
}

std::string wrong_matrix(uint64_t word, bool transposed_tf32) {
  return judge(word, mma_rules().matrix[transposed_tf32], "shared-memory descriptor",
               [](const DescriptorField&) { return true; });
}

std::string wrong_shape(int m, int n, const MmaForm& form, bool b_transposed) {
  for (const ShapeRule& s : mma_rules().shapes)
    if (s.format == form.format && s.cta_group == form.cta_group && s.ws == form.ws &&
        s.a_in_tmem == form.a_in_tmem && s.b_transposed == b_transposed && s.m == m && n % 8 == 0 &&
        n / 8 < 64 && s.ns >> (n / 8) & 1)
      return "";
  return "illegal shape M=" + std::to_string(m) + " N=" + std::to_string(n) +
         " for kind::" + mma_rules().formats.at(static_cast<size_t>(form.format)).name +
         (form.ws ? " with .ws" : " with cta_group::" + std::to_string(form.cta_group)) +
         (b_transposed ? " and a transposed B" : "");
}

}  // namespace tileproof
