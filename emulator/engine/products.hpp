// The tensor core's loops, compiled for several levels of the processor; one is chosen when the engine is
// loaded.
#pragma once

#include <cstdint>
#include <string_view>

namespace tileproof {

constexpr int kBlockK = 16;
constexpr int kFraction = 25;  // 23 bits of f32 and 2 extra alignment bits
constexpr int32_t kMinAlignment = -133;

// Operand elements split for the exact mode: x = significand * 2^(exponent - 10). Subnormals are not
// normalised: their exponent is that of the format's smallest normal. A zero has exponent kDropped.
constexpr int32_t kDropped = -(1 << 20);

// What tensor_core.hpp says of product_fast, split_operand and product_exact; the same bits at every level.
struct Products {
  void (*fast)(float* const* c, const float* const* a, int rows, const float* b, int ldb, int n);
  void (*split)(const float* x, int count, int32_t emin, int32_t* significand, int32_t* exponent);
  void (*exact)(float* c, const int32_t* a_significand, const int32_t* a_exponent,
                const int32_t* b_significand, const int32_t* b_exponent, int ldb, int n);
};

// The widest that the processor has; the environment's TILEPROOF_LEVEL (v2, v3, v4) lowers the choice.
const Products& products();

// Those of one level, null where the processor lacks it: for tests.
const Products* products_of(std::string_view level);

}  // namespace tileproof
