// The units of the machine that warps and asynchronous operations share: units.py on the engine.
#include <algorithm>

#include "timing.hpp"

namespace tileproof::timing {

namespace {
constexpr double kPassBytes = 128, kLine = 128, kSector = 32;
}

Units::Units(const Program& program, const Figures& figures, bool alone, double working_set, Result& out,
             Host& host)
    : program_(program), f_(figures), alone_(alone), out_(out), host_(host) {
  if (working_set != 0 && !alone) missing_ = std::max(0.0, 1 - f_[l2_bytes] * 1e6 / working_set);
  const auto ctas = static_cast<size_t>(program.ctas);
  free_.assign(ctas * kUnits * kParts, 0.0);
  tensor_done_.assign(ctas, 0.0);
  operands_.resize(ctas);
  busy_at_.assign(ctas * kUnits, -1);
  copies_.assign(program.warps.size(), 0.0);
}

void Units::busy(int64_t cta, Unit unit, double clocks) {
  int32_t& at = busy_at_[static_cast<size_t>(cta * kUnits + static_cast<int>(unit))];
  if (at < 0) {
    at = static_cast<int32_t>(out_.busy.size());
    out_.busy.push_back({static_cast<int32_t>(cta), unit, 0.0});
  }
  out_.busy[static_cast<size_t>(at)].clocks += clocks;
}

double Units::serve(int64_t cta, Unit unit, double time, double clocks, int64_t line, int64_t part,
                    int64_t parts) {
  double& until = free(cta, unit, part);
  const double start = std::max(time, until);
  until = start + clocks;
  busy(cta, unit, clocks / static_cast<double>(parts));
  out_.spans.push_back({static_cast<int64_t>(unit), cta, line, start, start + clocks});
  return start + clocks;
}

double Units::ahead(int64_t cta, double time) {
  if (alone_) return time;
  const double queue = f_[addition_queue] / f_[addition_rate_all];
  return std::max(time, std::max(free(cta, Unit::L2Additions), free(cta, Unit::L2)) - queue);
}

std::pair<double, double> Units::of_port(const Touched& what) {
  const double each = f_[addition_line];
  const double scale = kSector / (1 + each * kSector / kLine);
  return {(what.sectors + each * what.lines) * scale, scale};
}

double Units::port_clocks(const Touched& what) { return of_port(what).first / f_[addition_rate]; }

std::pair<double, double> Units::add(int64_t cta, const Touched& what, double time, int64_t line) {
  const auto [sent, scale] = of_port(what);
  const double done = sent + f_[addition_single] * what.single * scale;
  double missed = 0;
  if (missing_ != 0) missed = 2 * missing_ * (what.sectors + what.single) * kSector / f_[memory_rate];
  return l2(cta, true, sent, done, missed, time, line);
}

std::pair<double, double> Units::read(int64_t cta, double bytes, double time, int64_t line) {
  auto [sent, done] = l2(cta, false, bytes, bytes, 0.0, time, line);
  if (missing_ != 0) {
    const double missed = missing_ * bytes / f_[memory_rate];
    done = std::max(done, serve(cta, Unit::Memory, time, missed, line));
  }
  return {sent, done};
}

std::pair<double, double> Units::l2(int64_t cta, bool additions, double sent, double done, double missed,
                                    double time, int64_t line) {
  const double own = f_[additions ? addition_rate : read_rate];
  const double every = f_[additions ? addition_rate_all : read_rate_all];
  const double out = serve(cta, Unit::Port, time, sent / own, line);
  double end = out;
  if (!alone_) {
    const double kind =
        serve(cta, additions ? Unit::L2Additions : Unit::L2Reads, time, done / every + missed, line);
    const double both = serve(cta, Unit::L2, time, done / every / f_[l2_overlap] + missed, line);
    end = std::max(std::max(out, kind), both);
  }
  return {out, end};
}

double Units::shared(int64_t cta, int64_t scheduler, double passes, double time, int64_t line) {
  const double bank = through(cta, passes, time, line);
  double& quarter = free(cta, Unit::LoadStore, scheduler);
  quarter = std::max(time, quarter) + f_[quarter_pass] * passes;
  return std::max(bank, quarter);
}

double Units::through(int64_t cta, double passes, double time, int64_t line) {
  double& until = free(cta, Unit::SharedMemory);
  const double start = std::max(time, until);
  const double clocks = passes * kPassBytes / f_[shared_rate];
  const double end = beside(operands_[static_cast<size_t>(cta)], start, clocks);
  until = end;
  busy(cta, Unit::SharedMemory, clocks);
  out_.spans.push_back({static_cast<int64_t>(Unit::SharedMemory), cta, line, start, end});
  return end;
}

double Units::beside(const Operands& operands, double time, double clocks) {
  auto at = static_cast<size_t>(std::upper_bound(operands.ends.begin(), operands.ends.end(), time) -
                                operands.ends.begin());
  const double least = f_[shared_beside_mma];
  while (clocks > 0 && at < operands.begins.size()) {
    const double gap = std::max(0.0, operands.begins[at] - time);
    if (clocks <= gap) break;
    clocks -= gap;
    time = std::max(time, operands.begins[at]);
    const double rate = std::max(least, 1 - operands.shares[at]);
    const double room = (operands.ends[at] - time) * rate;
    if (clocks <= room) return time + clocks / rate;
    clocks -= room;
    time = operands.ends[at];
    ++at;
  }
  return time + clocks;
}

void Units::start(int64_t number, int64_t warp, double time) {
  const Operation& op = program_.operations[static_cast<size_t>(number)];
  const auto who = static_cast<int32_t>(warp);
  switch (static_cast<Does>(op.does)) {
    case Does::Mma:
      return mma(op, program_.rates[static_cast<size_t>(number)], time);
    case Does::Commit: {
      const double done = std::max(time, tensor_done_[static_cast<size_t>(op.cta)]) + f_[commit];
      return finish(op, {who, Unit::TensorCore, op.line, time, time, done}, done);
    }
    case Does::Load:
    case Does::Exchange:
      return copy(number, warp, time);
    case Does::Copy:
      return read_of(number, warp, time, time, f_[global_load], Unit::L2, 0.0);
    case Does::Store:
    case Does::Addition:
      return store(op, warp, time);
    case Does::RemoteStore:
      return remote(number, warp, time);
    case Does::Other:
      break;
  }
  const double done = time + f_[other];
  finish(op, {who, Unit::Other, op.line, time, time, done}, done);
}

void Units::run(const Later& what, double time) {
  if (what.type == Later::Read)
    read_of(what.operation, what.warp, what.issued, time, what.latency, Unit::Copies, what.busy);
  else
    land(what.operation, what.origin, time, what.latency);
}

void Units::finish(const Operation& op, const Origin& origin, double done) {
  for (int64_t n = 0; n < op.feed_count; ++n)
    host_.contribute(done, program_.feeds[static_cast<size_t>(op.feeds + n)], origin);
}

void Units::mma(const Operation& op, const Rates& rates, double time) {
  const int64_t twin = op.pair ? program_.twins[static_cast<size_t>(op.cta)] : -1;
  const std::array<int64_t, 2> places{op.cta, twin};
  const size_t count = twin >= 0 ? 2 : 1;
  time = time + f_[mma_issue];
  for (size_t n = 0; n < count; ++n) time = std::max(time, free(places[n], Unit::TensorCore));
  for (size_t n = 0; n < count; ++n) {
    const int64_t cta = places[n];
    const double done = serve(cta, Unit::TensorCore, time, rates.clocks, op.line);
    double& tensor = tensor_done_[static_cast<size_t>(cta)];
    tensor = std::max(tensor, done + f_[mma_latency]);
    Operands& seen = operands_[static_cast<size_t>(cta)];
    seen.begins.push_back(done - rates.clocks);
    seen.ends.push_back(done);
    seen.shares.push_back(rates.operands / rates.clocks);
    busy(cta, Unit::SharedMemory, rates.operands);
  }
}

void Units::copy(int64_t number, int64_t warp, double time) {
  const Operation& op = program_.operations[static_cast<size_t>(number)];
  const double clocks = f_[copy_issue] + static_cast<double>(op.amount) / f_[copy_rate];
  const double done = serve(op.cta, Unit::Copies, time, clocks, op.line);
  Later next{Later::Read, number, 0, warp, {}, time, 0.0, done};
  if (static_cast<Does>(op.does) == Does::Exchange) {
    const double sent = serve(op.cta, Unit::RemoteStores, done - clocks, remote_clocks(number), op.line);
    const double at = std::max(done, sent) + f_[remote_store_latency];
    next.type = Later::Land;
    next.origin = {static_cast<int32_t>(warp), Unit::Copies, op.line, time, done - clocks, at};
    return host_.later(at, next);
  }
  next.latency = f_[copy_latency];
  host_.later(done - clocks, next);
}

void Units::read_of(int64_t number, int64_t warp, double issued, double time, double latency, Unit unit,
                    double busy) {
  const Operation& op = program_.operations[static_cast<size_t>(number)];
  double done = read(op.cta, static_cast<double>(op.amount), time, op.line).second;
  done = std::max(done, busy);
  Later next{Later::Land, number, 0, warp, {}, issued, latency, 0.0};
  next.origin = {static_cast<int32_t>(warp), unit, op.line, issued, time, done + latency};
  if (static_cast<Does>(op.does) == Does::Copy) {
    double& copies = copies_[static_cast<size_t>(warp)];
    copies = std::max(copies, done + latency);
  }
  host_.later(done, next);
}

void Units::land(int64_t number, const Origin& origin, double time, double latency) {
  const Operation& op = program_.operations[static_cast<size_t>(number)];
  double done = 0;
  for (int64_t n = 0; n < op.place_count; ++n) {
    const int64_t cta = program_.places[static_cast<size_t>(op.places + n)];
    const double there = through(cta, static_cast<double>(op.amount) / kPassBytes, time, op.line);
    done = n ? std::max(done, there) : there;
  }
  finish(op, origin, done + latency);
}

void Units::store(const Operation& op, int64_t warp, double time) {
  const auto amount = static_cast<double>(op.amount);
  const double clocks = amount / f_[store_rate];
  double read = serve(op.cta, Unit::BulkStores, time, clocks, op.line);
  const double began = read - clocks;
  read = std::max(read, through(op.cta, amount / kPassBytes, began, op.line));
  if (static_cast<Does>(op.does) == Does::Addition) {
    read = add(op.cta, {amount / kLine, 0.0, amount / kSector}, began, op.line).second;
  } else if (!alone_) {
    const double rate = f_[store_rate_all];
    read = std::max(read, serve(op.cta, Unit::L2Stores, began, amount / rate, op.line));
  }
  read += f_[store_read];
  const Origin origin{static_cast<int32_t>(warp), Unit::BulkStores, op.line, time, began, read};
  for (int64_t n = 0; n < op.read_count; ++n)
    host_.contribute(read, program_.reads[static_cast<size_t>(op.reads + n)], origin);
  finish(op, origin, read + f_[store_done]);
}

double Units::remote_clocks(int64_t number) {
  const Operation& op = program_.operations[static_cast<size_t>(number)];
  const double scattered =
      1 + (f_[remote_store_scattered] - 1) * program_.rates[static_cast<size_t>(number)].scattered;
  return static_cast<double>(op.amount) * scattered / f_[remote_store_rate];
}

void Units::remote(int64_t number, int64_t warp, double time) {
  const Operation& op = program_.operations[static_cast<size_t>(number)];
  const double clocks = remote_clocks(number);
  const double done = serve(op.cta, Unit::RemoteStores, time, clocks, op.line);
  const double at = done + f_[remote_store_latency];
  Later next{Later::Land, number, 0, warp, {}, time, 0.0, 0.0};
  next.origin = {static_cast<int32_t>(warp), Unit::RemoteStores, op.line, time, done - clocks, at};
  host_.later(at, next);
}

}  // namespace tileproof::timing
