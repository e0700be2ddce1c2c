#include "products.hpp"

#include <cstdlib>
#include <vector>

namespace tileproof {

namespace v2 {
extern const Products kProducts;
}
#ifdef __x86_64__
namespace v3 {
extern const Products kProducts;
}
namespace v4 {
extern const Products kProducts;
}
#endif

namespace {

struct Level {
  std::string_view name;
  const Products* products;
  bool supported;
};

// From the narrowest to the widest.
const std::vector<Level>& levels() {
  static const std::vector<Level> all{
      {"v2", &v2::kProducts, true},
#ifdef __x86_64__
      {"v3", &v3::kProducts,
       __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")},
      {"v4", &v4::kProducts,
       __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512cd")},
#endif
  };
  return all;
}

const Products& choose() {
  const char* wish = std::getenv("TILEPROOF_LEVEL");
  const Products* best = levels()[0].products;
  for (const Level& level : levels())
    if (level.supported && (!wish || level.name <= wish)) best = level.products;
  return *best;
}

}  // namespace

const Products& products() {
  static const Products& chosen = choose();
  return chosen;
}

const Products* products_of(std::string_view name) {
  for (const Level& level : levels())
    if (level.supported && level.name == name) return level.products;
  return nullptr;
}

}  // namespace tileproof
