// Descriptors that are closed by their numbers, with all others (solver.h).
#include <llvm/Analysis/CFG.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <unistd.h>

#include "conditions.h"
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

// Whether the way leads to where the descriptor was not opened.
bool is_without(const llvm::Instruction& begin, const llvm::Instruction& end,
                const llvm::BasicBlock& to) {
  const auto* br = llvm::dyn_cast<llvm::BranchInst>(&end);
  const auto* cmp = br != nullptr && br->isConditional()
                        ? llvm::dyn_cast<llvm::ICmpInst>(br->getCondition())
                        : nullptr;
  const auto* number =
      cmp != nullptr ? llvm::dyn_cast<llvm::ConstantInt>(cmp->getOperand(1)) : nullptr;
  if (number == nullptr || cmp->getOperand(0) != &begin) return false;
  const bool less = cmp->getPredicate() == llvm::CmpInst::ICMP_SLT && number->isZero();
  const bool equal = cmp->getPredicate() == llvm::CmpInst::ICMP_EQ && number->isMinusOne();
  return (less || equal) && br->getSuccessor(0) == &to && br->getSuccessor(1) != &to;
}

// Whether a way leads from where the descriptor began to the end, with it and not by the block.
bool is_reachable(const llvm::Instruction& begin, const llvm::Instruction& end,
                  const llvm::BasicBlock& without) {
  if (begin.getParent() == end.getParent() && begin.comesBefore(&end)) return true;
  llvm::DenseSet<const llvm::BasicBlock*> seen{&without};
  std::vector<const llvm::BasicBlock*> work{begin.getParent()};
  while (!work.empty()) {
    const llvm::BasicBlock* from = work.back();
    work.pop_back();
    for (const llvm::BasicBlock* to : llvm::successors(from)) {
      if (is_without(begin, *from->getTerminator(), *to) || !seen.insert(to).second) continue;
      if (to == end.getParent()) return true;
      work.push_back(to);
    }
  }
  return false;
}

// The most descriptors that the system allows: what it returns, or fills in.
bool is_the_systems(const llvm::Value* v) {
  if (const auto* call = llvm::dyn_cast<llvm::CallBase>(v)) {
    const llvm::Function* f = call->getCalledFunction();
    return f != nullptr && (f->getName() == "sysconf" || f->getName() == "getdtablesize");
  }
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(v);
  if (load == nullptr) return false;
  const llvm::Value* limit = load->getPointerOperand()->stripInBoundsOffsets();
  return llvm::any_of(limit->users(), [](const llvm::User* user) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(user);
    const llvm::Function* f = call != nullptr ? call->getCalledFunction() : nullptr;
    return f != nullptr && f->getName().starts_with("getrlimit");
  });
}

}  // namespace

// Whether so many numbers are all there can be.
bool Solver::is_many(const llvm::Value* most, int depth) const {
  while (const auto* cast = llvm::dyn_cast<llvm::CastInst>(most)) most = cast->getOperand(0);
  if (const auto* number = llvm::dyn_cast<llvm::ConstantInt>(most))
    return number->getSExtValue() >= kFewest;
  if (is_the_systems(most)) return true;
  if (depth == 0) return false;
  if (const auto* either = llvm::dyn_cast<llvm::PHINode>(most)) {
    return llvm::all_of(either->incoming_values(),
                        [&](const llvm::Use& in) { return is_many(in.get(), depth - 1); });
  }
  if (const auto* either = llvm::dyn_cast<llvm::SelectInst>(most)) {
    return is_many(either->getTrueValue(), depth - 1) &&
           is_many(either->getFalseValue(), depth - 1);
  }
  const auto* parameter = llvm::dyn_cast<llvm::Argument>(most);
  if (parameter == nullptr) return false;
  const auto& sites = memory_.callers(parameter->getParent());
  return !sites.empty() && llvm::all_of(sites, [&](const llvm::CallBase* site) {
    return site->getCalledFunction() == parameter->getParent() &&
           is_many(site->getArgOperand(parameter->getArgNo()), depth - 1);
  });
}

// Whether the loop ends at its head, and not after a few numbers.
bool Solver::runs_to_the_end(const llvm::Loop& loop, const llvm::PHINode& counter) const {
  if (loop.getExitingBlock() != loop.getHeader()) return false;
  const auto* br = llvm::dyn_cast<llvm::BranchInst>(loop.getHeader()->getTerminator());
  const auto* cmp = br != nullptr && br->isConditional()
                        ? llvm::dyn_cast<llvm::ICmpInst>(br->getCondition())
                        : nullptr;
  return cmp != nullptr && cmp->getOperand(0) == &counter && loop.contains(br->getSuccessor(0)) &&
         (llvm::ICmpInst::isLT(cmp->getPredicate()) || llvm::ICmpInst::isLE(cmp->getPredicate())) &&
         is_many(cmp->getOperand(1), kMostSteps);
}

// The head of the loop in which the call closes one number after another; null if it does not.
// `for (fd = 3; fd < most; ++fd) close(fd);`
const llvm::Instruction* Solver::loop_that_closes(const llvm::CallBase& call) {
  const llvm::Function* f = call.getCalledFunction();
  if (f == nullptr || !f->isDeclaration() || f->getName() != "close") return nullptr;
  const auto* counter = llvm::dyn_cast<llvm::PHINode>(call.getArgOperand(0));
  const llvm::Loop* loop = loops(*call.getFunction()).getLoopFor(call.getParent());
  const llvm::BasicBlock* before = loop != nullptr ? loop->getLoopPredecessor() : nullptr;
  if (counter == nullptr || before == nullptr || !counts_by_one(*counter, *loop) ||
      !is_first(counter->getIncomingValueForBlock(before)) || !runs_to_the_end(*loop, *counter) ||
      !is_each_but_one(*call.getParent(), *counter, *loop->getLoopLatch(),
                       dominators(*call.getFunction()))) {
    return nullptr;
  }
  return &loop->getHeader()->front();
}

// Where the call closes all descriptors, by itself or as a function that surely does; else null.
const llvm::Instruction* Solver::closes_all(const llvm::CallBase& call, int depth) {
  if (closes_range(call)) return &call;
  const auto* head = loop_that_closes(call);
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
    if (there == nullptr || there == &begin) return false;
    if (dominators(f).dominates(there, &end))
      return !llvm::isPotentiallyReachable(there, &begin, nullptr, &dominators(f), &loops(f));
    return there->getParent() != end.getParent() && there->getParent() != begin.getParent() &&
           !is_reachable(begin, end, *there->getParent());
  });
}

}  // namespace lint
