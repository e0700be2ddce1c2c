// How far an image in the program's memory reaches; the recorder finds its PTX (record/fatbin.py).
#pragma once
#include "channel.hpp"

namespace tileproof::record {

// `image`: the wrapper that __cudaRegisterFatBinary gets, a fat binary, PTX text that ends with a zero, or an
// ELF file of SASS, of which only the beginning is taken.
Bytes extent(const void* image);

}  // namespace tileproof::record
