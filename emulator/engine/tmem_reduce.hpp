// tcgen05.ld.red: what is made of the loaded registers.
#pragma once

#include "machine.hpp"

namespace tileproof {

// Puts the least or greatest of what each thread has loaded into its register for it (PTX ISA 9.7.16.8.3).
void reduce_loaded(Engine& e, Warp& w, const PendingTmemLoad& load);

}  // namespace tileproof
