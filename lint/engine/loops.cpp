// Loops: what they leave as it is, and what happens in them at least once, is not followed. What
// hangs on it is possible, no more (solver.h).
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/IntrinsicInst.h>

#include "solver.h"

namespace lint {
namespace {

// Whether each round of the loop computes the same, if it changes nothing that is read.
bool is_constant_in(const llvm::Value* v, const llvm::Loop& loop, int depth = 6) {
  const auto* i = llvm::dyn_cast<llvm::Instruction>(v);
  if (llvm::isa<llvm::AllocaInst>(v)) return false;  // what its own variable holds may change
  if (i == nullptr || !loop.contains(i)) return true;
  return depth > 0 &&
         llvm::isa<llvm::LoadInst, llvm::GetElementPtrInst, llvm::CastInst, llvm::ICmpInst,
                   llvm::BinaryOperator, llvm::CallInst>(i) &&
         llvm::all_of(i->operands(), [&](const llvm::Use& use) {
           return is_constant_in(use.get(), loop, depth - 1);
         });
}

// Whether the variable is made anew in the loop or not by a question that is answered the same in
// each round: `if (asks) n = begin(); ... end(n);`
bool is_made_by_constant(const llvm::PHINode& variable, const llvm::Loop& loop,
                         const llvm::DominatorTree& tree) {
  const llvm::BasicBlock* latch = loop.getLoopLatch();
  if (latch == nullptr) return false;
  const auto* merged = llvm::dyn_cast<llvm::PHINode>(variable.getIncomingValueForBlock(latch));
  if (merged == nullptr || !loop.contains(merged) ||
      llvm::none_of(merged->incoming_values(),
                    [&](const llvm::Use& in) { return in.get() == &variable; })) {
    return false;
  }
  const auto* above = tree.getNode(merged->getParent())->getIDom();
  const auto* asks = llvm::dyn_cast<llvm::BranchInst>(above->getBlock()->getTerminator());
  return asks != nullptr && asks->isConditional() && loop.contains(asks) &&
         is_constant_in(asks->getCondition(), loop);
}

}  // namespace

const llvm::LoopInfo& Solver::loops(const llvm::Function& f) {
  std::unique_ptr<llvm::LoopInfo>& found = loops_[&f];
  if (found == nullptr) found = std::make_unique<llvm::LoopInfo>(dominators(f));
  return *found;
}

// Whether something in the loop is given the object, or keeps it.
bool Solver::may_end_in(const Fact& fact, const llvm::Loop& loop) const {
  return std::any_of(fact.names.begin(), fact.names.end(), [&](const Name& n) {
    return n.kind == Name::Kind::kObject && !llvm::isa<llvm::Constant>(n.root) &&
           llvm::any_of(n.root->users(), [&](const llvm::User* user) {
             const auto* i = llvm::dyn_cast<llvm::Instruction>(user);
             return i != nullptr && loop.contains(i) &&
                    llvm::isa<llvm::CallBase, llvm::StoreInst, llvm::PHINode, llvm::SelectInst>(
                        i) &&
                    !llvm::isa<llvm::IntrinsicInst>(i);
           });
  });
}

// From one block to another.
void Solver::note_loop(State& state, const llvm::BasicBlock* from, const llvm::BasicBlock* to) {
  if (state.context == kNone || property(state.fact).track != Track::kObject) return;
  const Context& context = contexts_[state.context];
  if (!context.is_root) return;
  const llvm::LoopInfo& all = loops(*to->getParent());
  const llvm::Loop* inner = all.getLoopFor(from);
  if (inner == nullptr) return;
  if (inner->getHeader() == from && !inner->contains(to)) {
    // Perhaps the loop was not gone into; what goes round it is not ended by it.
    if (matters_at_end(state.fact) && !inner->contains(context.start) &&
        !gone_round_.contains({from, context.origin}) && may_end_in(state.fact, *inner)) {
      state.fact.skipped = from;
    }
    return;
  }
  const llvm::Loop* loop = all.getLoopFor(to);
  if (loop == nullptr || loop->getHeader() != to || !loop->contains(from)) return;
  if (!state.fact.escaped && !state.fact.lent) gone_round_.emplace(to, context.origin);
  if (state.fact.skipped == to) state.fact.skipped = nullptr;
  // Once more past where the state began, with what lies in memory that others write: whether it is
  // the same object still hangs on what the loop leaves as it is.
  if (matters_at_end(state.fact) || !loop->contains(context.start) ||
      goes_along(context.start) == loop)
    return;
  const llvm::DominatorTree& tree = dominators(*to->getParent());
  state.fact.guess |=
      std::none_of(state.fact.names.begin(), state.fact.names.end(), [&](const Name& n) {
        const auto* i = llvm::dyn_cast<llvm::Instruction>(n.root);
        return n.kind == Name::Kind::kOwner ||
               ((n.steps == 0 || is_own(n.root)) &&
                (i == nullptr || !loop->contains(i) ||
                 (llvm::isa<llvm::PHINode>(i) && i->getParent() == to &&
                  !is_made_by_constant(*llvm::cast<llvm::PHINode>(i), *loop, tree))));
      });
}

}  // namespace lint
