// Questions that are asked where an object begins and where it ends: a way on which the answers
// differ is none, unless what is asked for was changed between them (solver.h).
#include <llvm/Analysis/CFG.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Support/KnownBits.h>

#include "solver.h"

namespace lint {
namespace {

constexpr int kMostAbove = 16;            // branches above a place
constexpr int kMostParts = 6;             // of a condition, one in the other
constexpr std::size_t kMostCalled = 64;   // functions behind a call that may change what is asked
constexpr std::size_t kLooksPerStep = 8;  // instructions that are looked at, for one followed

// The call whose result the condition asks for.
const llvm::CallBase* asked(const llvm::Value* v, int depth = kMostParts) {
  if (const auto* call = llvm::dyn_cast<llvm::CallBase>(v); call != nullptr || depth == 0)
    return call;
  if (!llvm::isa<llvm::ICmpInst, llvm::BinaryOperator, llvm::CastInst, llvm::FreezeInst>(v))
    return nullptr;
  return asked(llvm::cast<llvm::Instruction>(v)->getOperand(0), depth - 1);
}

// Whether the function only looks: asked again, it answers the same.
bool only_looks(const llvm::Function& f, int depth = 2) {
  if (!f.getReturnType()->isIntegerTy()) return false;
  if (f.isDeclaration()) return f.onlyReadsMemory();
  return depth > 0 && llvm::all_of(llvm::instructions(f), [depth](const llvm::Instruction& i) {
           const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
           if (call == nullptr) return !i.mayWriteToMemory();
           if (call->doesNotReturn()) return true;  // an assertion
           const llvm::Function* callee = call->getCalledFunction();
           if (callee == nullptr) return false;
           if (!callee->isIntrinsic()) return only_looks(*callee, depth - 1);
           return !i.mayWriteToMemory() || i.isLifetimeStartOrEnd() || i.isDebugOrPseudoInst();
         });
}

// Two values that are compared.
struct Pair {
  const llvm::CallBase* to;       // by which b's function calls a's; null if it is the same one
  const llvm::Instruction* from;  // where a was asked, in b's function
};

// Whether they are read in the same way from the same.
bool is_same(const llvm::Value* a, const llvm::Value* b, Pair pair, int depth = kMostParts) {
  if (const auto* given = llvm::dyn_cast<llvm::Argument>(a); given != nullptr && pair.to != nullptr)
    return is_same(pair.to->getArgOperand(given->getArgNo()), b, {nullptr, pair.from}, depth);
  if (a == b) return true;
  const auto* first = llvm::dyn_cast<llvm::Instruction>(a);
  const auto* second = llvm::dyn_cast<llvm::Instruction>(b);
  if (depth == 0 || first == nullptr || second == nullptr) return false;
  if (const auto* either = llvm::dyn_cast<llvm::PHINode>(second)) {
    // By each way from there.
    bool same = false;
    for (unsigned in = 0; in < either->getNumIncomingValues(); ++in) {
      const llvm::Value* value = either->getIncomingValue(in);
      const llvm::Instruction* end = either->getIncomingBlock(in)->getTerminator();
      if (value == either || !llvm::isPotentiallyReachable(pair.from, end)) continue;
      same = is_same(a, value, pair, depth - 1);
      if (!same) return false;
    }
    return same;
  }
  if (!first->isSameOperationAs(second) ||
      !llvm::isa<llvm::LoadInst, llvm::GetElementPtrInst, llvm::CastInst, llvm::ICmpInst,
                 llvm::BinaryOperator>(first)) {
    return false;
  }
  return llvm::all_of_zip(first->operands(), second->operands(),
                          [pair, depth](const llvm::Use& x, const llvm::Use& y) {
                            return is_same(x.get(), y.get(), pair, depth - 1);
                          });
}

// Whether the two calls ask the same of the same.
bool asks_the_same(const llvm::CallBase& a, const llvm::CallBase& b, Pair pair) {
  const llvm::Function* f = a.getCalledFunction();
  if (f == nullptr || b.getCalledFunction() != f || &a == &b) return false;
  return a.arg_size() == b.arg_size() &&
         llvm::all_of_zip(a.args(), b.args(), [pair](const llvm::Use& x, const llvm::Use& y) {
           return is_same(x.get(), y.get(), pair);
         });
}

// What the condition reads from memory, in the order of its parts; false if it asks for anything
// else.
bool reads(const llvm::Value* v, std::vector<const llvm::LoadInst*>& loads,
           int depth = kMostParts) {
  if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(v)) {
    loads.push_back(load);
    return true;
  }
  if (depth == 0 || !llvm::isa<llvm::ICmpInst, llvm::BinaryOperator, llvm::CastInst>(v))
    return false;
  bool read = false;
  for (const llvm::Use& part : llvm::cast<llvm::Instruction>(v)->operands()) {
    if (llvm::isa<llvm::Constant>(part.get())) continue;
    if (!reads(part.get(), loads, depth - 1)) return false;
    read = true;
  }
  return read;
}

// Which bits of what was loaded the value hangs on, if those of its own count.
std::uint64_t asked_bits(const llvm::Value* v, const llvm::LoadInst* load, std::uint64_t bits) {
  if (v == load) return bits;
  if (!llvm::isa<llvm::ICmpInst, llvm::BinaryOperator, llvm::CastInst>(v)) return 0;
  const auto* i = llvm::cast<llvm::Instruction>(v);
  const auto* by =
      i->getNumOperands() == 2 ? llvm::dyn_cast<llvm::ConstantInt>(i->getOperand(1)) : nullptr;
  const std::uint64_t number =
      by != nullptr && by->getBitWidth() <= 64 ? by->getZExtValue() : ~std::uint64_t{0};
  std::uint64_t below = ~std::uint64_t{0};
  if (i->getOpcode() == llvm::Instruction::And)
    below = bits & number;
  else if (i->getOpcode() == llvm::Instruction::LShr && number < 64)
    below = bits << number;
  else if (llvm::isa<llvm::TruncInst, llvm::ZExtInst>(i))
    below = bits;
  std::uint64_t all = 0;
  for (const llvm::Use& part : i->operands()) all |= asked_bits(part.get(), load, below);
  return all;
}

// Whether the store leaves those bits of its place as they are: `flags |= 1`.
bool keeps(const llvm::StoreInst& store, std::uint64_t bits, const llvm::DataLayout& layout) {
  const llvm::Value* v = store.getValueOperand();
  if (!v->getType()->isIntegerTy() || v->getType()->getIntegerBitWidth() > 64) return false;
  const Address to = address_of(store.getPointerOperand(), layout);
  const auto passes = [&](const llvm::BinaryOperator& op, const llvm::Value* other) {
    const llvm::KnownBits known = llvm::computeKnownBits(other, layout);
    const llvm::APInt wanted = llvm::APInt(64, bits).trunc(known.getBitWidth());
    if (op.getOpcode() == llvm::Instruction::And) return wanted.isSubsetOf(known.One);
    return (op.getOpcode() == llvm::Instruction::Or || op.getOpcode() == llvm::Instruction::Xor) &&
           wanted.isSubsetOf(known.Zero);
  };
  for (int depth = 0; depth < kMostParts; ++depth) {
    if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(v)) {
      const Address from = address_of(load->getPointerOperand(), layout);
      return from.root == to.root && from.offset == to.offset;
    }
    const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(v);
    if (op == nullptr) return false;
    if (passes(*op, op->getOperand(1)))
      v = op->getOperand(0);
    else if (passes(*op, op->getOperand(0)))
      v = op->getOperand(1);
    else
      return false;
  }
  return false;
}

// Whether those bytes lie beside what was loaded, in one record.
bool is_beside(const llvm::Value* to, std::uint64_t bytes, const llvm::LoadInst& load,
               const llvm::DataLayout& layout) {
  const Address a = address_of(to, layout);
  const Address b = address_of(load.getPointerOperand(), layout);
  if (a.root != b.root || a.offset == kAnyOffset || b.offset == kAnyOffset) return false;
  const auto after = [](std::int64_t offset, std::uint64_t size) {
    return offset + static_cast<std::int64_t>(size);
  };
  return after(a.offset, bytes) <= b.offset ||
         after(b.offset, layout.getTypeStoreSize(load.getType())) <= a.offset;
}

// Whether the two reach records of one type, and there fields that are not the same.
bool are_other_fields(const llvm::StoreInst& store, const llvm::LoadInst& load) {
  const llvm::MDNode* a = store.getMetadata(llvm::LLVMContext::MD_tbaa);
  const llvm::MDNode* b = load.getMetadata(llvm::LLVMContext::MD_tbaa);
  return a != nullptr && b != nullptr && a->getNumOperands() >= 3 && b->getNumOperands() >= 3 &&
         a->getOperand(0) == b->getOperand(0) && a->getOperand(2) != b->getOperand(2);
}

// What lies between two places of a function, in one round of the loop around both.
class Between {
 public:
  Between(const llvm::Instruction& from, const llvm::Instruction& to, const llvm::Loop* round)
      : from_(from), to_(to) {
    const llvm::BasicBlock* header = round != nullptr ? round->getHeader() : nullptr;
    std::vector<const llvm::BasicBlock*> work{from.getParent()};
    while (!work.empty()) {
      const llvm::BasicBlock* block = work.back();
      work.pop_back();
      for (const llvm::BasicBlock* next : llvm::successors(block)) {
        if (next != header && behind_.insert(next).second) work.push_back(next);
      }
    }
    work.push_back(to.getParent());
    while (!work.empty()) {
      const llvm::BasicBlock* block = work.back();
      work.pop_back();
      if (block == header) continue;
      for (const llvm::BasicBlock* before : llvm::predecessors(block)) {
        if (before_.insert(before).second) work.push_back(before);
      }
    }
  }
  // Whether the one comes after the other at all.
  bool is_any() const { return is_behind(to_); }
  bool is_behind(const llvm::Instruction& i) const {
    return behind_.contains(i.getParent()) ||
           (i.getParent() == from_.getParent() && from_.comesBefore(&i));
  }
  bool has(const llvm::Instruction& i) const {
    return is_behind(i) && (before_.contains(i.getParent()) ||
                            (i.getParent() == to_.getParent() && i.comesBefore(&to_)));
  }

 private:
  const llvm::Instruction &from_, &to_;
  llvm::DenseSet<const llvm::BasicBlock*> behind_, before_;
};

const llvm::Loop* loop_around(const llvm::LoopInfo& loops, const llvm::Instruction& a,
                              const llvm::Instruction& b) {
  const llvm::Loop* loop = loops.getLoopFor(a.getParent());
  while (loop != nullptr && !loop->contains(b.getParent())) loop = loop->getParentLoop();
  return loop;
}

// The call by which one function calls the other; null: none, or several.
const llvm::CallBase* only_call(const llvm::Function& from, const llvm::Function& to) {
  const llvm::CallBase* found = nullptr;
  for (const llvm::Instruction& i : llvm::instructions(from)) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    if (call == nullptr || call->getCalledFunction() != &to) continue;
    if (found != nullptr) return nullptr;
    found = call;
  }
  return found;
}

}  // namespace

// Whether what the function reads may be changed between the two places.
bool Solver::may_answer_anew(const llvm::Function& asked, const llvm::Instruction& from,
                             const llvm::Instruction& to) {
  std::optional<Between> between;
  return llvm::any_of(llvm::instructions(asked), [&](const llvm::Instruction& i) {
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(&i);
    if (load == nullptr) return false;
    if (!between) between.emplace(from, to, loop_around(loops(*to.getFunction()), from, to));
    const Asked what{load, memory_.points(load->getPointerOperand()), ~std::uint64_t{0}};
    return may_change(*to.getFunction(), what,
                      [&](const llvm::Instruction& w) { return &w != &from && between->has(w); });
  });
}

// Whether a question decided that the object began, and is asked once more where it was lost: the
// way on which the answers differ is none. `if (strcmp(name, "-")) fclose(f);`
bool Solver::is_asked_again(const llvm::Instruction& begin, const llvm::Instruction& end) {
  const llvm::Instruction* here = &begin;  // in end's function
  const llvm::CallBase* to = nullptr;
  if (end.getFunction() != begin.getFunction())
    here = to = only_call(*end.getFunction(), *begin.getFunction());
  if (here == nullptr) return false;
  const auto* node = dominators(*begin.getFunction()).getNode(begin.getParent());
  for (int above = 0; node != nullptr && above < kMostAbove; ++above) {
    const llvm::BasicBlock* below = node->getBlock();
    node = node->getIDom();
    if (node == nullptr || below->getUniquePredecessor() != node->getBlock()) continue;
    const auto* br = llvm::dyn_cast<llvm::BranchInst>(node->getBlock()->getTerminator());
    const auto* call = br != nullptr && br->isConditional() ? asked(br->getCondition()) : nullptr;
    if (call == nullptr || call->getCalledFunction() == nullptr ||
        !only_looks(*call->getCalledFunction())) {
      continue;
    }
    for (const llvm::BasicBlock& block : *end.getFunction()) {
      const auto* other = llvm::dyn_cast<llvm::BranchInst>(block.getTerminator());
      if (other == nullptr || !other->isConditional() ||
          !llvm::isPotentiallyReachable(here, other)) {
        continue;
      }
      const llvm::CallBase* again = asked(other->getCondition());
      if (again != nullptr && asks_the_same(*call, *again, {to, here}) &&
          !may_answer_anew(*call->getCalledFunction(), *here, *again)) {
        return true;
      }
    }
  }
  return false;
}

// Whether an instruction other than a call may change what is asked for.
bool Solver::may_change(const llvm::Instruction& i, const Asked& asked) {
  const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
  if (store == nullptr) {
    return llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst>(i) &&
           Memory::meet(memory_.points(i.getOperand(0)), asked.cells);
  }
  const llvm::Type* type = store->getValueOperand()->getType();
  if (type->isPointerTy() != asked.load->getType()->isPointerTy() ||
      !Memory::meet(memory_.points(store->getPointerOperand()), asked.cells)) {
    return false;
  }
  const llvm::DataLayout& layout = memory_.layout();
  const std::uint64_t bytes = layout.getTypeStoreSize(store->getValueOperand()->getType());
  return !is_beside(store->getPointerOperand(), bytes, *asked.load, layout) &&
         !are_other_fields(*store, *asked.load) &&
         (type != asked.load->getType() || !keeps(*store, asked.bits, layout));
}

// The same of a call, by the functions that it calls.
bool Solver::may_change(const llvm::CallBase& call, const Asked& asked) {
  std::vector<const llvm::Function*> work;
  llvm::DenseSet<const llvm::Function*> seen;
  const auto may_itself = [&](const llvm::CallBase& site) {
    if (program_.ends(site) || !memory_.may_write(site, asked.cells)) return false;
    const llvm::Function* called = site.getCalledFunction();
    const Functions& callees = memory_.callees(site);
    if (const auto* block = llvm::dyn_cast<llvm::MemIntrinsic>(&site)) {
      const auto* bytes = llvm::dyn_cast<llvm::ConstantInt>(block->getLength());
      return bytes == nullptr ||
             !is_beside(block->getRawDest(), bytes->getZExtValue(), *asked.load, memory_.layout());
    }
    if (callees.empty() || (called != nullptr && called->isDeclaration())) return true;
    for (const llvm::Function* f : callees) {
      if (seen.insert(f).second) work.push_back(f);
    }
    return seen.size() > kMostCalled;
  };
  if (may_itself(call)) return true;
  while (!work.empty()) {
    const llvm::Function* f = work.back();
    work.pop_back();
    steps_ += f->getInstructionCount() / kLooksPerStep;
    for (const llvm::Instruction& i : llvm::instructions(*f)) {
      const auto* inner = llvm::dyn_cast<llvm::CallBase>(&i);
      if (inner != nullptr ? may_itself(*inner) : may_change(i, asked)) return true;
    }
  }
  return false;
}

// Whether anything that lies there may change what is asked for.
bool Solver::may_change(const llvm::Function& f, const Asked& asked,
                        llvm::function_ref<bool(const llvm::Instruction&)> lies_there) {
  steps_ += f.getInstructionCount() / kLooksPerStep;
  return llvm::any_of(llvm::instructions(f), [&](const llvm::Instruction& i) {
    if (!i.mayWriteToMemory() || !lies_there(i)) return false;
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    return call != nullptr ? may_change(*call, asked) : may_change(i, asked);
  });
}

// Whether the second question, which comes after the first, reads what the first has read. `to`:
// the call into the function where the first is asked, if it is another one.
bool Solver::is_unchanged(const Question& first, const Question& then, const llvm::CallBase* to) {
  const llvm::Instruction& from = to != nullptr ? *to : *first.at;
  const llvm::LoopInfo& all = loops(*then.at->getFunction());
  steps_ += then.at->getFunction()->size() / kLooksPerStep;
  if (!Between(from, *then.at, loop_around(all, from, *then.at)).is_any()) return false;
  std::vector<const llvm::LoadInst*> before, after;
  if (!reads(first.condition, before) || !reads(then.condition, after) ||
      before.size() != after.size()) {
    return false;
  }
  for (std::size_t n = 0; n < before.size(); ++n) {
    const llvm::LoadInst &one = *before[n], &other = *after[n];
    const std::uint64_t bits = asked_bits(then.condition, &other, 1);
    const auto [known, added] = changed_.try_emplace({&one, &other, bits}, true);
    if (added) {
      const Asked asked{&other, memory_.points(other.getPointerOperand()), bits};
      const llvm::Instruction& start =
          to != nullptr ? static_cast<const llvm::Instruction&>(*to) : one;
      const Between between(start, other, loop_around(all, start, other));
      bool changed = may_change(*other.getFunction(), asked, [&](const llvm::Instruction& i) {
        return &i != to && between.has(i);
      });
      if (!changed && to != nullptr) {
        const Between behind(one, one, nullptr);
        changed = may_change(*one.getFunction(), asked,
                             [&](const llvm::Instruction& i) { return behind.is_behind(i); });
      }
      known->second = changed;
    }
    if (known->second) return false;
  }
  return true;
}

// Whether the way answered a question otherwise than before, though nothing between can have
// changed what is asked for. `if (g->flags & OWN) d = g->open(); ... if (!(g->flags & OWN))
// closedir(d);`
bool Solver::is_answered_otherwise(const State& state) {
  const Context& context = contexts_[state.context];
  if (!context.is_root) return false;
  std::vector<Question> asked_here;
  steps_ += context.function->size() / kLooksPerStep;
  for (const llvm::BasicBlock& block : *context.function) {
    const auto* br = llvm::dyn_cast<llvm::BranchInst>(block.getTerminator());
    const llvm::Value* condition =
        br != nullptr && br->isConditional() ? br->getCondition() : nullptr;
    const Range* known = condition != nullptr ? state.known.find(condition) : nullptr;
    if (known == nullptr || !known->isSingleElement()) continue;
    asked_here.push_back({br, condition, known->getSingleElement()->isOne()});
  }
  const auto differs = [this](const Question& one, const Question& other,
                              const llvm::CallBase* to) {
    const llvm::Instruction* from = to != nullptr ? to : one.at;
    return one.answer != other.answer && is_same(one.condition, other.condition, {to, from}) &&
           is_unchanged(one, other, to);
  };
  steps_ += asked_here.size() * asked_here.size() / kLooksPerStep;
  for (const Question& one : asked_here) {
    for (const Question& other : asked_here) {
      if (one.condition != other.condition && differs(one, other, nullptr)) return true;
    }
  }
  // In the function where it began.
  const llvm::Instruction& begin = *context.origin;
  const auto* to = llvm::dyn_cast<llvm::CallBase>(context.start);
  if (context.depth != 1 || to == nullptr || to->getCalledFunction() != begin.getFunction())
    return false;
  for (const auto& [end, way] : edges_above(dominators(*begin.getFunction()), begin)) {
    const auto* br = llvm::dyn_cast<llvm::BranchInst>(end);
    if (br == nullptr || !br->isConditional()) continue;
    const Question one{br, br->getCondition(), br->getSuccessor(0) == way};
    for (const Question& other : asked_here) {
      if (differs(one, other, to)) return true;
    }
  }
  return false;
}

}  // namespace lint
