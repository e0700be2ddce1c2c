// setmaxnreg: warps give registers back to their CTA's pool, or wait for them (PTX ISA 9.7.19.5).
#include "machine.hpp"
#include "slots/control.hpp"

namespace tileproof {
namespace {

// imm: registers of a thread. Without a register count that the launch fixes ptxas leaves the
// instruction out. What a warp holds when it exits is taken to stay out of the pool: no source says that it
// returns before the CTA is over.
Step setmaxnreg(Exec& x, const Instr& i) {
  if (!x.e.config.launch_registers) return Step::Next;
  if (!x.whole_warp()) return Step::Block;
  const bool inc = i.m[slot::setmaxnreg::inc];
  const int32_t count = static_cast<int32_t>(i.imm), change = count - x.w.maxnreg;
  if (inc ? change < 0 : change > 0) {
    x.e.fault("setmaxnreg-count",
              std::string("setmaxnreg.") + (inc ? "inc" : "dec") + " to " + std::to_string(count) +
                  " registers by a warp that has " + std::to_string(x.w.maxnreg),
              x.origin(x.lane()));
    return Step::Stop;
  }
  if (32 * change > x.cta.register_pool) {
    x.s->wait = Wait::Registers;
    x.s->token = static_cast<uint32_t>(32 * change);
    return Step::Block;
  }
  x.cta.register_pool -= 32 * change;
  x.w.maxnreg = count;
  ++x.e.progress;
  return Step::Next;
}

const Registrar registers({{"setmaxnreg", setmaxnreg}});

}  // namespace
}  // namespace tileproof
