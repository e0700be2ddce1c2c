// Matrix descriptors of 16-bit operands that lie in shared memory as column tiles: 64 columns (128 bytes, one
// span of the 128-byte swizzle) wide, all rows deep, one column tile after another.
//
// (Narrow tiles: 32 columns, 64 bytes, one span of the 64-byte swizzle.) Such a tile is a K-major operand
// when k runs along its columns and an MN-major one when k runs along its rows (PTX ISA, tcgen05 canonical
// layouts): the same bytes, two descriptors.
//
// (Plain tiles: without a swizzle, column tiles of 8 columns, 16 bytes. What neighbouring rows have of one is
// contiguous.)
#pragma once

#include <cstdint>

#include "sm100/cute.cuh"

namespace tileproof {

constexpr int kColTile = 64;      // columns of a column tile
constexpr int kRowBytes = 128;    // one row of it
constexpr int kAtomBytes = 1024;  // eight rows: the period of the swizzle
constexpr int kMmaK = 16;         // k of one tcgen05.mma of 16-bit operands

// A column tile's 16-byte chunk `chunk` (0..7) of row `row`, as a byte offset from the tile's start.
__host__ __device__ constexpr uint32_t swizzled_chunk(uint32_t row, uint32_t chunk) {
  return row * kRowBytes + ((chunk ^ (row % 8)) << 4);
}

// Both strides a descriptor has: between 8-row groups, and (MN-major only) between column tiles.
__device__ __forceinline__ uint64_t operand_descriptor(uint32_t start, uint32_t col_tile_bytes) {
  cute::UMMA::SmemDescriptor desc;
  desc.desc_ = 0;
  desc.start_address_ = (start & 0x3ffff) >> 4;
  desc.leading_byte_offset_ = col_tile_bytes >> 4;
  desc.stride_byte_offset_ = kAtomBytes >> 4;
  desc.version_ = 1;
  desc.layout_type_ = uint8_t(cute::UMMA::LayoutType::SWIZZLE_128B);
  return desc.desc_;
}

// The descriptor of what lies `bytes` (a multiple of 16) further on, for one addition: shared memory ends
// before the field of the start address does.
__device__ __forceinline__ uint64_t further(uint64_t desc, uint32_t bytes) {
  return (desc & 0xffffffff00000000) | (uint32_t(desc) + (bytes >> 4));
}

// K-major operand whose first row is the tile's and whose k starts at column `k` of it (a multiple of 16).
template <int Rows>
__device__ __forceinline__ uint64_t k_major(uint32_t tile, int k) {
  constexpr uint32_t kColTileBytes = Rows * kRowBytes;
  return operand_descriptor(tile + (k / kColTile) * kColTileBytes + (k % kColTile) * 2, 16);
}

// MN-major operand that starts at column `mn` of the tile (a multiple of 64) and whose k starts at row `k` (a
// multiple of 16).
template <int Rows>
__device__ __forceinline__ uint64_t mn_major(uint32_t tile, int mn, int k) {
  constexpr uint32_t kColTileBytes = Rows * kRowBytes;
  return operand_descriptor(tile + (mn / kColTile) * kColTileBytes + k * kRowBytes, kColTileBytes);
}

// ---- narrow tiles: one column tile of 32 columns -----------------------------------------------------

constexpr int kNarrowCols = 32;
constexpr int kNarrowRowBytes = 64;
constexpr int kNarrowAtomBytes = 512;

// A narrow tile's 16-byte chunk `chunk` (0..3) of row `row`, as a byte offset from the tile's start.
__host__ __device__ constexpr uint32_t swizzled_narrow_chunk(uint32_t row, uint32_t chunk) {
  return row * kNarrowRowBytes + ((chunk ^ (row / 2 % 4)) << 4);
}

__device__ __forceinline__ uint64_t narrow_descriptor(uint32_t start) {
  cute::UMMA::SmemDescriptor desc;
  desc.desc_ = 0;
  desc.start_address_ = (start & 0x3ffff) >> 4;
  desc.leading_byte_offset_ = 1;  // of one column tile: never taken
  desc.stride_byte_offset_ = kNarrowAtomBytes >> 4;
  desc.version_ = 1;
  desc.layout_type_ = uint8_t(cute::UMMA::LayoutType::SWIZZLE_64B);
  return desc.desc_;
}

// As k_major.
__device__ __forceinline__ uint64_t narrow_k_major(uint32_t tile, int k) {
  return narrow_descriptor(tile + k * 2);
}

// As mn_major, from column 0 on.
__device__ __forceinline__ uint64_t narrow_mn_major(uint32_t tile, int k) {
  return narrow_descriptor(tile + k * kNarrowRowBytes);
}

// ---- plain tiles: no swizzle, column tiles of 8 columns ------------------------------------------------

constexpr int kPlainRowBytes = 16;

// A plain tile's 16-byte chunk `chunk` of row `row`, as a byte offset from the tile's start.
template <int Rows>
__host__ __device__ constexpr uint32_t plain_chunk(uint32_t row, uint32_t chunk) {
  return (chunk * Rows + row) * kPlainRowBytes;
}

// Without a swizzle the leading offset is from 8 of k to the next, the stride from 8 of mn to the next.
__device__ __forceinline__ uint64_t plain_descriptor(uint32_t start, uint32_t k_bytes, uint32_t mn_bytes) {
  cute::UMMA::SmemDescriptor desc;
  desc.desc_ = 0;
  desc.start_address_ = (start & 0x3ffff) >> 4;
  desc.leading_byte_offset_ = k_bytes >> 4;
  desc.stride_byte_offset_ = mn_bytes >> 4;
  desc.version_ = 1;
  desc.layout_type_ = uint8_t(cute::UMMA::LayoutType::SWIZZLE_NONE);
  return desc.desc_;
}

// As k_major, from row 0 on.
template <int Rows>
__device__ __forceinline__ uint64_t plain_k_major(uint32_t tile, int k) {
  return plain_descriptor(tile + plain_chunk<Rows>(0, k / 8), Rows * kPlainRowBytes, 8 * kPlainRowBytes);
}

// As mn_major, from column 0 on.
template <int Rows>
__device__ __forceinline__ uint64_t plain_mn_major(uint32_t tile, int k) {
  return plain_descriptor(tile + plain_chunk<Rows>(k, 0), 8 * kPlainRowBytes, Rows * kPlainRowBytes);
}

// The instruction descriptor of a product of operands of type T into f32.
template <class T, int M, int N, cute::UMMA::Major MajorA, cute::UMMA::Major MajorB>
__device__ __forceinline__ uint32_t mma_descriptor() {
  return uint32_t(cute::UMMA::make_instr_desc<T, T, float, M, N, MajorA, MajorB>());
}

}  // namespace tileproof
