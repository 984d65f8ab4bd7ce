// Descriptors as the numbers that they are: taken because they are the lowest, closed one after
// another.
#pragma once

#include <llvm/IR/Instructions.h>

namespace lint {

// Whether it is asked which of the lowest numbers it is, and not only whether it is one.
bool asks_which(const llvm::ICmpInst& cmp);

// Whether the call, or a function that it calls, closes numbers one after another.
bool closes_in_turn(const llvm::CallBase& call);

// Whether numbers are closed as such there: 0 to 2, or one after another.
bool frees_standard(const llvm::Function& f);

}  // namespace lint
