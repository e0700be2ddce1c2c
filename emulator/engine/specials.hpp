// Special registers (PTX ISA 10).
#pragma once

#include "machine.hpp"

namespace tileproof {

// What they hold of a warp that starts.
void fill_specials(const Engine& e, const Cta& cta, Warp& w);

}  // namespace tileproof
