// What nobody wrote, read by the tensor core and by copies into tensor memory: no error yet, but followed.
#pragma once

#include "machine.hpp"

namespace tileproof {

// The read behind a cell of tensor memory that is not valid; where none is known `message` tells it.
PoisonId poison_in_cell(Engine& e, const Cta& cta, int lane, int column, const std::string& message,
                        const Origin& at, bool quiet);
// A cell is as if nobody had written it.
void store_poison(Cta& cta, int lane, int column, PoisonId set);
// As Engine::async_read_shared, but for bytes that nobody wrote: the reads behind them go to `poison`.
bool follow_shared(Engine& e, Cta& cta, uint32_t offset, uint32_t size, uint8_t* out, const Origin& at,
                   const char* who, PoisonId& poison);
// The same of bytes that are known to lie in shared memory, also behind the end of their CTA.
bool follow_bytes(Engine& e, Cta& cta, uint32_t offset, uint32_t size, uint8_t* out, const Origin& at,
                  const char* who, PoisonId& poison);

}  // namespace tileproof
