// What a launch is told, and what it counts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "findings.hpp"
#include "enumerations/schedule.hpp"
#include "program.hpp"

namespace tileproof {

struct GridRecord;

// How a grid in flight and the one that is checked against it hang together.
enum class InFlight : int32_t {
  Behind = 0,     // before one that griddepcontrol.wait waits for, and need not have ended with it
  Waits = 1,      // griddepcontrol.wait waits for it
  Unordered = 2,  // of another stream, or a copy of the host: no event or synchronisation is between them
};
using InFlightGrid = std::pair<GridRecord*, InFlight>;

enum class MmaMode : int32_t { Fast = 0, Exact = 1 };

struct Counters {
  uint64_t warp_instructions = 0;
  uint64_t barrier_phases = 0;
  uint64_t tma_load_bytes = 0;
  uint64_t tma_store_bytes = 0;
  uint64_t bulk_bytes = 0;
  uint64_t shared_bytes = 0;
  uint64_t global_bytes = 0;
  uint64_t tmem_bytes = 0;
  uint64_t atomic_bytes = 0;
  uint64_t mma_instructions = 0;
  uint64_t mma_macs = 0;
  uint64_t async_operations = 0;
  uint64_t divergent_releases = 0;
  uint64_t cp_async_bytes = 0;
  uint64_t claimed_clusters = 0;  // by clusterlaunchcontrol
  uint64_t schedule_points = 0;   // visible operations and completions, not counted under "early"

  Counters& operator+=(const Counters& other);  // clusters_apart.cpp
};

// In a replay: `actor` is held back from `step` on.
struct Decision {
  uint64_t actor;
  uint64_t step;
};

struct Tap {
  std::string name;
  uint32_t barrier = 0;  // absolute shared offset
  bool tmem = true;
  int32_t column = 0, columns = 0;  // TMEM
  uint32_t offset = 0, bytes = 0;   // shared memory, absolute offset
};

struct Capture {
  int32_t tap = 0;
  Dim3 cta{0, 0, 0};
  int32_t rank = 0;
  uint32_t phase = 0;
  std::vector<uint8_t> data;
  std::vector<uint8_t> valid;
};

struct Config {
  Dim3 grid, block, cluster;
  uint32_t dynamic_shared = 0;
  Policy policy = Policy::Early;
  uint64_t seed = 0;
  uint64_t environment = 0;  // seed of the order of clusters and of TMEM bases; 0: first come, first fit
  bool alone = false;        // no other kernel's CTA has the first columns of tensor memory
  uint32_t together = 0;     // clusters that start at once; 0: drawn from the environment, 1 without one
  uint32_t depth = 3;        // pct
  uint64_t points = 4096;    // pct: scheduling points expected
  bool record = false;       // keep the decisions with which a replay does the same
  // The order of completions in the base of a replay, and of the record.
  CompletionOrder base = CompletionOrder::LastOldest, record_base = CompletionOrder::LastOldest;
  std::vector<Decision> decisions;
  MmaMode mma = MmaMode::Fast;
  uint64_t livelock_limit = 20'000'000;         // warp instructions without any effect on memory or a barrier
  uint64_t instruction_limit = 10'000'000'000;  // warp instructions of a whole launch
  uint64_t trace_limit = 0;                     // events kept; 0: no trace
  bool path = false;                            // the trace keeps branches too
  bool races = false;                           // check happens-before
  bool strict = false;                          // the ISA by the letter
  std::unordered_map<std::string, Weight> weights;  // of codes that weigh otherwise then
  bool grant_claims = false;          // clusterlaunchcontrol requests succeed while clusters wait
  int32_t launch_registers = 0;       // of a thread, 0: not fixed
  double seconds_limit = 0;           // of a launch; 0: none
  std::function<bool()> interrupted;  // whether Python has a signal; may be empty
  uint32_t resident = 1;              // clusters at once, at most
  uint32_t threads = 1;               // that may run clusters
  uint64_t room = ~uint64_t{0};       // bytes of the host that stores to global memory may take
  // Clusters of the grid that run, by number, x fastest; the others are left out.
  std::optional<std::vector<uint32_t>> clusters;
  std::vector<uint64_t> outputs;        // addresses of buffers that the launch must write whole
  GridRecord* grid_record = nullptr;    // what this launch does in global memory is kept there
  std::vector<InFlightGrid> in_flight;  // earlier grids that may not have completed
  std::vector<uint8_t> params;
  std::vector<uint8_t> known_params;  // 1 for each byte that the caller set; empty: all
  std::vector<std::tuple<uint32_t, uint32_t, std::string>> param_names;  // offset, bytes, name
  std::vector<Tap> taps;
  std::vector<uint32_t> recorded;  // instructions whose results are kept (register_record.hpp)
};

}  // namespace tileproof
