// Which instruction moves values, computes with them, stores them, or depends on them.
#include "flow.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "machine.hpp"
#include "slots/alu.hpp"
#include "slots/arithmetic.hpp"
#include "slots/bits.hpp"
#include "slots/declared.hpp"
#include "slots/sync.hpp"

namespace tileproof {

namespace {
constexpr uint8_t bit(int operand) { return static_cast<uint8_t>(1u << operand); }

Rule rule_named(const std::string& name) {
  namespace a = slot::alu;
  static const std::map<std::string, Rule> rules{
      {"ld", {Flow::Load}},
      {"st", {Flow::Store}},
      {"ldmatrix", {Flow::Matrix}},
      {"stmatrix", {Flow::Matrix}},
      {"tcgen05.st", {Flow::Matrix}},
      {"wgmma.mma_async", {Flow::Matrix}},
      {"mov", {Flow::Move}},
      {"mov.pack", {Flow::Move}},
      {"mov.unpack", {Flow::Move}},
      {"and", {Flow::Move}},
      {"or", {Flow::Move}},
      {"not", {Flow::Move}},
      {"brev", {Flow::Move}},
      {"xor", {Flow::MoveOne}},
      {"lop3", {Flow::MoveOne}},
      {"selp", {Flow::Move, bit(a::c)}},
      {"shl", {Flow::Move, bit(a::b)}},
      {"shr", {Flow::Move, bit(a::b)}},
      {"shf", {Flow::Move, bit(a::c)}},
      {"bfe", {Flow::Move, bit(a::b) | bit(a::c)}},
      {"bfi", {Flow::Move, bit(a::c) | bit(a::d)}},
      {"prmt.b32", {Flow::Move, bit(a::c)}},
      {"prmt.mode", {Flow::Move, bit(slot::prmt_mode::c)}},
      {"setp", {Flow::Compare}},
      {"half", {Flow::Pieces}},
      {"dp", {Flow::Compute}},
      {"convert", {Flow::Compute}},
      {"cvt.pack", {Flow::Compute}},
      {"brx.case", {Flow::Compute}},
      {"space.test", {Flow::Compute}},
      {"carry", {Flow::Carry}},
      {"shfl", {Flow::WarpMove, bit(slot::shfl::b) | bit(slot::shfl::c) | bit(slot::shfl::mask)}},
      {"vote", {Flow::WarpMove, bit(slot::vote::mask)}},
      {"movmatrix", {Flow::WarpMove}},
      {"redux", {Flow::WarpCompute}},
      {"match", {Flow::WarpCompute}},
      {"mma.sync", {Flow::Products}},
      {"bra", {}},
      {"ret", {}},
      {"trap", {}},
      {"nop", {}},
      {"activemask", {}},
  };
  const std::string first = name.substr(0, name.find('.'));
  if (name.starts_with("cvt.") && std::count(name.begin(), name.end(), '.') == 2 && name != "cvt.pack") {
    const std::string to = name.substr(4, name.rfind('.') - 4), from = name.substr(name.rfind('.') + 1);
    if ((to[0] == 's' || to[0] == 'u') && (from[0] == 's' || from[0] == 'u')) return {Flow::Move};
    return {Flow::Compute};
  }
  for (const std::string& key : {name, first})
    if (const auto it = rules.find(key); it != rules.end()) {
      return it->second;
    }
  if (name.ends_with(".f32x2")) return {Flow::Pieces, 0, 4};
  if (name.ends_with("16x2")) return {Flow::Pieces, 0, 2};
  for (const slot::Declared& d : slot::kDeclared)
    if (d.handler == name || d.handler == first) return {first == "cvt" ? Flow::Compute : Flow::Depends};
  return {Flow::Compute};  // the layout of arithmetic
}

}  // namespace

Rule rule_of(Handler fn) {
  static const auto known = [] {
    std::unordered_map<Handler, Rule> m;
    for (const auto& [name, id] : handler_ids()) {
      const Rule rule = rule_named(name);
      const auto [it, fresh] = m.try_emplace(handler_table()[static_cast<size_t>(id)], rule);
      if (!fresh && it->second.flow != rule.flow) it->second = {Flow::Compute};  // a function with two names
    }
    return m;
  }();
  return known.at(fn);
}

}  // namespace tileproof
