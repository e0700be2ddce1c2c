#include "zstd.hpp"

#include <array>
#include <bit>
#include <stdexcept>
#include <vector>

#include "zstd_tables.hpp"

namespace tileproof::record {
namespace {

using Bytes = std::span<const std::uint8_t>;

void require(bool holds) {
  if (!holds) throw std::runtime_error("a Zstandard frame is damaged");
}

int log2_of(std::uint64_t value) { return std::bit_width(value) - 1; }

std::uint64_t little(Bytes bytes, std::size_t at, std::size_t count) {
  require(at + count <= bytes.size());
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value |= std::uint64_t{bytes[at + i]} << (8 * i);
  return value;
}

// Bits from the first byte on, least significant first (RFC 8878, 4.1.1).
class Forward {
 public:
  explicit Forward(Bytes bytes) : bytes_(bytes) {}
  std::uint32_t read(int count) {
    std::uint32_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      require(at_ / 8 < bytes_.size());
      value |= (bytes_[at_ / 8] >> (at_ % 8) & 1u) << i;
    }
    return value;
  }
  void back(int count) { at_ -= static_cast<std::size_t>(count); }
  std::size_t used() const { return (at_ + 7) / 8; }

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

// Bits from the last byte back, behind its highest set bit; zeros before the first byte.
class Backward {
 public:
  explicit Backward(Bytes bytes) : bytes_(bytes) {
    require(!bytes.empty() && bytes.back());
    left_ = static_cast<std::int64_t>(8 * (bytes.size() - 1)) + log2_of(bytes.back());
  }
  std::uint64_t peek(int count) const {
    std::uint64_t value = 0;
    const std::int64_t from = left_ - count;
    for (std::int64_t byte = from < 0 ? 0 : from / 8; byte < static_cast<std::int64_t>(bytes_.size());
         ++byte) {
      const std::int64_t shift = 8 * byte - from;
      if (shift >= count) break;
      const std::uint64_t one = bytes_[static_cast<std::size_t>(byte)];
      value |= shift >= 0 ? one << shift : one >> -shift;
    }
    return count ? value & (~std::uint64_t{0} >> (64 - count)) : 0;
  }
  std::uint64_t read(int count) {
    const auto value = peek(count);
    left_ -= count;
    return value;
  }
  void skip(int count) { left_ -= count; }
  std::int64_t left() const { return left_; }

 private:
  Bytes bytes_;
  std::int64_t left_;
};

struct State {
  std::uint8_t symbol = 0, bits = 0;
  std::uint16_t base = 0;
};

struct Fse {
  int accuracy = -1;
  std::vector<State> states;
};

Fse fse_of(int accuracy, std::span<const std::int16_t> shares) {
  Fse table{accuracy, std::vector<State>(std::size_t{1} << accuracy)};
  const auto size = static_cast<std::uint32_t>(table.states.size());
  std::vector<std::uint32_t> next(shares.size());
  std::uint32_t high = size;
  for (std::size_t s = 0; s < shares.size(); ++s)
    if (shares[s] == -1) {
      table.states[--high].symbol = static_cast<std::uint8_t>(s);
      next[s] = 1;
    }
  const std::uint32_t step = (size >> 1) + (size >> 3) + 3;
  std::uint32_t at = 0;
  for (std::size_t s = 0; s < shares.size(); ++s) {
    if (shares[s] <= 0) continue;
    next[s] = static_cast<std::uint32_t>(shares[s]);
    for (int i = 0; i < shares[s]; ++i) {
      table.states[at].symbol = static_cast<std::uint8_t>(s);
      do at = (at + step) & (size - 1);
      while (at >= high);
    }
  }
  require(at == 0);
  for (auto& state : table.states) {
    const std::uint32_t one = next[state.symbol]++;
    state.bits = static_cast<std::uint8_t>(accuracy - log2_of(one));
    state.base = static_cast<std::uint16_t>((one << state.bits) - size);
  }
  return table;
}

// A table's description (4.1.1); `used` becomes its bytes.
Fse read_fse(Bytes bytes, int most, std::size_t& used) {
  Forward bits(bytes);
  const int accuracy = static_cast<int>(bits.read(4)) + 5;
  require(accuracy <= most);
  std::int32_t remaining = 1 << accuracy;
  std::vector<std::int16_t> shares;
  while (remaining > 0) {
    const int width = log2_of(static_cast<std::uint64_t>(remaining) + 1) + 1;
    auto value = static_cast<std::int32_t>(bits.read(width));
    const std::int32_t low = (1 << (width - 1)) - 1, spare = (1 << width) - 1 - (remaining + 1);
    if ((value & low) < spare) {
      bits.back(1);
      value &= low;
    } else if (value > low) {
      value -= spare;
    }
    const auto share = static_cast<std::int16_t>(value - 1);
    remaining -= share < 0 ? -share : share;
    shares.push_back(share);
    if (!share)
      for (std::uint32_t zeros = 3; zeros == 3;) {
        zeros = bits.read(2);
        shares.insert(shares.end(), zeros, std::int16_t{0});
      }
    require(shares.size() <= 256);
  }
  require(remaining == 0);
  used = bits.used();
  return fse_of(accuracy, shares);
}

struct Huffman {
  int bits = 0;
  struct Code {
    std::uint8_t symbol = 0, bits = 0;
  };
  std::vector<Code> codes;
};

Huffman huffman_of(std::vector<std::uint8_t> weights) {
  std::uint64_t total = 0;
  for (const auto w : weights) total += w ? std::uint64_t{1} << (w - 1) : 0;
  require(total);
  Huffman table;
  table.bits = log2_of(total) + 1;
  require(table.bits <= 11);
  const std::uint64_t rest = (std::uint64_t{1} << table.bits) - total;
  require(std::has_single_bit(rest));
  weights.push_back(static_cast<std::uint8_t>(log2_of(rest) + 1));
  require(weights.size() <= 256);
  for (int w = 1; w <= table.bits; ++w)
    for (std::size_t s = 0; s < weights.size(); ++s)
      if (weights[s] == w)
        table.codes.insert(table.codes.end(), std::size_t{1} << (w - 1),
                           {static_cast<std::uint8_t>(s), static_cast<std::uint8_t>(table.bits + 1 - w)});
  require(table.codes.size() == std::size_t{1} << table.bits);
  return table;
}

// A tree's description (4.2.1); `used` becomes its bytes.
Huffman read_huffman(Bytes bytes, std::size_t& used) {
  const auto header = static_cast<std::size_t>(little(bytes, 0, 1));
  std::vector<std::uint8_t> weights;
  if (header >= 128) {
    const std::size_t count = header - 127;
    used = 1 + (count + 1) / 2;
    require(used <= bytes.size());
    for (std::size_t i = 0; i < count; ++i) weights.push_back(bytes[1 + i / 2] >> (i % 2 ? 0 : 4) & 15);
    return huffman_of(std::move(weights));
  }
  used = 1 + header;
  require(used <= bytes.size());
  std::size_t description = 0;
  const auto table = read_fse(bytes.subspan(1, header), 6, description);
  require(description < header);
  Backward bits(bytes.subspan(1 + description, header - description));
  State states[2];
  for (auto& state : states) state = table.states[bits.read(table.accuracy)];
  for (int turn = 0;; turn ^= 1) {
    require(weights.size() < 255);
    weights.push_back(states[turn].symbol);
    const auto one = bits.read(states[turn].bits);
    if (bits.left() < 0) {
      weights.push_back(states[turn ^ 1].symbol);
      return huffman_of(std::move(weights));
    }
    states[turn] = table.states.at(states[turn].base + one);
  }
}

void read_stream(const Huffman& table, Bytes bytes, std::size_t count, std::vector<std::uint8_t>& out) {
  Backward bits(bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& code = table.codes[bits.peek(table.bits)];
    out.push_back(code.symbol);
    bits.skip(code.bits);
  }
  require(bits.left() == 0);
}

Length literal_length(unsigned code) {
  require(code < 36);
  return code < 16 ? Length{code, 0} : kLiteralTail[code - 16];
}
Length match_length(unsigned code) {
  require(code < 53);
  return code < 32 ? Length{code + 3, 0} : kMatchTail[code - 32];
}

class Frame {
 public:
  std::string run(Bytes bytes) {
    require(little(bytes, 0, 4) == 0xFD2FB528);
    const auto flags = little(bytes, 4, 1);
    require(!(flags & 8));
    const bool single = flags >> 5 & 1;
    constexpr std::size_t kDictionary[] = {0, 1, 2, 4}, kContent[] = {0, 2, 4, 8};
    std::size_t at = 5 + (single ? 0 : 1);
    require(!little(bytes, at, kDictionary[flags & 3]));
    at += kDictionary[flags & 3];
    at += flags >> 6 ? kContent[flags >> 6] : single;
    for (bool last = false; !last;) {
      const auto header = little(bytes, at, 3);
      at += 3;
      last = header & 1;
      const auto size = static_cast<std::size_t>(header >> 3);
      const auto kind = header >> 1 & 3;
      const std::size_t stored = kind == 1 ? 1 : size;
      require(kind != 3 && at + stored <= bytes.size());
      if (kind == 0)
        out_.append(reinterpret_cast<const char*>(bytes.data()) + at, size);
      else if (kind == 1)
        out_.append(size, static_cast<char>(bytes[at]));
      else
        block(bytes.subspan(at, size));
      at += stored;
    }
    return std::move(out_);
  }

 private:
  void block(Bytes bytes) {
    std::size_t at = literals(bytes);
    std::size_t count = little(bytes, at, 1);
    ++at;
    if (count >= 255) {
      count = little(bytes, at, 2) + 0x7F00;
      at += 2;
    } else if (count >= 128) {
      count = ((count - 128) << 8) + little(bytes, at, 1);
      ++at;
    }
    std::size_t taken = 0;
    if (count) {
      const auto modes = little(bytes, at, 1);
      ++at;
      table(bytes, at, modes >> 6 & 3, 9, 6, kLiterals, lengths_);
      table(bytes, at, modes >> 4 & 3, 8, 5, kOffsets, offsets_);
      table(bytes, at, modes >> 2 & 3, 9, 6, kMatches, matches_);
      taken = sequences(bytes.subspan(at), count);
    }
    out_.append(reinterpret_cast<const char*>(literals_.data()) + taken, literals_.size() - taken);
  }

  // The literals section (3.1.1.3.1); its bytes.
  std::size_t literals(Bytes bytes) {
    const auto first = little(bytes, 0, 1);
    const auto kind = first & 3, format = first >> 2 & 3;
    literals_.clear();
    if (kind < 2) {
      const std::size_t header = format == 3 ? 3 : format == 1 ? 2 : 1;
      const auto size = static_cast<std::size_t>(little(bytes, 0, header) >> (header == 1 ? 3 : 4));
      const std::size_t stored = kind == 1 ? 1 : size;
      require(header + stored <= bytes.size());
      if (kind == 1)
        literals_.assign(size, bytes[header]);
      else
        literals_.assign(bytes.begin() + header, bytes.begin() + header + stored);
      return header + stored;
    }
    const std::size_t header = format == 3 ? 5 : format == 2 ? 4 : 3;
    const int width = format == 3 ? 18 : format == 2 ? 14 : 10;
    const auto sizes = little(bytes, 0, header) >> 4;
    const auto size = static_cast<std::size_t>(sizes & ((1u << width) - 1));
    const auto packed = static_cast<std::size_t>(sizes >> width & ((1u << width) - 1));
    require(header + packed <= bytes.size());
    auto rest = bytes.subspan(header, packed);
    if (kind == 2) {
      std::size_t used = 0;
      tree_ = read_huffman(rest, used);
      rest = rest.subspan(used);
    }
    require(tree_.bits);
    if (!format) {
      read_stream(tree_, rest, size, literals_);
    } else {
      std::size_t from = 6;
      for (int i = 0; i < 4; ++i) {
        require(from <= rest.size());
        const std::size_t length = i < 3 ? little(rest, 2 * i, 2) : rest.size() - from;
        require(from + length <= rest.size());
        const std::size_t share = (size + 3) / 4;
        require(i < 3 || size >= literals_.size());
        read_stream(tree_, rest.subspan(from, length), i < 3 ? share : size - literals_.size(), literals_);
        from += length;
      }
    }
    return header + packed;
  }

  static void table(Bytes bytes, std::size_t& at, std::uint64_t mode, int most, int accuracy,
                    std::span<const std::int16_t> shares, Fse& out) {
    if (mode == 0) {
      out = fse_of(accuracy, shares);
    } else if (mode == 1) {
      out = {0, {State{static_cast<std::uint8_t>(little(bytes, at, 1)), 0, 0}}};
      ++at;
    } else if (mode == 2) {
      std::size_t used = 0;
      require(at <= bytes.size());
      out = read_fse(bytes.subspan(at), most, used);
      at += used;
    }
    require(out.accuracy >= 0);
  }

  // Executes the sequences (3.1.1.4, 3.1.1.5); how many literals they took.
  std::size_t sequences(Bytes bytes, std::size_t count) {
    Backward bits(bytes);
    auto length = lengths_.states[bits.read(lengths_.accuracy)];
    auto offset = offsets_.states[bits.read(offsets_.accuracy)];
    auto match = matches_.states[bits.read(matches_.accuracy)];
    std::size_t taken = 0;
    for (std::size_t i = 0; i < count; ++i) {
      require(offset.symbol < 32);
      const auto value = (std::uint64_t{1} << offset.symbol) + bits.read(offset.symbol);
      const auto m = match_length(match.symbol), l = literal_length(length.symbol);
      const std::size_t copied = m.base + bits.read(static_cast<int>(m.bits));
      const std::size_t fresh = l.base + bits.read(static_cast<int>(l.bits));
      require(bits.left() >= 0 && taken + fresh <= literals_.size());
      out_.append(reinterpret_cast<const char*>(literals_.data()) + taken, fresh);
      taken += fresh;
      const auto distance = static_cast<std::size_t>(recent(value, fresh == 0));
      require(distance && distance <= out_.size());
      for (std::size_t k = 0; k < copied; ++k) out_.push_back(out_[out_.size() - distance]);
      if (i + 1 == count) break;
      length = lengths_.states[length.base + bits.read(length.bits)];
      match = matches_.states[match.base + bits.read(match.bits)];
      offset = offsets_.states[offset.base + bits.read(offset.bits)];
    }
    require(bits.left() == 0);
    return taken;
  }

  // The distance that an offset value means, with the last three.
  std::uint64_t recent(std::uint64_t value, bool no_literals) {
    std::uint64_t distance;
    std::size_t from = 2;
    if (value > 3) {
      distance = value - 3;
    } else {
      const std::size_t which = static_cast<std::size_t>(value) - 1 + no_literals;
      distance = which == 3 ? recent_[0] - 1 : recent_[which];
      from = which == 3 ? 2 : which;
    }
    for (; from > 0; --from) recent_[from] = recent_[from - 1];
    recent_[0] = distance;
    return distance;
  }

  std::string out_;
  std::vector<std::uint8_t> literals_;
  Huffman tree_;
  Fse lengths_, offsets_, matches_;
  std::array<std::uint64_t, 3> recent_ = {1, 4, 8};
};

}  // namespace

std::string zstd(Bytes frame) { return Frame().run(frame); }

}  // namespace tileproof::record
