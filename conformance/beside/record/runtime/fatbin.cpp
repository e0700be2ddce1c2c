#include "fatbin.hpp"

#include <cstdint>
#include <cstring>

namespace tileproof::record {
namespace {

constexpr std::uint32_t kWrapper = 0x466243B1, kContainer = 0xBA55ED50, kElf = 0x464C457F;

template <class T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

Bytes extent(const void* image) {
  if (!image) return {};
  const auto* bytes = static_cast<const char*>(image);
  switch (load<std::uint32_t>(bytes)) {
    case kWrapper:
      return extent(load<const void*>(bytes + 8));
    case kContainer:  // u32 magic, u16 version, u16 header bytes, u64 bytes of the entries that follow
      return {bytes, load<std::uint16_t>(bytes + 6) + load<std::uint64_t>(bytes + 8)};
    case kElf:
      return {bytes, sizeof kElf};
    default:
      return {bytes, std::strlen(bytes)};
  }
}

}  // namespace tileproof::record
