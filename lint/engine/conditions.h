// The branches above a place and what they say of it.
#pragma once

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>

#include <utility>
#include <vector>

#include "ranges.h"

namespace lint {

using Edges = std::vector<std::pair<const llvm::Instruction*, const llvm::BasicBlock*>>;

// The branches above a place, and where each went, the nearest first.
Edges edges_above(const llvm::DominatorTree& tree, const llvm::Instruction& at);

// What it means that a branch went there; false if it cannot have been.
bool assume_edge(Reasoning& reasoning, const llvm::Instruction& end, const llvm::BasicBlock& to);

// Whether each round of the loop, which has one latch, adds one to the counter.
bool counts_by_one(const llvm::PHINode& counter, const llvm::Loop& loop);

// Whether a branch asks only whether an argument of the call is null: `if (p[i]) free(p[i]);`
bool asks_for_null(const llvm::Instruction& end, const llvm::CallBase& call);

}  // namespace lint
