// The race checker's clocks, for tests against a plain table of ticks.
#include <pybind11/pybind11.h>

#include "race_clock.hpp"

namespace py = pybind11;

namespace tileproof {

void bind_clock(py::module_& m) {
  py::class_<Clock>(m, "Clock", "Up to which tick what of each agent is ordered, by lane; for tests.")
      .def(py::init<>())
      .def(py::init<const Clock&>())
      .def("advance", py::overload_cast<uint32_t, uint32_t, Tick>(&Clock::raise), py::arg("agent"),
           py::arg("lanes"), py::arg("tick"))
      .def("join", &Clock::join, py::arg("other"))
      .def("covers", py::overload_cast<uint32_t, Tick, int8_t, uint32_t>(&Clock::covers, py::const_),
           py::arg("agent"), py::arg("tick"), py::arg("lane"), py::arg("lanes"))
      .def("covers_other_lanes", &Clock::covers_other_lanes, py::arg("agent"), py::arg("tick"));
}

}  // namespace tileproof
