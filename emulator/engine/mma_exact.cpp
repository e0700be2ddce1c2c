#include "mma_exact.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "small_float.hpp"

namespace tileproof {
namespace {

constexpr int kLowestHalf = -21, kLowestTop = -100;

// The exponent of a scale factor that is a power of two; kSpecialExponent where the loops do not cover it: a
// subnormal, whose exponent is that of the smallest normal, and NaN.
int32_t scale_exponent(float scale) {
  uint32_t u;
  std::memcpy(&u, &scale, 4);
  const int32_t field = static_cast<int32_t>(u >> 23 & 255);
  return field == 0 || field == 255 ? kSpecialExponent : field - 127;
}

}  // namespace

void ExactProducts::begin(const ExactForm& form, const float* b, int n) {
  form_ = form;
  b_ = b;
  n_ = n;
  split_ = false;
  if (!careful_ && !form.grouped())
    for (int k = 0; k < form.k; ++k) level_.exponents(b + k * kMaxN, n, form.b_emin, exponents_ + k * kMaxN);
}

void ExactProducts::add(const ExactOperand* rows, int count, int n0, int columns,
                        const float (*scales)[kMaxN]) {
  if (careful_)
    for (int i = 0; i < count; ++i) add_carefully(rows[i], n0, 0, columns, scales);
  else if (form_.grouped())
    add_grouped(rows, count, n0, columns, scales);
  else
    add_aligned(rows, count, n0, columns, scales);
}

void ExactProducts::add_aligned(const ExactOperand* rows, int count, int n0, int columns,
                                const float (*scales)[kMaxN]) {
  ExactRow work[kMostRows];
  int32_t pairs[kMostRows][kMaxK];
  for (int i = 0; i < count; ++i) {
    int16_t e[kMaxK];
    level_.exponents(rows[i].a, form_.k, form_.a_emin, e);
    for (int k = 0; k < form_.k; ++k)
      pairs[i][k] = static_cast<int32_t>(static_cast<uint16_t>(e[k]) * 0x10001u);
    work[i] = {rows[i].c, rows[i].a, pairs[i], form_.scales ? scale_exponent(rows[i].scales[0]) : 0, 0};
  }
  int16_t by[kMaxN];
  if (form_.scales)
    for (int j = 0; j < columns; ++j) by[j] = static_cast<int16_t>(scale_exponent(scales[0][j]));
  level_.exact(work, count,
               {.b = b_ + n0,
                .exponents = exponents_ + n0,
                .scales = form_.scales ? by : nullptr,
                .ld = kMaxN,
                .n = columns,
                .k = form_.k,
                .fraction = form_.fraction,
                .lowest = form_.half ? kLowestHalf : kLowestTop,
                .emin = (form_.half ? kF16 : kF32).emin(),
                .odd = form_.half});
  for (int i = 0; i < count; ++i)
    for (uint64_t left = work[i].left; left; left &= left - 1) {
      const int j = kExactColumns * __builtin_ctzll(left);
      add_carefully(rows[i], n0, j, std::min(kExactColumns, columns - j), scales);
    }
}

// Four sums of 16 products of e2m1 are exact in f32. A sum of zero counts only where a product does not: left
// to the other path, as what is not finite.
void ExactProducts::add_grouped(const ExactOperand* rows, int count, int n0, int columns,
                                const float (*scales)[kMaxN]) {
  constexpr int kSums = kMaxK / kBlockK;
  alignas(64) static thread_local float sums[kSums][kMostRows][kMaxN];
  for (int g = 0; g < kSums; ++g) {
    float* c[kMostRows];
    const float* a[kMostRows];
    for (int i = 0; i < count; ++i) {
      c[i] = sums[g][i];
      a[i] = rows[i].a + g * kBlockK;
      std::memset(c[i], 0, static_cast<size_t>(columns) * 4);
    }
    level_.fast(c, a, count, b_ + g * kBlockK * kMaxN + n0, kMaxN, columns);
  }
  for (int i = 0; i < count; ++i)
    for (int j = 0; j < columns; ++j) {
      ScaledSum sum(form_.scale_emin);
      bool plain = std::isfinite(rows[i].c[j]);
      for (int g = 0; g < kSums && plain; ++g) {
        const float by_a = rows[i].scales[g * form_.scales / kSums],
                    by_b = scales[g * form_.scales / kSums][j];
        plain =
            std::isfinite(sums[g][i][j]) && sums[g][i][j] != 0 && std::isfinite(by_a) && std::isfinite(by_b);
        if (plain) sum.add(sums[g][i][j], by_a, by_b);
      }
      if (plain)
        rows[i].c[j] = sum.result(rows[i].c[j]);
      else
        add_carefully(rows[i], n0, j, 1, scales);
    }
}

void ExactProducts::add_carefully(const ExactOperand& row, int n0, int first, int count,
                                  const float (*scales)[kMaxN]) {
  singly_ += count;
  if (!split_) {
    for (int k = 0; k < form_.k; ++k)
      level_.split(b_ + k * kMaxN, n_, form_.b_emin, b_split_.significand + k * kMaxN,
                   b_split_.exponent + k * kMaxN);
    split_ = true;
  }
  int32_t sa[kMaxK], ea[kMaxK];
  level_.split(row.a, form_.k, form_.a_emin, sa, ea);
  const int n1 = n0 + first;
  float* c = row.c + first;
  if (form_.blocks()) {
    float old[kMaxN];
    std::memcpy(old, c, static_cast<size_t>(count) * 4);
    level_.careful(c, sa, ea, b_split_.significand + n1, b_split_.exponent + n1, kMaxN, count);
    for (int j = 0; j < count; ++j)
      if (product_special(&old[j], row.a, b_ + n1 + j, kMaxN, kBlockK)) c[j] = old[j];
    return;
  }
  for (int j = 0; j < count; ++j) {
    const int n = n1 + j;
    WideSum sum(form_.half, form_.fraction);
    ScaledSum scaled(form_.scale_emin);
    float special_a[kMaxK], special_b[kMaxK];
    for (int k = 0; k < form_.k; ++k) {
      const int at = k * kMaxN + n;
      float by_a = 1, by_b = 1;
      if (form_.scales) {
        const int block = k * form_.scales / form_.k;
        by_a = row.scales[block], by_b = scales[block][first + j];
      }
      if (!form_.grouped())
        sum.add(sa[k], ea[k], b_split_.significand[at], b_split_.exponent[at], by_a, by_b);
      else if (k % kBlockK == 0)
        scaled.add(row.a + k, b_ + k * kMaxN + n, kMaxN, by_a, by_b);
      // Finite factors change neither a NaN nor an infinity.
      special_a[k] = std::isfinite(by_a) ? row.a[k] : NAN;
      special_b[k] = std::isfinite(by_b) ? b_[k * kMaxN + n] : NAN;
    }
    float out = c[j];
    if (!product_special(&out, special_a, special_b, 1, form_.k))
      out = form_.grouped() ? scaled.result(c[j]) : sum.result(c[j]);
    c[j] = out;
  }
}

void add_fast(const ExactOperand* rows, int count, const float* b, int k0, int k1, int columns,
              uint32_t largest) {
  float* c[kMostRows];
  const float* a[kMostRows];
  for (int k = k0; k < k1; k += kBlockK) {
    for (int i = 0; i < count; ++i) {
      c[i] = rows[i].c;
      a[i] = rows[i].a + k;
    }
    product_fast(c, a, count, b + k * kMaxN, kMaxN, columns, largest);
  }
}

void add_integers(uint32_t* cells, const float* sums, int columns, bool saturate) {
  for (int j = 0; j < columns; ++j) {
    const int64_t d = static_cast<int32_t>(cells[j]) + static_cast<int64_t>(sums[j]);
    cells[j] = static_cast<uint32_t>(saturate ? std::clamp<int64_t>(d, INT32_MIN, INT32_MAX) : d);
  }
}

float tensor_core_block(float c, const float* a, const float* b, bool f16) {
  if (product_special(&c, a, b, 1, kBlockK)) return c;
  const int32_t emin = f16 ? kF16.emin() : kBf16.emin();
  int32_t sa[kBlockK], ea[kBlockK], sb[kBlockK], eb[kBlockK];
  products().split(a, kBlockK, emin, sa, ea);
  products().split(b, kBlockK, emin, sb, eb);
  products().careful(&c, sa, ea, sb, eb, 1, 1);
  return c;
}

void tensor_core_products(float* c, const float* a, const float* b, int m, int k, int n, bool exact,
                          bool f16) {
  const size_t width = static_cast<size_t>(n), depth = static_cast<size_t>(k);
  const int32_t emin = f16 ? kF16.emin() : kBf16.emin();
  const auto exactly = std::make_unique<ExactProducts>();
  std::vector<float> block(kBlockK * kMaxN);
  for (int n0 = 0; n0 < n; n0 += kMaxN) {
    const int columns = std::min(kMaxN, n - n0);
    for (int k0 = 0; k0 < k; k0 += kBlockK) {
      for (int i = 0; i < kBlockK; ++i)
        std::copy_n(b + static_cast<size_t>(k0 + i) * width + n0, columns, block.data() + i * kMaxN);
      if (exact) exactly->begin({kBlockK, emin, emin}, block.data(), columns);
      const uint32_t largest = largest_bits(block.data(), kBlockK, kMaxN, columns);
      for (int m0 = 0; m0 < m; m0 += kMostRows) {
        const int rows = std::min(kMostRows, m - m0);
        ExactOperand row[kMostRows];
        for (int i = 0; i < rows; ++i)
          row[i] = {c + static_cast<size_t>(m0 + i) * width + n0,
                    a + static_cast<size_t>(m0 + i) * depth + k0, nullptr};
        if (exact)
          exactly->add(row, rows, 0, columns, nullptr);
        else
          add_fast(row, rows, block.data(), 0, kBlockK, columns, largest);
      }
    }
  }
}

}  // namespace tileproof
