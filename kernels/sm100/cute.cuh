// What the kernels of this folder use of CuTe and CUTLASS.
//
// To read those headers is most of what a compilation takes. A copy with a planted defect (TILEPROOF_EDITED)
// reads the same names from cute_names.cuh: tests/kernels/test_cute_names.py holds that both make the same
// instructions.
#pragma once

#ifdef TILEPROOF_EDITED
#include "sm100/cute_names.cuh"
#else
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm100_tma.hpp>
#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/arch/mma_sm100_desc.hpp>
#include <cute/arch/tmem_allocator_sm100.hpp>
#include <cute/arch/util.hpp>
#include <cute/config.hpp>
#include <cutlass/arch/barrier.h>
#include <cutlass/numeric_types.h>
#endif
