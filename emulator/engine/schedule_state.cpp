// A schedule as plain data, for emulator/schedule.py: what a launch is to follow, and what it did.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "schedule.hpp"

namespace py = pybind11;

namespace tileproof {

// depth, points, environment, alone, together, base, record, record_base; decisions: bytes of (actor, step)
// pairs of uint64.
void read_schedule(const py::dict& from, Config& c) {
  if (from.contains("depth")) c.depth = from["depth"].cast<uint32_t>();
  if (from.contains("points")) c.points = from["points"].cast<uint64_t>();
  if (from.contains("environment")) c.environment = from["environment"].cast<uint64_t>();
  if (from.contains("alone")) c.alone = from["alone"].cast<bool>();
  if (from.contains("together")) c.together = from["together"].cast<uint32_t>();
  if (from.contains("base")) c.base = static_cast<CompletionOrder>(from["base"].cast<int>());
  if (from.contains("record_base"))
    c.record_base = static_cast<CompletionOrder>(from["record_base"].cast<int>());
  if (from.contains("record")) c.record = from["record"].cast<bool>();
  if (from.contains("decisions")) {
    const std::string raw = from["decisions"].cast<py::bytes>();
    if (raw.size() % sizeof(Decision)) throw py::value_error("decisions are pairs of 8-byte numbers");
    c.decisions.resize(raw.size() / sizeof(Decision));
    std::memcpy(c.decisions.data(), raw.data(), raw.size());
  }
}

void write_schedule(const Engine& e, py::dict& result) {
  const std::vector<Decision>& made = e.scheduler->decisions;
  result["decisions"] = py::bytes(reinterpret_cast<const char*>(made.data()), made.size() * sizeof(Decision));
  py::list holds;
  for (const Held& h : e.scheduler->holds) {
    py::dict d;
    d["actor"] = h.decision.actor;
    d["step"] = h.decision.step;
    d["pc"] = h.instr ? h.instr - e.program.code.data() : -1;
    d["engine"] = h.engine ? h.engine : "";
    d["gave_up"] = h.gave_up;
    d["visible"] = h.instr && h.instr->visible;
    d["wait"] = static_cast<int>(h.wait);
    d["barrier"] = h.barrier;
    d["phase"] = h.phase;
    d["from"] = h.from;
    d["to"] = h.to;
    holds.append(d);
  }
  result["holds"] = holds;
}

}  // namespace tileproof
