// What Python calls of the tensor core's products, without a launch.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "mma_exact.hpp"

namespace py = pybind11;

namespace tileproof {
namespace {

// Rows and columns of a matrix of f32 without gaps.
std::pair<int, int> matrix_shape(const py::buffer_info& of) {
  if (of.ndim != 2 || !of.item_type_is_equivalent_to<float>() || of.strides[1] != 4 ||
      of.strides[0] != 4 * of.shape[1])
    throw py::value_error("matrices of f32 without gaps");
  return {static_cast<int>(of.shape[0]), static_cast<int>(of.shape[1])};
}

}  // namespace

void bind_products(py::module_& m) {
  m.def(
      "tensor_core_block",
      [](float c, const std::vector<float>& a, const std::vector<float>& b, bool f16) {
        if (a.size() != 16 || b.size() != 16) throw py::value_error("a block has 16 products");
        return tensor_core_block(c, a.data(), b.data(), f16);
      },
      py::arg("c"), py::arg("a"), py::arg("b"), py::arg("f16") = false);
  m.def(
      "tensor_core_products",
      [](const py::buffer& c, const py::buffer& a, const py::buffer& b, bool exact, bool f16) {
        const py::buffer_info ci = c.request(true), ai = a.request(), bi = b.request();
        const auto [m, n] = matrix_shape(ci);
        const auto [am, k] = matrix_shape(ai);
        const auto [bk, bn] = matrix_shape(bi);
        if (am != m || bk != k || bn != n || k % kBlockK)
          throw py::value_error("c [m, n], a [m, k], b [k, n], k a multiple of 16");
        const py::gil_scoped_release free;
        tensor_core_products(static_cast<float*>(ci.ptr), static_cast<const float*>(ai.ptr),
                             static_cast<const float*>(bi.ptr), m, k, n, exact, f16);
      },
      py::arg("c"), py::arg("a"), py::arg("b"), py::kw_only(), py::arg("exact"), py::arg("f16"));
  // A row of the fast mode at a level of the processor; None where it lacks the level. `plain`: by the loop
  // for all values.
  m.def(
      "product_fast",
      [](const std::string& level, std::vector<float> c, const std::vector<float>& a,
         const std::vector<float>& b, bool plain) -> std::optional<std::vector<float>> {
        if (a.size() != 16 || b.size() != 16 * c.size())
          throw py::value_error("a has 16 elements, b 16 rows of c's size");
        const Products* of = products_of(level);
        if (!of) return std::nullopt;
        float* rows[] = {c.data()};
        const float* slab[] = {a.data()};
        const int n = static_cast<int>(c.size());
        if (plain)
          of->fast(rows, slab, 1, b.data(), n, n);
        else
          product_fast(rows, slab, 1, b.data(), n, n, largest_bits(b.data(), kBlockK, n, n), *of);
        return c;
      },
      py::arg("level"), py::arg("c"), py::arg("a"), py::arg("b"), py::arg("plain") = false);
  // Rows of an instruction in the exact mode at a level of the processor, into c, and how many words were
  // computed singly; None where it lacks the level. `carefully`: each element by itself, without the
  // loops on vectors. Scale factors [m, s] and [s, n].
  m.def(
      "product_exact",
      [](const std::string& level, const py::buffer& c, const py::buffer& a, const py::buffer& b,
         int32_t a_emin, int32_t b_emin, bool half, const py::buffer& scale_a, const py::buffer& scale_b,
         int32_t scale_emin, bool carefully) -> std::optional<int64_t> {
        const Products* of = products_of(level);
        if (!of) return std::nullopt;
        py::buffer_info ci = c.request(true), ai = a.request(), bi = b.request(), sa = scale_a.request(),
                        sb = scale_b.request();
        const auto [m, n] = matrix_shape(ci);
        const auto [am, k] = matrix_shape(ai);
        const auto [bk, bn] = matrix_shape(bi);
        const auto [sam, scales] = matrix_shape(sa);
        const auto [sbs, sbn] = matrix_shape(sb);
        if (am != m || bk != k || bn != n || n > kMaxN || k > kMaxK || k % 2 || scales > kMaxScales ||
            (scales && (sam != m || sbs != scales || sbn != n)))
          throw py::value_error("c [m, n], a [m, k], b [k, n], scale_a [m, s], scale_b [s, n]");
        const py::gil_scoped_release free;
        const auto exact = std::make_unique<ExactProducts>(*of, carefully);
        const auto wide = std::make_unique<float[]>(kMaxK * kMaxN);
        const auto by = std::make_unique<float[][kMaxN]>(kMaxScales);
        auto row = [](const py::buffer_info& of, int i) {
          return static_cast<float*>(of.ptr) + of.shape[1] * i;
        };
        for (int i = 0; i < k; ++i) std::copy_n(row(bi, i), n, wide.get() + i * kMaxN);
        for (int i = 0; i < scales; ++i) std::copy_n(row(sb, i), n, by[static_cast<size_t>(i)]);
        exact->begin({k, a_emin, b_emin, half, scales, scale_emin}, wide.get(), n);
        for (int i = 0; i < m; i += kMostRows) {
          ExactOperand rows[kMostRows];
          const int count = std::min(kMostRows, m - i);
          for (int r = 0; r < count; ++r) rows[r] = {row(ci, i + r), row(ai, i + r), row(sa, i + r)};
          exact->add(rows, count, 0, n, by.get());
        }
        return exact->singly();
      },
      py::arg("level"), py::arg("c"), py::arg("a"), py::arg("b"), py::kw_only(), py::arg("a_emin"),
      py::arg("b_emin"), py::arg("half"), py::arg("scale_a"), py::arg("scale_b"), py::arg("scale_emin"),
      py::arg("carefully"));
}

}  // namespace tileproof
