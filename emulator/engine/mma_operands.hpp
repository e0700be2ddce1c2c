// Operands of tcgen05.mma as numbers: A and B out of shared or tensor memory, scale factors.
#pragma once

#include <array>

#include "mma.hpp"
#include "mma_exact.hpp"

namespace tileproof {

// What an element is and how it lies in memory (PTX ISA 9.7.16.10.4): 16 bytes hold 4, 8 or 16 elements,
// those of 6 and 4 bits followed by padding; E2m1Dense, of kinds mxf4 and mxf4nvf4, 32.
enum class Element { F16, Bf16, Tf32, S8, U8, E4m3, E5m2, E2m3, E3m2, E2m1, E2m1Dense };

// Working storage of one MMA; too large for the stack, kept from one to the next.
struct Workspace {
  alignas(64) float a[kTmemLanes * kMaxK];  // [row or lane][k of the format]
  alignas(64) float b[kMaxK * kMaxN];       // [k][n]
  alignas(64) float sums[kMostRows][kMaxN];
  // Scale factors: A's of each lane; B's as each quarter of the lanes finds them, by column of its segment.
  alignas(64) float scale_a[kTmemLanes][kMaxScales];
  alignas(64) float scale_b[4][kMaxScales][kMaxN];
  ExactProducts exact;
  uint32_t largest;  // bits of the largest magnitude of b
  std::vector<Segment> segments;
  DPlace place;  // of the segments
  // Of the rows of a CTA's D that share columns of B.
  float* d_rows[kTmemLanes];
  const float* a_rows[kTmemLanes];
  // Reads of what nobody wrote, behind rows (lanes) of A, columns of B, and cells of a segment's old D.
  std::array<PoisonId, kTmemLanes> a_poison;
  std::array<PoisonId, kMaxN> b_poison, d_poison;
};

// Products of one instruction along k, in steps of kBlockK: tf32's 8 are filled up with zeros.
inline int padded_k(Format f) {
  const int k = mma_rules().formats[static_cast<size_t>(f)].k;
  return k < kBlockK ? kBlockK : k;
}

// Rows of a matrix in shared memory from `first_row` on, whole chunks of them: out[row * stride_row + k *
// stride_k]; `who` reads them; `poison`: reads behind each row.
void fetch_rows(Engine& e, Cta& cta, const MatrixDescriptor& d, Element element, bool mn_major, int first_row,
                int rows, int k, float sign, const Origin& at, const char* who, float* out, int stride_row,
                int stride_k, PoisonId* poison);
// Packed elements, each times `sign`.
void unpack(Element element, const uint8_t* p, int count, float sign, float* out);

// What an element of tcgen05.mma's instruction descriptor is.
Element element_of(Format f, int code);
// The exponent of the smallest normal number of a float type.
int32_t emin_of(Element e);

// rows x k elements from shared memory: out[row * stride_row + k * stride_k]; `poison`: reads behind each
// row.
void fetch_operand(Engine& e, Cta& cta, uint64_t desc, const MmaRequest& r, bool is_b, int rows, float* out,
                   int stride_row, int stride_k, PoisonId* poison);
// Whether the columns of A and of the scale factors in TMEM are allocated, before anybody touches them; false
// after a fault.
bool operands_allocated(Engine& e, const MmaRequest& r, Cta& cta, const std::vector<Segment>& segments);
// A of one lane, from TMEM: every data path multiplies the A found in its own lane.
void fetch_tmem_row(Engine& e, Cta& cta, const MmaRequest& r, const InstructionDescriptor& d, int lane,
                    LaterWrites& later, float* out, PoisonId& poison);
// The scale factors that the segments of one CTA need (PTX ISA 9.7.16.10.7.2).
void fetch_scales(Engine& e, Cta& cta, const MmaRequest& r, const InstructionDescriptor& d,
                  LaterWrites& later, Workspace& w);
// Columns of A's and B's scale factors.
std::pair<int, int> scale_columns(const std::vector<Segment>& segments);

}  // namespace tileproof
