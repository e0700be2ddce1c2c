// The cells that tcgen05.ld and st move, for who frees them.
#pragma once

#include "machine.hpp"

namespace tileproof {

// The cells of a `load`, or of the st that completes now: per column, the lanes of each sixteenth.
void tell_cells(Engine& e, Cta& cta, const Instr& i, int lane0, int column, const PendingTmemLoad* load);

}  // namespace tileproof
