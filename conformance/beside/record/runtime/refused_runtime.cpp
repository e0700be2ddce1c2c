#include "runtime.hpp"

#define X(name) \
  TILEPROOF_API void name() { tileproof::record::not_recorded(#name); }
#include "refused_runtime.inc"
