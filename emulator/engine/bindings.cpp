// pybind11 bindings: a program, a launch, and the small functions that tests hold against spec/machine.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>

#include "grids.hpp"
#include "machine.hpp"
#include "mma.hpp"
#include "schedule.hpp"
#include "tmem_map.hpp"

namespace py = pybind11;
using namespace tileproof;

namespace tileproof {
py::dict hang_state(const Engine& engine);  // hang_state.cpp
// schedule_state.cpp
void read_schedule(const py::dict& from, Config& config);
void write_schedule(const Engine& engine, py::dict& result);
void bind_products(py::module_& m);  // mma_bindings.cpp
void bind_clock(py::module_& m);     // race_clock_bindings.cpp
void bind_timing(py::module_& m);    // timing_bindings.cpp
}  // namespace tileproof

namespace {

Dim3 dim3(const std::tuple<uint32_t, uint32_t, uint32_t>& t) {
  return {std::get<0>(t), std::get<1>(t), std::get<2>(t)};
}

std::unique_ptr<Program> make_program(const std::string& kernel, py::bytes code, py::bytes vec,
                                      py::bytes constants, std::vector<std::string> names,
                                      std::vector<std::string> sources,
                                      const std::vector<std::pair<int32_t, int32_t>>& specials,
                                      int64_t register_bytes, py::bytes register_widths, int64_t local_bytes,
                                      int64_t static_shared_bytes) {
  auto p = std::make_unique<Program>();
  p->kernel = kernel;
  p->names = std::move(names);
  p->sources = std::move(sources);
  p->register_bytes = register_bytes;
  const std::string widths = register_widths;
  p->register_widths.assign(widths.begin(), widths.end());
  if (p->register_widths.size() * 64 != static_cast<size_t>(register_bytes))
    throw py::value_error("the widths are not those of the register file");
  p->local_bytes = local_bytes;
  p->static_shared_bytes = static_shared_bytes;
  const std::string c = code, v = vec, k = constants;
  if (c.size() % sizeof(PackedInstr))
    throw py::value_error("code is not a whole number of packed instructions");
  p->vec.resize(v.size() / 4 + 1);
  std::memcpy(p->vec.data(), v.data(), v.size());
  p->constants.assign(k.begin(), k.end());
  for (auto [offset, kind] : specials) p->specials.push_back({offset, static_cast<Special>(kind)});
  const auto& table = handler_table();
  for (size_t n = 0; n < c.size() / sizeof(PackedInstr); ++n) {
    PackedInstr in;
    std::memcpy(&in, c.data() + n * sizeof in, sizeof in);
    Instr out{};
    out.fn = table.at(static_cast<size_t>(in.handler));
    out.pred = in.pred;
    out.pred_neg = in.pred_neg;
    std::memcpy(out.o, in.o, sizeof out.o);
    std::memcpy(out.m, in.m, sizeof out.m);
    out.imm = in.imm;
    out.vec = in.vec;
    out.nvec = in.nvec;
    out.target = in.target;
    out.rpc = in.rpc;
    out.line = in.line;
    out.source = in.source;
    out.name = in.name;
    out.visible = visible(out);
    out.written = written_operands(out.fn);
    out.vec_from = static_cast<uint8_t>(in.written[0]);
    out.vec_end = static_cast<uint8_t>(in.written[1]);
    p->code.push_back(out);
  }
  return p;
}

// What a kernel may have put into a message, or printed, need not be UTF-8.
py::str text(const std::string& s) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
}

py::dict origin_dict(const Program& p, const Origin& o) {
  py::dict d;
  const Instr* i = o.instr;
  d["line"] = i ? i->line : 0;
  d["instruction"] = i ? p.names[static_cast<size_t>(i->name)] : std::string();
  d["source"] = i && i->source >= 0 ? p.sources[static_cast<size_t>(i->source)] : std::string();
  d["cta"] = py::make_tuple(o.cta.x, o.cta.y, o.cta.z);
  d["rank"] = o.rank;
  d["warp"] = o.warp;
  d["lane"] = o.lane;
  return d;
}

// Launches that run in this process. When the interpreter ends it kills a thread that asks for the GIL, in
// the middle of C++ code, which aborts the process: so the end asks launches to stop, and waits for them.
std::atomic<int> running{0};
std::atomic<bool> ends{false};
std::thread::id ending_thread;

bool must_end() { return ends && std::this_thread::get_id() != ending_thread; }

struct Ending : std::runtime_error {
  Ending() : std::runtime_error("the interpreter ends") {}
};

struct Running {
  Running() {
    if (must_end()) throw Ending();
    ++running;
  }
  ~Running() {
    for (int n = running; n > 0 && !running.compare_exchange_weak(n, n - 1);) {
    }
  }
};

void end_launches() {
  ending_thread = std::this_thread::get_id();
  ends = true;
  py::gil_scoped_release release;
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (running > 0 && std::chrono::steady_clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

py::dict launch(
    const Program& program,
    const std::vector<std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, bool, std::string>>&
        buffers,
    const std::tuple<uint32_t, uint32_t, uint32_t>& grid,
    const std::tuple<uint32_t, uint32_t, uint32_t>& block,
    const std::tuple<uint32_t, uint32_t, uint32_t>& cluster, uint32_t dynamic_shared, py::bytes params,
    py::bytes known_params, const std::vector<std::tuple<uint32_t, uint32_t, std::string>>& param_names,
    int policy, uint64_t seed, int mma, uint64_t livelock_limit, uint64_t instruction_limit,
    const std::vector<std::tuple<std::string, uint32_t, bool, int32_t, int32_t, uint32_t, uint32_t>>& taps,
    uint64_t trace_limit, bool path, bool races, const py::dict& schedule, int32_t launch_registers,
    bool grant_claims, const std::optional<std::vector<std::tuple<std::string, int, bool>>>& strict,
    double seconds_limit, uint32_t resident, uint64_t room, uint32_t threads,
    const std::optional<std::vector<uint32_t>>& clusters, const std::vector<uint64_t>& outputs,
    GridRecord* grid_record, const std::vector<std::pair<GridRecord*, int32_t>>& in_flight,
    const std::vector<uint32_t>& recorded) {
  const Running counted;
  GlobalMemory memory;
  for (const auto& [address, size, data, written, pages, writable, name] : buffers) {
    GlobalBuffer b;
    b.address = address;
    b.size = size;
    b.data = reinterpret_cast<uint8_t*>(data);
    b.written = reinterpret_cast<uint8_t*>(written);
    b.pages = reinterpret_cast<uint8_t*>(pages);
    b.writable = writable;
    b.name = name;
    memory.add(b);
  }
  Config c;
  c.grid = dim3(grid);
  c.block = dim3(block);
  c.cluster = dim3(cluster);
  c.dynamic_shared = dynamic_shared;
  c.policy = static_cast<Policy>(policy);
  c.seed = seed;
  c.mma = static_cast<MmaMode>(mma);
  c.livelock_limit = livelock_limit;
  c.instruction_limit = instruction_limit;
  c.trace_limit = trace_limit;
  c.path = path;
  c.races = races;
  c.strict = strict.has_value();
  if (strict)
    for (const auto& [code, severity, stops] : *strict)
      c.weights[code] = {static_cast<Severity>(severity), stops};
  c.launch_registers = launch_registers;
  c.resident = resident;
  c.room = room;
  c.threads = threads;
  c.clusters = clusters;
  c.outputs = outputs;
  c.grid_record = grid_record;
  c.recorded = recorded;
  for (const auto& [grid, how] : in_flight) c.in_flight.emplace_back(grid, static_cast<InFlight>(how));
  c.grant_claims = grant_claims;
  c.seconds_limit = seconds_limit;
  c.interrupted = [] {
    if (must_end()) return true;
    py::gil_scoped_acquire hold;
    return PyErr_CheckSignals() != 0;  // what the signal raised is thrown when the engine has returned
  };
  read_schedule(schedule, c);
  const std::string bytes = params;
  c.params.assign(bytes.begin(), bytes.end());
  const std::string known = known_params;
  c.known_params.assign(known.begin(), known.end());
  c.param_names = param_names;
  for (const auto& [name, barrier, tmem, column, columns, offset, size] : taps)
    c.taps.push_back({name, barrier, tmem, column, columns, offset, size});
  Engine engine(program, memory, c);
  {
    py::gil_scoped_release release;
    engine.run();
  }
  if (engine.interrupted && !PyErr_Occurred()) throw Ending();
  if (engine.interrupted) throw py::error_already_set();
  py::list findings;
  for (const Finding& f : engine.sink.findings) {
    py::dict d = origin_dict(program, f.at);
    d["severity"] = static_cast<int>(f.severity);
    d["code"] = f.code;
    d["message"] = text(f.message);
    d["address"] = f.address;
    d["count"] = f.count;
    py::list waiters;
    for (const Waiter& w : f.waiters) {
      py::dict e = origin_dict(program, w.at);
      e["lanes"] = w.lanes;
      e["waits_for"] = w.waits_for;
      e["barrier"] = w.barrier;
      e["parity"] = w.parity;
      e["phase"] = w.phase;
      e["pending"] = w.pending;
      e["tx"] = w.tx;
      waiters.append(e);
    }
    d["waiters"] = waiters;
    if (f.has_race) {
      py::dict r = origin_dict(program, f.race.first);
      if (const GridPlace* p = f.race.earlier) {
        r["line"] = p->line;
        r["instruction"] = p->instruction;
        r["source"] = p->source;
      }
      r["lanes"] = f.race.first_lanes;
      r["nth"] = f.race.first_nth;
      r["writes"] = f.race.first_writes;
      r["then_nth"] = f.race.second_nth;
      r["then_writes"] = f.race.second_writes;
      r["missing"] = f.race.missing;
      if (f.race.step != kNoStep) r["hold"] = py::make_tuple(f.race.actor, f.race.step);
      r["space"] = f.race.space;
      r["space_rank"] = f.race.space_rank;
      r["tmem_base"] = f.race.tmem_base;
      r["buffer"] = f.race.buffer;
      r["after"] = py::make_tuple(f.race.first_barrier, f.race.first_phase);
      r["then_after"] = py::make_tuple(f.race.second_barrier, f.race.second_phase);
      d["race"] = r;
    }
    findings.append(d);
  }
  const Counters& n = engine.counters;
  py::dict counters;
  counters["warp_instructions"] = n.warp_instructions;
  counters["barrier_phases"] = n.barrier_phases;
  counters["tma_load_bytes"] = n.tma_load_bytes;
  counters["tma_store_bytes"] = n.tma_store_bytes;
  counters["bulk_bytes"] = n.bulk_bytes;
  counters["shared_bytes"] = n.shared_bytes;
  counters["global_bytes"] = n.global_bytes;
  counters["tmem_bytes"] = n.tmem_bytes;
  counters["atomic_bytes"] = n.atomic_bytes;
  counters["mma_instructions"] = n.mma_instructions;
  counters["mma_macs"] = n.mma_macs;
  counters["async_operations"] = n.async_operations;
  counters["divergent_releases"] = n.divergent_releases;
  counters["cp_async_bytes"] = n.cp_async_bytes;
  counters["claimed_clusters"] = n.claimed_clusters;
  counters["schedule_points"] = n.schedule_points;
  py::list records;
  for (Capture& r : engine.tap_records) {
    py::dict d;
    d["tap"] = r.tap;
    d["cta"] = py::make_tuple(r.cta.x, r.cta.y, r.cta.z);
    d["rank"] = r.rank;
    d["phase"] = r.phase;
    d["data"] = py::bytes(reinterpret_cast<const char*>(r.data.data()), r.data.size());
    d["valid"] = py::bytes(reinterpret_cast<const char*>(r.valid.data()), r.valid.size());
    records.append(d);
    r = Capture{};  // not twice in memory
  }
  py::dict result;
  result["findings"] = findings;
  result["host_threads"] = engine.threads_used;
  result["printf"] = py::bytes(engine.printf_text);
  py::list limited;
  for (const auto& [what, count] : engine.cut) limited.append(py::make_tuple(what, count));
  if (engine.sink.dropped) limited.append(py::make_tuple("findings", engine.sink.dropped));
  result["limited"] = limited;
  result["counters"] = counters;
  result["executed"] =
      py::bytes(reinterpret_cast<const char*>(engine.executed.data()), engine.executed.size());
  py::list stored;
  for (const GlobalBuffer& b : engine.memory.buffers())
    if (b.stored) stored.append(b.address);
  result["stored"] = stored;
  result["taps"] = records;
  py::list kept;
  if (engine.recorded) {
    for (auto& r : engine.recorded->results) {
      kept.append(py::make_tuple(r.registers.size(), py::bytes(reinterpret_cast<const char*>(r.words.data()),
                                                               r.words.size() * sizeof(uint32_t))));
      r.words = {};  // not twice in memory
    }
    if (engine.recorded->dropped)
      limited.append(py::make_tuple("executions of recorded instructions", engine.recorded->dropped));
  }
  result["recorded"] = kept;
  py::list inits;
  for (const auto& [rank, offset, count] : engine.inits) inits.append(py::make_tuple(rank, offset, count));
  result["mbarriers"] = inits;
  py::list announced;
  for (const auto& [rank, offset, bytes] : engine.announced)
    announced.append(py::make_tuple(rank, offset, bytes));
  result["announced"] = announced;
  const Obligations& due = engine.obligations;
  result["obligations"] = py::dict(py::arg("arrivals") = due.arrivals, py::arg("waits") = due.waits,
                                   py::arg("held") = due.held, py::arg("announcements") = due.announcements);
  py::list doubts;
  for (const Doubt& doubt : engine.doubts) {
    py::dict d = origin_dict(program, doubt.at);
    d["reason"] = doubt.reason;
    d["text"] = doubt.text;
    d["other"] = origin_dict(program, doubt.other);
    d["count"] = doubt.count;
    d["first_column"] = doubt.first_column;
    if (doubt.hold.step != kNoStep) d["hold"] = py::make_tuple(doubt.hold.actor, doubt.hold.step);
    doubts.append(d);
  }
  result["doubts"] = doubts;
  result["sums"] = engine.sums;
  result["additions"] = py::make_tuple(engine.additions.sums[0], engine.additions.sums[1]);
  const Trace* trace = engine.trace.get();
  result["events"] = trace ? py::bytes(reinterpret_cast<const char*>(trace->events.data()),
                                       trace->events.size() * sizeof(TraceEvent))
                           : py::bytes();
  result["events_dropped"] = trace ? trace->dropped : 0;
  if (engine.hung) result["hang"] = hang_state(engine);
  write_schedule(engine, result);
  return result;
}

// The table of spec/machine/descriptor_rules.py, as its `handed_over` gives it.
using Field = std::tuple<std::string, int, int, std::vector<int>, std::string>;
using Conflict = std::tuple<std::string, std::vector<int>, std::string, std::vector<int>, std::string>;

uint64_t mask_of(const std::vector<int>& codes) {
  uint64_t mask = 0;
  for (int code : codes) mask |= 1ull << code;
  return mask;
}

DescriptorRules rules_of(const std::vector<Field>& fields, const std::vector<Conflict>& conflicts) {
  DescriptorRules r;
  for (const auto& [name, low, bits, codes, only] : fields)
    r.fields.push_back({name, low, bits, mask_of(codes), only});
  auto named = [&](const std::string& name) {
    for (const DescriptorField& f : r.fields)
      if (f.name == name) return f;
    throw py::value_error("no field " + name);
  };
  for (const auto& [first, first_codes, second, second_codes, why] : conflicts)
    r.conflicts.push_back({named(first), named(second), mask_of(first_codes), mask_of(second_codes), why});
  return r;
}

void set_mma_rules(
    const std::vector<std::tuple<std::string, int, int, std::vector<Field>, std::vector<Conflict>>>& formats,
    const std::vector<std::tuple<std::vector<Field>, std::vector<Conflict>>>& matrix,
    const std::vector<std::tuple<int, int, bool, bool, bool, int, uint64_t>>& shapes) {
  if (formats.size() != kFormats || matrix.size() != 2) throw py::value_error("not the rules of this engine");
  MmaRules made;
  for (const auto& [name, k, scales, fields, conflicts] : formats)
    made.formats.push_back({name, k, scales, rules_of(fields, conflicts)});
  for (size_t n = 0; n < 2; ++n) made.matrix[n] = rules_of(std::get<0>(matrix[n]), std::get<1>(matrix[n]));
  for (const auto& [format, group, ws, a_in_tmem, transposed, rows, ns] : shapes)
    made.shapes.push_back({static_cast<Format>(format), group, ws, a_in_tmem, transposed, rows, ns});
  mma_rules() = std::move(made);
}

using HostBuffer = std::tuple<uint64_t, uint64_t, uint64_t>;

GlobalBuffer of_host(const HostBuffer& given) {
  GlobalBuffer b;
  b.address = std::get<0>(given);
  b.size = std::get<1>(given);
  b.data = reinterpret_cast<uint8_t*>(std::get<2>(given));
  return b;
}

void check_host(const GlobalBuffer& b, uint64_t first, uint64_t count) {
  if (first > b.size || count > b.size - first)
    throw std::out_of_range("an access of the host exceeds its buffer");
}

void host_touches(GridRecord& record, const HostBuffer& buffer, uint64_t first, uint64_t count, bool write,
                  const std::string& what) {
  const GlobalBuffer b = of_host(buffer);
  check_host(b, first, count);
  record.touch(b, first, count, write, what);
}

py::object host_meets(const GridRecord& record, const HostBuffer& buffer, uint64_t first, uint64_t count,
                      bool write) {
  const GridPlace* p = nullptr;
  bool wrote = false;
  const GlobalBuffer b = of_host(buffer);
  check_host(b, first, count);
  const int64_t at = record.meets(b, first, count, write, false, &p, &wrote);
  if (at < 0) return py::none();
  const auto cta = py::make_tuple(p->at.cta.x, p->at.cta.y, p->at.cta.z);
  return py::make_tuple(at, p->instruction, p->line, p->source, cta, p->at.warp, wrote);
}

}  // namespace

PYBIND11_MODULE(_engine, m) {
  m.doc() = "The SM100 engine: executes decoded PTX.";
  py::register_exception<Ending>(m, "Ending");
  py::module_::import("atexit").attr("register")(py::cpp_function(&end_launches));
  pthread_atfork(nullptr, nullptr,
                 [] { running = 0; });  // the launches of other threads are not in the child
  py::class_<Program>(m, "Program")
      .def(py::init(&make_program), py::arg("kernel"), py::arg("code"), py::arg("vec"), py::arg("constants"),
           py::arg("names"), py::arg("sources"), py::arg("specials"), py::arg("register_bytes"),
           py::arg("register_widths"), py::arg("local_bytes"), py::arg("static_shared_bytes"));
  py::class_<GridRecord>(m, "GridRecord")
      .def(py::init<>())
      .def_readwrite("number", &GridRecord::number)
      .def_readwrite("where", &GridRecord::where)
      .def("touch", &host_touches, py::arg("buffer"), py::arg("first"), py::arg("count"), py::arg("write"),
           py::arg("what"), "Notes an access of the host to a buffer (address, bytes, data pointer).")
      .def("meets", &host_meets, py::arg("buffer"), py::arg("first"), py::arg("count"), py::arg("write"),
           "The first byte that such an access conflicts with, and the other access: (byte, instruction, "
           "PTX line, source, CTA, warp, it wrote), or None.")
      .def_readwrite("certified", &GridRecord::certified)
      .def_readwrite("part", &GridRecord::part)
      .def_readonly("kernel", &GridRecord::kernel)
      .def_readonly("dependents", &GridRecord::dependents)
      .def_readonly("early", &GridRecord::early)
      .def_readonly("waited", &GridRecord::waited);
  m.def("launch", &launch, py::arg("program"), py::arg("buffers"), py::arg("grid"), py::arg("block"),
        py::arg("cluster"), py::arg("dynamic_shared"), py::arg("params"), py::arg("known_params"),
        py::arg("param_names"), py::arg("policy"), py::arg("seed"), py::arg("mma"), py::arg("livelock_limit"),
        py::arg("instruction_limit"), py::arg("taps"), py::arg("trace_limit"), py::arg("path"),
        py::arg("races"), py::arg("schedule") = py::dict(), py::arg("launch_registers") = 0,
        py::arg("grant_claims") = false, py::arg("strict") = py::none(), py::arg("seconds_limit") = 0.0,
        py::arg("resident") = 1, py::arg("room") = ~uint64_t{0}, py::arg("threads") = 1,
        py::arg("clusters") = py::none(), py::arg("outputs") = std::vector<uint64_t>{},
        py::arg("grid_record") = nullptr, py::arg("in_flight") = py::list(),
        py::arg("recorded") = std::vector<uint32_t>{});
  m.def("handlers", &handler_ids, "Handler names and their numbers.");
  m.def("set_mma_rules", &set_mma_rules, "Hands over spec.machine.descriptor_rules.");
  m.def(
      "wrong_instruction",
      [](uint32_t word, int format, bool ws, bool sparse, bool a_in_tmem) {
        return wrong_instruction(word, {static_cast<Format>(format), 1, ws, sparse, a_in_tmem});
      },
      py::arg("word"), py::arg("format"), py::kw_only(), py::arg("ws") = false, py::arg("sparse") = false,
      py::arg("a_in_tmem") = false);
  m.def("wrong_matrix", &wrong_matrix, py::arg("word"), py::kw_only(), py::arg("transposed_tf32") = false);
  m.attr("PACKED_INSTR_BYTES") = sizeof(PackedInstr);
  m.attr("PAGE_BYTES") = kPageBytes;
  // For tests against spec/machine:
  bind_products(m);
  bind_clock(m);
  bind_timing(m);
  m.def(
      "wrong_tensor_map",
      [](const std::string& bytes) {
        EncodedTensorMap e;
        if (bytes.size() != sizeof e) throw py::value_error("a tensor map has 128 bytes");
        std::memcpy(&e, bytes.data(), sizeof e);
        return wrong_tensor_map(e);
      },
      py::arg("bytes"));
  // The chunk that holds the element; `bits` is what an element takes, padding included.
  m.def(
      "chunk_address",
      [](uint64_t desc, bool mn_major, int mn, int k, int bits) {
        const MatrixDescriptor d = decode_smem_desc(desc);
        return mn_major ? mn_chunk(d, mn * bits / 128, k) : k_chunk(d, mn, k * bits / 128);
      },
      py::arg("descriptor"), py::arg("mn_major"), py::arg("mn"), py::arg("k"), py::arg("bits") = 16);
  m.def("zero_columns", &zero_columns);
  m.def("tmem_place", [](int shape, int t, int i, int second) {
    return tmem_place(static_cast<TmemShape>(shape), t, i, second);
  });
  m.def(
      "check_mma",
      [](uint32_t idesc, int cta_group, bool ws, uint64_t a, uint64_t b, bool a_in_tmem, uint32_t d,
         int format, uint64_t zero_mask) {
        MmaRequest r;
        r.format = static_cast<Format>(format);
        r.idesc = idesc;
        r.cta_group = cta_group;
        r.ws = ws;
        r.a = a;
        r.b = b;
        r.a_in_tmem = a_in_tmem;
        r.d_taddr = d;
        r.zero_mask = zero_mask;
        return check_mma(r);
      },
      py::arg("idesc"), py::arg("cta_group"), py::arg("ws"), py::arg("a"), py::arg("b"), py::arg("a_in_tmem"),
      py::arg("d"), py::arg("format") = 0, py::arg("zero_mask") = 0);
}
