// The cluster as it stood when a launch hung, as plain data for emulator/hang.py.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "machine.hpp"
#include "wgmma.hpp"

namespace py = pybind11;

namespace tileproof {

namespace {

int64_t index_of(const Program& p, const Instr* i) { return i ? i - p.code.data() : -1; }

py::dict barrier_state(const Program& p, const Mbarrier& b) {
  py::dict d;
  d["offset"] = b.offset;
  d["phase"] = b.phase;
  d["expected"] = b.expected;
  d["pending"] = b.pending;
  d["tx"] = b.tx;
  d["init"] = index_of(p, b.history.init);
  py::list producers;
  for (const Producer& r : b.history.producers) {
    // Deeds of an older phase are history of no phase that matters.
    const bool now = r.phase == b.phase, before = r.phase + 1 == b.phase;
    producers.append(py::dict(py::arg("pc") = index_of(p, r.instr), py::arg("rank") = r.rank,
                              py::arg("warp") = r.warp, py::arg("deed") = static_cast<int>(r.deed),
                              py::arg("phase") = r.phase, py::arg("lanes") = now ? r.lanes[0] : 0,
                              py::arg("amount") = now ? r.amount[0] : 0,
                              py::arg("lanes_before") = now      ? r.lanes[1]
                                                        : before ? r.lanes[0]
                                                                 : 0,
                              py::arg("amount_before") = now      ? r.amount[1]
                                                         : before ? r.amount[0]
                                                                  : 0,
                              py::arg("last_lanes") = r.lanes[0], py::arg("last_amount") = r.amount[0],
                              py::arg("deeds") = r.deeds, py::arg("last") = r.last));
  }
  d["producers"] = producers;
  py::list passed;
  for (const PassedWait& w : b.history.passed)
    passed.append(py::make_tuple(index_of(p, w.instr), w.phase, w.last));
  d["passed"] = passed;
  return d;
}

py::dict warp_state(const Engine& e, const Warp& w) {
  py::dict d;
  d["live"] = w.live;
  d["maxnreg"] = w.maxnreg;
  d["cluster_arrived"] = w.cluster_arrived;
  const auto& warpgroups = w.cta->warpgroups;
  const size_t group = static_cast<size_t>(w.index / kWarpgroup);
  d["wgmma"] = group < warpgroups.size() && warpgroups[group]
                   ? warpgroups[group]->warps[static_cast<size_t>(w.index % kWarpgroup)].issued
                   : 0;
  py::list exits;
  for (const auto& [lanes, instr] : w.exits) exits.append(py::make_tuple(lanes, index_of(e.program, instr)));
  d["exits"] = exits;
  py::list passes;
  for (const auto& [instr, last] : w.passes) passes.append(py::make_tuple(index_of(e.program, instr), last));
  d["passes"] = passes;
  py::list groups;
  for (const Split& s : w.splits) {
    if (s.dead) continue;
    const uint32_t join = s.join >= 0 ? w.joins[static_cast<size_t>(s.join)].expected &
                                            ~w.joins[static_cast<size_t>(s.join)].arrived
                                      : 0;
    const Wait wait = s.wait == Wait::None && s.polled ? Wait::MbarrierParity : s.wait;
    groups.append(
        py::dict(py::arg("pc") = s.pc, py::arg("lanes") = s.mask, py::arg("wait") = static_cast<int>(wait),
                 py::arg("offset") = s.bar_offset, py::arg("parity") = s.parity, py::arg("token") = s.token,
                 py::arg("wanted") = wait == Wait::Join ? join : s.lanes_wanted & w.live & ~s.mask));
  }
  d["groups"] = groups;
  d["registers"] = py::bytes(w.registers.empty() ? "" : reinterpret_cast<const char*>(w.registers[0].bytes),
                             groups.empty() ? 0 : w.registers.size() * sizeof(RegisterBlock));
  return d;
}

}  // namespace

py::dict hang_state(const Engine& e) {
  py::list ctas;
  for (const auto& cta : e.hung->ctas) {
    py::dict d;
    d["cta"] = py::make_tuple(cta->id.x, cta->id.y, cta->id.z);
    d["register_pool"] = cta->register_pool;
    py::list barriers, named, allocations, held, warps;
    for (const Mbarrier& b : cta->shared.bars)
      if (b.live) barriers.append(barrier_state(e.program, b));
    for (const NamedBarrier& b : cta->named) {
      py::list parts;
      for (const NamedBarrier::Part& part : b.parts) parts.append(part.lanes);
      named.append(py::dict(py::arg("generation") = b.generation, py::arg("arrived") = b.arrived,
                            py::arg("expected") = b.expected == ~0u ? -1 : static_cast<int64_t>(b.expected),
                            py::arg("warps") = b.warps, py::arg("before") = b.before,
                            py::arg("parts") = parts));
    }
    for (size_t k = 0; k < cta->tmem.allocations.size(); ++k)
      allocations.append(py::make_tuple(cta->tmem.allocations[k].first, cta->tmem.allocations[k].second,
                                        index_of(e.program, cta->tmem.allocators[k].first),
                                        cta->tmem.allocators[k].second));
    for (const bool unit : cta->tmem.held) held.append(unit);
    for (size_t g = 0; g < cta->warpgroups.size(); ++g)
      if (cta->warpgroups[g]) write_back(e.program, *cta, static_cast<int>(g) * kWarpgroup);
    for (const Warp& w : cta->warps) warps.append(warp_state(e, w));
    d["barriers"] = barriers;
    d["named"] = named;
    d["allocations"] = allocations;
    d["held"] = held;
    d["warps"] = warps;
    ctas.append(d);
  }
  py::dict state;
  state["ctas"] = ctas;
  state["cluster_arrived"] = e.hung->barrier_arrived;
  state["live_threads"] = e.hung->live_threads;
  return state;
}

}  // namespace tileproof
