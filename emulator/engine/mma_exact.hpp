// tcgen05.mma in the exact mode: rows of an instruction, bit for bit as spec/machine/tensor_core.py has it.
#pragma once

#include "tensor_core.hpp"

namespace tileproof {

constexpr int kMostRows = 4;

// What the bits of a result depend on besides the values.
struct ExactForm {
  int k = kBlockK;               // products of an instruction
  int32_t a_emin, b_emin;        // exponents of the operands' smallest normals
  bool half = false;             // an f16 accumulator
  int scales = 0;                // scale factors along k
  int32_t scale_emin = 0;        // exponent of the smallest normal factor
  int32_t fraction = kFraction;  // places below the largest exponent that an addend keeps

  bool grouped() const { return scales && k == kMaxK; }             // mxf4 and mxf4nvf4
  bool blocks() const { return k == kBlockK && !half && !scales; }  // kind::f16 into f32
};

// A row of the accumulator and its operand; A's scale factors along k, or null.
struct ExactOperand {
  float* c;
  const float* a;
  const float* scales;
};

// Rows go through the loops of products.hpp; what these leave, and with `careful` everything, is computed
// element after element.
class ExactProducts {
 public:
  explicit ExactProducts(const Products& level = products(), bool careful = false)
      : level_(level), careful_(careful) {}
  // B of the rows that follow, n columns of [k][kMaxN], which stays where it is.
  void begin(const ExactForm& form, const float* b, int n);
  // Adds A B to `count` rows, at most kMostRows, of columns [n0, n0 + columns) of B; scale factors of B by
  // column, from n0 on. An f16 result is to be rounded to f16: it has more places.
  void add(const ExactOperand* rows, int count, int n0, int columns, const float (*scales)[kMaxN]);

  // Words computed singly so far.
  int64_t singly() const { return singly_; }

 private:
  void add_aligned(const ExactOperand* rows, int count, int n0, int columns, const float (*scales)[kMaxN]);
  void add_grouped(const ExactOperand* rows, int count, int n0, int columns, const float (*scales)[kMaxN]);
  // Columns j to j + count - 1 of them, from n0 on.
  void add_carefully(const ExactOperand& row, int n0, int j, int count, const float (*scales)[kMaxN]);

  const Products& level_;
  bool careful_;
  ExactForm form_{};
  const float* b_ = nullptr;
  int n_ = 0;
  int64_t singly_ = 0;
  bool split_ = false;  // B's split is that of b_
  struct {
    int32_t significand[kMaxK * kMaxN], exponent[kMaxK * kMaxN];
  } b_split_;
  int16_t exponents_[kMaxK * kMaxN];
};

// Fast mode: products [k0, k1) of `count` rows with b [k][kMaxN], in blocks of kBlockK; `largest` of b.
void add_fast(const ExactOperand* rows, int count, const float* b, int k0, int k1, int columns,
              uint32_t largest);
// 32-bit integers += sums that are exact in f32.
void add_integers(uint32_t* cells, const float* sums, int columns, bool saturate);

// One block of the exact mode, for tests: c + sum of 16 products; f16 subnormals when `f16`.
float tensor_core_block(float c, const float* a, const float* b, bool f16);

// c [m, n] += a [m, k] b [k, n] as instructions of 16 products each, in order of k; k is a multiple of 16.
void tensor_core_products(float* c, const float* a, const float* b, int m, int k, int n, bool exact,
                          bool f16);

}  // namespace tileproof
