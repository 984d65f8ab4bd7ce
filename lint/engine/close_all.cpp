// Descriptors that are closed by their numbers, with all others (solver.h).
#include <llvm/Analysis/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <unistd.h>

#include "solver.h"

namespace lint {
namespace {

constexpr std::int64_t kFewest = 16;  // that count as all: FOPEN_MAX

const llvm::ConstantInt* number(const llvm::CallBase& call, unsigned argument) {
  return argument < call.arg_size()
             ? llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(argument))
             : nullptr;
}

// Whether all but the standard numbers come from there on.
bool is_first(const llvm::Value* v) {
  const auto* first = llvm::dyn_cast_or_null<llvm::ConstantInt>(v);
  return first != nullptr && first->getValue().ule(STDERR_FILENO + 1);
}

// close_range(3, ~0U, 0), closefrom(3).
bool closes_range(const llvm::CallBase& call) {
  const llvm::Function* f = call.getCalledFunction();
  if (f == nullptr || !f->isDeclaration() || !is_first(number(call, 0))) return false;
  if (f->getName() == "closefrom") return true;
  const llvm::ConstantInt *last = number(call, 1), *flags = number(call, 2);
  return f->getName() == "close_range" && last != nullptr && last->isMinusOne() &&
         flags != nullptr && flags->isZero();
}

// Whether the block, in a loop over all numbers, is left out for none, or for one that the function
// was given.
bool is_each_but_one(const llvm::BasicBlock& closes, const llvm::PHINode& counter,
                     const llvm::BasicBlock& latch, const llvm::DominatorTree& tree) {
  if (tree.dominates(&closes, &latch)) return true;
  const llvm::BasicBlock* asks = tree.getNode(&closes)->getIDom()->getBlock();
  const auto* br = llvm::dyn_cast<llvm::BranchInst>(asks->getTerminator());
  const auto* cmp = br != nullptr && br->isConditional()
                        ? llvm::dyn_cast<llvm::ICmpInst>(br->getCondition())
                        : nullptr;
  return cmp != nullptr && cmp->isEquality() && cmp->getOperand(0) == &counter &&
         llvm::isa<llvm::Argument>(cmp->getOperand(1)) && tree.dominates(asks, &latch) &&
         br->getSuccessor(cmp->getPredicate() == llvm::CmpInst::ICMP_NE ? 0 : 1) == &closes;
}

// Whether the loop ends at its head, and not after a few numbers.
bool runs_to_the_end(const llvm::Loop& loop, const llvm::PHINode& counter) {
  if (loop.getExitingBlock() != loop.getHeader()) return false;
  const auto* br = llvm::dyn_cast<llvm::BranchInst>(loop.getHeader()->getTerminator());
  const auto* cmp = br != nullptr && br->isConditional()
                        ? llvm::dyn_cast<llvm::ICmpInst>(br->getCondition())
                        : nullptr;
  if (cmp == nullptr || cmp->getOperand(0) != &counter || !loop.contains(br->getSuccessor(0)))
    return false;
  const auto* most = llvm::dyn_cast<llvm::ConstantInt>(cmp->getOperand(1));
  return llvm::ICmpInst::isLT(cmp->getPredicate()) || llvm::ICmpInst::isLE(cmp->getPredicate())
             ? most == nullptr || most->getSExtValue() >= kFewest
             : false;
}

// The head of the loop in which the call closes one number after another; null if it does not.
// `for (fd = 3; fd < most; ++fd) close(fd);`
const llvm::Instruction* loop_that_closes(const llvm::CallBase& call, const llvm::LoopInfo& loops,
                                          const llvm::DominatorTree& tree) {
  const llvm::Function* f = call.getCalledFunction();
  if (f == nullptr || !f->isDeclaration() || f->getName() != "close") return nullptr;
  const auto* counter = llvm::dyn_cast<llvm::PHINode>(call.getArgOperand(0));
  const llvm::Loop* loop = loops.getLoopFor(call.getParent());
  if (counter == nullptr || loop == nullptr || loop->getHeader() != counter->getParent())
    return nullptr;
  const llvm::BasicBlock *latch = loop->getLoopLatch(), *before = loop->getLoopPredecessor();
  if (latch == nullptr || before == nullptr) return nullptr;
  const auto* next = llvm::dyn_cast<llvm::BinaryOperator>(counter->getIncomingValueForBlock(latch));
  const auto* step =
      next != nullptr ? llvm::dyn_cast<llvm::ConstantInt>(next->getOperand(1)) : nullptr;
  if (step == nullptr || next->getOpcode() != llvm::Instruction::Add || !step->isOne() ||
      next->getOperand(0) != counter || !is_first(counter->getIncomingValueForBlock(before)) ||
      !runs_to_the_end(*loop, *counter) ||
      !is_each_but_one(*call.getParent(), *counter, *latch, tree)) {
    return nullptr;
  }
  return &loop->getHeader()->front();
}

}  // namespace

// Where the call closes all descriptors, by itself or as a function that surely does; else null.
const llvm::Instruction* Solver::closes_all(const llvm::CallBase& call, int depth) {
  if (closes_range(call)) return &call;
  const llvm::Function& around = *call.getFunction();
  const auto* head = loop_that_closes(call, loops(around), dominators(around));
  if (head != nullptr) return head;
  const llvm::Function* f = call.getCalledFunction();
  if (f == nullptr || f->isDeclaration() || depth == 0) return nullptr;
  const bool surely = llvm::any_of(llvm::instructions(*f), [&](const llvm::Instruction& i) {
    const auto* inner = llvm::dyn_cast<llvm::CallBase>(&i);
    const llvm::Instruction* there = inner != nullptr ? closes_all(*inner, depth - 1) : nullptr;
    return there != nullptr && llvm::all_of(*f, [&](const llvm::BasicBlock& block) {
             return !llvm::isa<llvm::ReturnInst>(block.getTerminator()) ||
                    dominators(*f).dominates(there, block.getTerminator());
           });
  });
  return surely ? &call : nullptr;
}

// Whether each way from where the descriptor began to where it was lost goes by a place where all
// are closed.
bool Solver::is_closed_with_all(const llvm::Instruction& begin, const llvm::Instruction& end) {
  const llvm::Function& f = *begin.getFunction();
  if (begin.getType()->isPointerTy() || end.getFunction() != &f) return false;
  return llvm::any_of(llvm::instructions(f), [&](const llvm::Instruction& i) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    const llvm::Instruction* there = call != nullptr ? closes_all(*call, 1) : nullptr;
    return there != nullptr && there != &begin && dominators(f).dominates(there, &end) &&
           !llvm::isPotentiallyReachable(there, &begin, nullptr, &dominators(f), &loops(f));
  });
}

}  // namespace lint
