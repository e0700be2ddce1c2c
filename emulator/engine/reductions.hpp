// Reductions whose result nothing asks for: two of one kind may be exchanged.
#pragma once

#include <string>

#include "program.hpp"

namespace tileproof {

struct Change;

// The operation and type of an atomic operation without a result; "" of any other instruction. `by`: of an
// asynchronous reduction; a tensor map has the type of its elements.
std::string reduction_kind(const Program& program, const Instr& i, const Change* by = nullptr);
// Whether reductions of a kind round in their order.
bool rounds(const std::string& kind);

}  // namespace tileproof
