// A kernel's shared memory against the map of its plan.
#pragma once

#include <cstddef>

// Asserts that a member of SharedStorage lies where Plan puts a tile of shared memory.
#define TILEPROOF_SMEM(member, tile)                                         \
  static_assert(offsetof(SharedStorage, member) == Plan::smem::tile::offset, \
                #tile " is not where the plan puts it")
