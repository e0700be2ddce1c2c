// Zstandard frames (RFC 8878), as nvcc packs PTX since CUDA 12.8.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tileproof::record {

// The content of one frame without a dictionary; throws std::runtime_error for bytes that are none.
std::string zstd(std::span<const std::uint8_t> frame);

}  // namespace tileproof::record
