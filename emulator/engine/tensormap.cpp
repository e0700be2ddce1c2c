// The fields of a tensor map, checked where a copy uses it, by the rules of cuTensorMapEncodeTiled and
// cuTensorMapEncodeIm2col (CUDA driver API; spec/machine/tma.py). A kernel may write any 128 bytes.
#include "tensormap.hpp"

#include <algorithm>

#include "limits.hpp"

namespace tileproof {
namespace {

constexpr uint64_t kMostAddress = uint64_t{1} << 57, kMostStride = uint64_t{1} << 40;
// Bytes of an element, by CUtensorMapDataType; packed types are kept in bytes.
constexpr uint8_t kElementSize[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1};

struct Check {
  std::string wrong;
  bool operator()(bool right, const std::string& field, const std::string& found,
                  const std::string& expected) {
    if (!right && wrong.empty()) wrong = field + " is " + found + "; expected: " + expected;
    return right;
  }
};

std::string at(const char* name, size_t d) { return std::string(name) + "[" + std::to_string(d) + "]"; }

void check_corners(Check& check, const EncodedTensorMap& m) {
  const int64_t limit = m.rank == 3 ? 1 << 15 : m.rank == 4 ? 1 << 7 : 1 << 4;
  const std::string range = std::to_string(-limit) + ".." + std::to_string(limit - 1);
  for (size_t k = 0; k < static_cast<size_t>(m.rank - 2); ++k) {
    check(m.lower[k] >= -limit && m.lower[k] < limit, at("lower", k), std::to_string(m.lower[k]), range);
    check(m.upper[k] >= -limit && m.upper[k] < limit, at("upper", k), std::to_string(m.upper[k]), range);
    const int64_t last = int64_t{m.shape_minus_1[k + 1]} + m.upper[k];
    check(m.lower[k] <= last, at("lower", k), std::to_string(m.lower[k]),
          "at most " + std::to_string(last) + ": the pixel box is not empty");
    check(last < int64_t{1} << 31, at("globalDim", k + 1), std::to_string(last + 1 - m.upper[k]),
          "a pixel box that ends below 2^31");
  }
}

// Types of 4 and 6 bits; extents are in bytes of global memory.
void check_packed(Check& check, const EncodedTensorMap& m) {
  if (m.dtype == 13) return;  // its rows are those of bytes
  const uint64_t row = m.dtype == 14 ? 64 : 96;
  check(m.address % 32 == 0, "globalAddress", std::to_string(m.address), "a multiple of 32 for padded types");
  for (size_t k = 0; k + 1 < m.rank; ++k)
    check(m.stride[k] % 32 == 0, at("globalStrides", k), std::to_string(m.stride[k]),
          "a multiple of 32 for padded types");
  const uint64_t extent = uint64_t{m.shape_minus_1[0]} + 1;
  check(extent % row == 0, "globalDim[0]", std::to_string(extent) + " bytes",
        "a multiple of 128 elements for padded types");
  check(m.box[0] == row, "boxDim[0]", std::to_string(m.box[0]) + " bytes", "128 elements for padded types");
  const int swizzle = m.swizzle == 3 ? 3 + m.atomicity : m.swizzle;
  check(swizzle == 0 || swizzle == 3 || swizzle == 4 || swizzle == 6, "swizzle", std::to_string(swizzle),
        "none, 128B, 128B_ATOM_32B or 128B_ATOM_64B for padded types");
}

}  // namespace

std::string wrong_tensor_map(const EncodedTensorMap& m) {
  Check check;
  auto number = [](uint64_t v) { return std::to_string(v); };
  const bool im2col = m.mode == 1;
  if (!check(m.dtype < std::size(kElementSize), "tensorDataType", number(m.dtype), "0..15") ||
      !check(m.element_size == kElementSize[m.dtype], "the element size", number(m.element_size),
             number(kElementSize[m.dtype]) + " for CUtensorMapDataType " + number(m.dtype)) ||
      !check(m.mode <= 1, "the mode", number(m.mode), "0 (tiled) or 1 (im2col)") ||
      !check(m.rank >= (im2col ? 3 : 1) && m.rank <= 5, "tensorRank", number(m.rank),
             im2col ? "3..5 for im2col" : "1..5"))
    return check.wrong;
  const uint8_t* pads = m.pad3;
  check(
      !m.pad0 && !m.pad1 && !m.pad2 && !m.pad4 && std::all_of(pads, pads + 12, [](uint8_t b) { return !b; }),
      "a reserved byte", "not 0", "0");
  check(m.address % 16 == 0 && m.address < kMostAddress, "globalAddress", number(m.address),
        "a multiple of 16 below 2^57");
  for (size_t k = 0; k + 1 < m.rank; ++k)
    check(m.stride[k] % 16 == 0 && m.stride[k] < kMostStride, at("globalStrides", k), number(m.stride[k]),
          "a multiple of 16 below 2^40");
  const size_t boxes = im2col ? 2 : m.rank;
  for (size_t d = 0; d < boxes; ++d) {
    // Dimension 0 of a packed type is in bytes: 256 elements of 4 bits are 128.
    const uint64_t most = im2col && d ? 1024 : m.dtype == 13 && !d ? 128 : 256;
    check(m.box[d] >= 1 && m.box[d] <= most, at("boxDim", d), number(m.box[d]), "1.." + number(most));
  }
  for (size_t d = 0; d < m.rank; ++d)
    check(m.element_stride[d] >= 1 && m.element_stride[d] <= 8, at("elementStrides", d),
          number(m.element_stride[d]), "1..8");
  check(m.swizzle <= 3, "swizzle", number(m.swizzle), "0..3");
  check(m.atomicity <= 3, "the atoms of the swizzle", number(m.atomicity), "0..3");
  check(m.oob_nan <= 1, "oobFill", number(m.oob_nan), "0 or 1");
  check(!m.oob_nan || m.dtype == 6 || m.dtype == 7 || m.dtype == 9, "oobFill", "NaN",
        "zeros for CUtensorMapDataType " + number(m.dtype) +
            " (of the floating types the pattern is known for FLOAT16, FLOAT32 and BFLOAT16)");
  if (!check.wrong.empty()) return check.wrong;
  uint64_t bytes = m.element_size;
  for (size_t d = 0; d < boxes; ++d) bytes *= m.box[d] / (im2col ? 1 : m.element_stride[d]);
  check(m.dtype >= 13 || bytes <= limits::kMaxSharedBytes, "boxDim", number(bytes) + " bytes",
        "at most " + number(limits::kMaxSharedBytes) + " bytes");
  if (m.dtype >= 13) check_packed(check, m);
  if (im2col) check_corners(check, m);
  const uint64_t here = uint64_t{m.box[0]} * m.element_size, row = m.dtype == 14   ? 2 * here
                                                                   : m.dtype == 15 ? here / 12 * 16
                                                                                   : here;
  check(row % 16 == 0, "boxDim[0]", number(row) + " bytes", "a multiple of 16 bytes");
  check(!m.swizzle || row <= uint64_t{16} << m.swizzle, "boxDim[0]", number(row) + " bytes",
        "at most " + number(uint64_t{16} << m.swizzle) + " bytes with this swizzle");
  return check.wrong;
}

}  // namespace tileproof
