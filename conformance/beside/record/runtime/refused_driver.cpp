#include <array>
#include <utility>

#include "runtime.hpp"

namespace tileproof::record {
namespace {

// What to do instead, by a part of the name; the first that is in it counts.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kInstead = {{
    {"Graph",
     "this part of graphs is not recorded: capture the work from streams, or launch it without a graph"},
    {"Capture",
     "this part of graphs is not recorded: capture the work from streams, or launch it without a graph"},
    {"Array", "CUDA arrays are not recorded: use linear memory"},
    {"Texture", "textures are not recorded: use linear memory"},
    {"TexRef", "textures are not recorded: use linear memory"},
    {"TexObject", "textures are not recorded: use linear memory"},
    {"Surf", "surfaces are not recorded: use linear memory"},
    {"Mipmapped", "CUDA arrays are not recorded: use linear memory"},
    {"Link", "linking while the program runs is not recorded: load PTX"},
    {"Multicast", "memory of several devices is not recorded: there is one"},
    {"Peer", "there is one device"},
    {"Ipc", "memory of other processes is not recorded"},
}};

}  // namespace

void not_recorded(std::string_view name) {
  for (const auto& [part, instead] : kInstead)
    if (name.find(part) != name.npos) refuse(name, instead);
  refuse(name, "this function is not recorded");
}

}  // namespace tileproof::record

#define X(name) \
  TILEPROOF_API void name() { tileproof::record::not_recorded(#name); }
#include "refused_driver.inc"
