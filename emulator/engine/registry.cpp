// The handler registry: names as the Python decoder uses them.
#include <stdexcept>

#include "machine.hpp"

namespace tileproof {
namespace {
std::unordered_map<std::string, int32_t>& ids() {
  static std::unordered_map<std::string, int32_t> m;
  return m;
}
std::vector<Handler>& table() {
  static std::vector<Handler> t;
  return t;
}
}  // namespace

Registrar::Registrar(std::initializer_list<std::pair<const char*, Handler>> entries) {
  for (const auto& e : entries) {
    if (!ids().emplace(e.first, static_cast<int32_t>(table().size())).second)
      throw std::logic_error(std::string("handler registered twice: ") + e.first);
    table().push_back(e.second);
  }
}

const std::unordered_map<std::string, int32_t>& handler_ids() { return ids(); }
const std::vector<Handler>& handler_table() { return table(); }
int32_t branch_handler() { return ids().at("bra"); }

}  // namespace tileproof
