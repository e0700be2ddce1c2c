#include "fatbin.hpp"

#include <cctype>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>

#include "zstd.hpp"

namespace tileproof::record {
namespace {

constexpr std::uint32_t kWrapper = 0x466243B1, kContainer = 0xBA55ED50, kElf = 0x464C457F;
constexpr std::uint16_t kPtx = 1, kSass = 2;  // kinds of entries
constexpr std::uint64_t kLz4 = 0x2000, kZstd = 0x8000;

template <class T>
T load(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// An LZ4 block (no frame around it).
std::string lz4(std::span<const std::uint8_t> block) {
  std::string out;
  std::size_t at = 0;
  const auto next = [&]() -> std::size_t {
    if (at >= block.size()) throw std::runtime_error("an LZ4 block is damaged");
    return block[at++];
  };
  const auto length = [&](std::size_t nibble) {
    if (nibble == 15)
      for (std::size_t more = 255; more == 255; nibble += more) more = next();
    return nibble;
  };
  while (at < block.size()) {
    const std::size_t token = next(), fresh = length(token >> 4);
    if (at + fresh > block.size()) throw std::runtime_error("an LZ4 block is damaged");
    out.append(reinterpret_cast<const char*>(block.data()) + at, fresh);
    at += fresh;
    if (at == block.size()) break;
    const std::size_t low = next(), distance = low | next() << 8, copied = length(token & 15) + 4;
    if (!distance || distance > out.size()) throw std::runtime_error("an LZ4 block is damaged");
    for (std::size_t i = 0; i < copied; ++i) out.push_back(out[out.size() - distance]);
  }
  return out;
}

Image best(const std::uint8_t* container) {
  // Container: u32 magic, u16 version, u16 header bytes, u64 bytes of the entries that follow.
  const std::uint8_t* at = container + load<std::uint16_t>(container + 6);
  const std::uint8_t* end = at + load<std::uint64_t>(container + 8);
  Image out;
  int rank = -1;
  bool sass = false;
  std::string others;
  while (at < end) {
    // Entry: u16 kind, u16 version, u32 header bytes, u64 bytes, u32 packed bytes; at 40 u64 flags, at 56 u64
    // unpacked bytes.
    const auto kind = load<std::uint16_t>(at);
    const auto header = load<std::uint32_t>(at + 4);
    const auto bytes = load<std::uint64_t>(at + 8);
    if (!header) break;
    sass = sass || kind == kSass;
    if (kind == kPtx) {
      const auto flags = load<std::uint64_t>(at + 40);
      const auto packed = load<std::uint32_t>(at + 16);
      const std::span<const std::uint8_t> data(at + header, packed ? packed : bytes);
      std::string text = flags & kZstd ? zstd(data)
                         : flags & kLz4
                             ? lz4(data)
                             : std::string(reinterpret_cast<const char*>(data.data()), data.size());
      text.resize(std::strlen(text.c_str()));
      const int fits = fitness(text);
      if (fits > rank) {
        rank = fits;
        out.ptx = std::move(text);
      } else if (fits < 0) {
        const auto target = text.find(".target");
        others +=
            " " + (target == text.npos ? "?" : text.substr(target + 8, text.find('\n', target) - target - 8));
      }
    }
    at += header + bytes;
  }
  if (rank < 0)
    out.why = !others.empty() ? "its PTX is for" + others
              : sass          ? "it holds SASS and no PTX"
                              : "its fat binary is empty";
  return out;
}

}  // namespace

int fitness(const std::string& ptx) {
  const auto at = ptx.find(".target");
  if (at == std::string::npos) return -1;
  const auto name = ptx.find("sm_", at);
  if (name == std::string::npos || name > ptx.find('\n', at)) return -1;
  std::size_t end = name + 3;
  int number = 0;
  while (end < ptx.size() && std::isdigit(static_cast<unsigned char>(ptx[end])))
    number = 10 * number + (ptx[end++] - '0');
  const char suffix = end < ptx.size() ? ptx[end] : ' ';
  if (number > 100) return -1;
  if (suffix == 'a') return number == 100 ? 1002 : -1;
  if (suffix == 'f') return number == 100 ? 1001 : -1;
  return number == 100 ? 1000 : number;
}

Image image_of(const void* image) {
  if (!image) return {"", "the image is a null pointer"};
  const auto* bytes = static_cast<const std::uint8_t*>(image);
  const auto magic = load<std::uint32_t>(bytes);
  try {
    if (magic == kWrapper) return image_of(load<const void*>(bytes + 8));
    if (magic == kContainer) return best(bytes);
  } catch (const std::exception& error) {
    return {"", error.what()};
  }
  if (magic == kElf) return {"", "it holds SASS and no PTX"};
  std::string text = reinterpret_cast<const char*>(bytes);
  if (text.find(".version") == text.npos) return {"", "it is neither PTX nor a fat binary"};
  if (fitness(text) < 0) return {"", "its PTX is for another architecture"};
  return {std::move(text), ""};
}

}  // namespace tileproof::record
