// The timing model's door to Python: tables of numbers in, what a simulation shows out.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>

#include "timing.hpp"

namespace py = pybind11;

namespace tileproof {

namespace {

using namespace timing;

// A table whose rows are those of an array, field for field.
template <typename Row, typename Number>
std::vector<Row> table(const py::dict& from, const char* name) {
  const auto array = py::array_t<Number, py::array::c_style | py::array::forcecast>::ensure(from[name]);
  if (!array || static_cast<size_t>(array.nbytes()) % sizeof(Row) ||
      (array.ndim() == 2 && static_cast<size_t>(array.shape(1)) * sizeof(Number) != sizeof(Row)))
    throw py::value_error(std::string("not a table of the timing model: ") + name);
  std::vector<Row> rows(static_cast<size_t>(array.nbytes()) / sizeof(Row));
  if (!rows.empty()) std::memcpy(rows.data(), array.data(), static_cast<size_t>(array.nbytes()));
  return rows;
}

std::unique_ptr<timing::Program> make(const py::dict& from) {
  auto p = std::make_unique<timing::Program>();
  p->code = table<Code, int64_t>(from, "code");
  p->blocks = table<Block, int64_t>(from, "blocks");
  p->warps = table<WarpOf, int64_t>(from, "warps");
  p->passages = table<Passage, int64_t>(from, "passages");
  p->steps = table<timing::Step, int64_t>(from, "steps");
  p->step_groups = table<Group, int64_t>(from, "step_groups");
  p->pass_groups = table<Group, int64_t>(from, "pass_groups");
  p->touched_groups = table<Group, int64_t>(from, "touched_groups");
  p->arrives = table<std::array<int64_t, 2>, int64_t>(from, "arrives");
  p->issues = table<int64_t, int64_t>(from, "issues");
  p->feeds = table<int64_t, int64_t>(from, "feeds");
  p->reads = table<int64_t, int64_t>(from, "reads");
  p->places = table<int64_t, int64_t>(from, "places");
  p->phases = table<std::array<int64_t, 2>, int64_t>(from, "phases");
  p->operations = table<Operation, int64_t>(from, "operations");
  p->rates = table<Rates, double>(from, "rates");
  p->passes = table<double, double>(from, "passes");
  p->touched = table<Touched, double>(from, "touched");
  p->twins = table<int64_t, int64_t>(from, "twins");
  p->does = table<uint8_t, uint8_t>(from, "does");
  p->root_sets = from["root_sets"].cast<int64_t>();
  p->slots = from["slots"].cast<int64_t>();
  p->lines = from["lines"].cast<int64_t>();
  p->ctas = static_cast<int64_t>(p->twins.size());
  p->finish();
  return p;
}

py::list figure_names() {
  py::list names;
#define X(name) names.append(#name);
  TILEPROOF_TIMING_FIGURES(X)
#undef X
  return names;
}

py::tuple tuple_of(const timing::Origin& o) {
  return py::make_tuple(o.warp, o.issued, kUnitNames[static_cast<int>(o.unit)], o.began, o.done, o.line);
}

template <typename Row, typename Make>
py::list list_of(const std::vector<Row>& rows, Make make) {
  py::list out(rows.size());
  for (size_t n = 0; n < rows.size(); ++n) out[n] = make(rows[n]);
  return out;
}

}  // namespace

void bind_timing(py::module_& m) {
  m.attr("TIMING_FIGURES") = figure_names();
  py::class_<Result>(m, "TimingResult", "What a simulation of the timing model shows, by number.")
      .def_readonly("clocks", &Result::clocks)
      .def_readonly("ends", &Result::ends)
      .def_readonly("remaining", &Result::remaining)
      .def_property_readonly("used",
                             [](const Result& r) { return std::vector<bool>(r.used.begin(), r.used.end()); })
      .def_property_readonly("issued",
                             [](const Result& r) {
                               return list_of(r.log_times,
                                              [](const auto& log) { return py::int_(log.size()); });
                             })
      .def("log", [](const Result& r,
                     size_t warp) { return std::make_pair(r.log_times.at(warp), r.log_lines.at(warp)); })
      .def_property_readonly("waits",
                             [](const Result& r) {
                               return list_of(r.waits, [](const WaitSpan& w) {
                                 return py::make_tuple(w.warp, w.phase, w.opcode, w.line, w.begin, w.end);
                               });
                             })
      .def_property_readonly("completed",
                             [](const Result& r) {
                               return list_of(r.completed, [](const Completed& c) {
                                 return py::make_tuple(c.phase, c.time, tuple_of(c.by));
                               });
                             })
      .def_property_readonly("busy",
                             [](const Result& r) {
                               return list_of(r.busy, [](const Busy& b) {
                                 return py::make_tuple(b.cta, kUnitNames[static_cast<int>(b.unit)], b.clocks);
                               });
                             })
      .def_property_readonly("spans", [](const Result& r) {
        return list_of(r.spans, [](const UnitSpan& s) {
          return py::make_tuple(kUnitNames[s.unit], s.cta, s.begin, s.end, s.line);
        });
      });
  py::class_<timing::Program>(m, "TimingProgram", "Machine code and the work of a run, to be simulated.")
      .def(py::init(&make), py::arg("tables"))
      .def(
          "simulate",
          [](const timing::Program& p, const std::array<double, FIGURES>& figures, bool alone, int64_t order,
             double working_set) {
            py::gil_scoped_release release;
            return simulate(p, figures, alone, order, working_set);
          },
          py::arg("figures"), py::arg("alone"), py::arg("order") = -1, py::arg("working_set") = 0.0);
}

}  // namespace tileproof
