// The handler registry: names as the Python decoder uses them.
#include <stdexcept>

#include "machine.hpp"
#include "slots/declared.hpp"

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

namespace {
void enter(const std::string& name, Handler handler) {
  if (!ids().emplace(name, static_cast<int32_t>(table().size())).second)
    throw std::logic_error("handler registered twice: " + name);
  table().push_back(handler);
}
}  // namespace

Registrar::Registrar(std::initializer_list<std::pair<const char*, Handler>> entries) {
  for (const auto& e : entries) enter(e.first, e.second);
}
GeneratedRegistrar::GeneratedRegistrar(const std::vector<std::pair<std::string, Handler>>& entries) {
  for (const auto& e : entries) enter(e.first, e.second);
}

const std::unordered_map<std::string, int32_t>& handler_ids() { return ids(); }
const std::vector<Handler>& handler_table() { return table(); }

uint8_t written_operands(Handler handler) {
  static const std::unordered_map<Handler, uint8_t> known = [] {
    std::unordered_map<std::string, uint8_t> declared;
    for (const slot::Declared& d : slot::kDeclared) declared[d.handler] = d.written;
    std::unordered_map<Handler, uint8_t> m;
    for (const auto& [name, id] : ids()) {  // as layout_of in emulator/slots.py
      auto found = declared.find(name);
      if (found == declared.end()) found = declared.find(name.substr(0, name.find('.')));
      if (found == declared.end()) found = declared.find("alu");
      m[table()[static_cast<size_t>(id)]] |= found->second;
    }
    return m;
  }();
  return known.at(handler);
}

int32_t branch_handler() { return ids().at("bra"); }

}  // namespace tileproof
