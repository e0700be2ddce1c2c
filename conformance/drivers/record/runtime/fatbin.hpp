// The PTX inside what nvcc embeds in a program: fat binaries, or images as the driver's loaders take them.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace tileproof::record {

// What an image holds: the PTX for this device, or why there is none.
struct Image {
  std::string ptx;  // "" when there is none
  std::string why;
};

// `image`: the wrapper that __cudaRegisterFatBinary gets, a fat binary, PTX text that ends with a zero, or an
// ELF file of SASS.
Image image_of(const void* image);

// PTX that this device takes best: sm_100a, sm_100f, sm_100, then the highest of an architecture before it.
// -1: it takes none of it.
int fitness(const std::string& ptx);

}  // namespace tileproof::record
