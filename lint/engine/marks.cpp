// Fields that say of another field of their record what it holds and whose that is: flags, kinds,
// counts; questions that are asked where an object begins and where it ends (solver.h).
#include <llvm/Analysis/CFG.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Operator.h>

#include "solver.h"

namespace lint {
namespace {

constexpr int kMostAbove = 16;  // branches above a place
constexpr int kMostParts = 6;   // of a condition, one in the other

// Where the number lies that the condition reads: in the same record as the field, beside it, and
// not known there. kAnyOffset: it reads none.
std::int64_t mark(const llvm::Value* v, Address field, const Known& known,
                  const llvm::DataLayout& layout, int depth = kMostParts) {
  if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(v)) {
    const Address a = address_of(load->getPointerOperand(), layout);
    const bool marks = load->getType()->isIntegerTy() && a.root == field.root &&
                       a.offset != field.offset &&
                       !llvm::isa_and_nonnull<llvm::ConstantInt>(known.cell(a));
    return marks ? a.offset : kAnyOffset;
  }
  if (depth == 0 || !llvm::isa<llvm::ICmpInst, llvm::BinaryOperator, llvm::CastInst,
                               llvm::SelectInst, llvm::FreezeInst>(v)) {
    return kAnyOffset;
  }
  for (const llvm::Use& part : llvm::cast<llvm::Instruction>(v)->operands()) {
    const std::int64_t found = mark(part.get(), field, known, layout, depth - 1);
    if (found != kAnyOffset) return found;
  }
  return kAnyOffset;
}

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

// Whether two values are read in the same way from the same. `to`: the call by which b's function
// calls a's, if it is another one.
bool is_same(const llvm::Value* a, const llvm::Value* b, const llvm::CallBase* to,
             int depth = kMostParts) {
  if (const auto* given = llvm::dyn_cast<llvm::Argument>(a); given != nullptr && to != nullptr)
    return is_same(to->getArgOperand(given->getArgNo()), b, nullptr, depth);
  if (a == b) return true;
  const auto* first = llvm::dyn_cast<llvm::Instruction>(a);
  const auto* second = llvm::dyn_cast<llvm::Instruction>(b);
  if (depth == 0 || first == nullptr || second == nullptr) return false;
  if (const auto* either = llvm::dyn_cast<llvm::PHINode>(second)) {
    return llvm::any_of(either->incoming_values(),
                        [=](const llvm::Use& in) { return is_same(a, in.get(), to, depth - 1); });
  }
  if (!first->isSameOperationAs(second) ||
      !llvm::isa<llvm::LoadInst, llvm::GetElementPtrInst, llvm::CastInst, llvm::ICmpInst,
                 llvm::BinaryOperator>(first)) {
    return false;
  }
  return llvm::all_of_zip(first->operands(), second->operands(),
                          [to, depth](const llvm::Use& x, const llvm::Use& y) {
                            return is_same(x.get(), y.get(), to, depth - 1);
                          });
}

// Whether the two calls ask the same of the same.
bool asks_the_same(const llvm::CallBase& a, const llvm::CallBase& b, const llvm::CallBase* to) {
  const llvm::Function* f = a.getCalledFunction();
  if (f == nullptr || b.getCalledFunction() != f || &a == &b) return false;
  return a.arg_size() == b.arg_size() &&
         llvm::all_of_zip(a.args(), b.args(), [to](const llvm::Use& x, const llvm::Use& y) {
           return is_same(x.get(), y.get(), to);
         });
}

struct Question {
  const llvm::Value* condition;
  bool answer;
};

// Whether what the condition asks is read from memory, and the function writes it nowhere itself.
bool reads_only(const llvm::Value* v, const llvm::Function& f, const llvm::DataLayout& layout,
                int depth = kMostParts) {
  if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(v)) {
    const Address from = address_of(load->getPointerOperand(), layout);
    return llvm::none_of(llvm::instructions(f), [&](const llvm::Instruction& i) {
      const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
      if (store == nullptr) return false;
      const Address to = address_of(store->getPointerOperand(), layout);
      return to.offset == from.offset && is_same(to.root, from.root, nullptr);
    });
  }
  if (depth == 0 || !llvm::isa<llvm::ICmpInst, llvm::BinaryOperator, llvm::CastInst>(v))
    return false;
  const auto& i = *llvm::cast<llvm::Instruction>(v);
  bool read = false;
  for (const llvm::Use& part : i.operands()) {
    if (llvm::isa<llvm::Constant>(part.get())) continue;
    if (!reads_only(part.get(), f, layout, depth - 1)) return false;
    read = true;
  }
  return read;
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

// Whether the field is a member of a union, by the type through which its record is reached.
bool is_member(Address field, const Unions& unions, const llvm::DataLayout& layout) {
  return field.offset >= 0 && llvm::any_of(field.root->users(), [&](const llvm::User* user) {
           const auto* gep = llvm::dyn_cast<llvm::GEPOperator>(user);
           return gep != nullptr && gep->getPointerOperand() == field.root &&
                  unions.has_at(gep->getSourceElementType(),
                                static_cast<std::uint64_t>(field.offset), layout);
         });
}

}  // namespace

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
      if (again != nullptr && asks_the_same(*call, *again, to)) return true;
    }
  }
  return false;
}

// Whether the way answered a question otherwise than before, though it changed nothing that is
// asked for: a guess that who was called did not either. `if (g->flags & OWN) d = g->open(); ...
// if (!(g->flags & OWN)) closedir(d);`
bool Solver::is_answered_otherwise(const State& state) {
  const Context& context = contexts_[state.context];
  if (!context.is_root) return false;
  const llvm::DataLayout& layout = memory_.layout();
  std::vector<Question> asked_here;
  for (const llvm::BasicBlock& block : *context.function) {
    const auto* br = llvm::dyn_cast<llvm::BranchInst>(block.getTerminator());
    const llvm::Value* condition =
        br != nullptr && br->isConditional() ? br->getCondition() : nullptr;
    const Range* known = condition != nullptr ? state.known.find(condition) : nullptr;
    if (known == nullptr || !known->isSingleElement() ||
        !reads_only(condition, *context.function, layout)) {
      continue;
    }
    asked_here.push_back({condition, known->getSingleElement()->isOne()});
  }
  const auto differs = [](const Question& one, const Question& other, const llvm::CallBase* to) {
    return one.answer != other.answer && is_same(one.condition, other.condition, to);
  };
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
    if (br == nullptr || !br->isConditional() ||
        !reads_only(br->getCondition(), *begin.getFunction(), layout)) {
      continue;
    }
    const Question one{br->getCondition(), br->getSuccessor(0) == way};
    for (const Question& other : asked_here) {
      if (differs(one, other, to)) return true;
    }
  }
  return false;
}

// Where the number lies that decides whether what was read from a field gets to the place: another
// field of the record, which is not known. A record that borrows a text says so there; that it does
// is seldom followed. kAnyOffset: there is none.
std::int64_t Solver::mark_of(const llvm::Value* value, const llvm::Instruction& at,
                             const Known& known) {
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(value->stripPointerCasts());
  if (load == nullptr || load->getFunction() != at.getFunction()) return kAnyOffset;
  const Address field = address_of(load->getPointerOperand(), memory_.layout());
  if (field.offset == kAnyOffset) return kAnyOffset;
  const llvm::DominatorTree& tree = dominators(*at.getFunction());
  const auto* node = tree.getNode(at.getParent());
  for (int above = 0; node != nullptr && above < kMostAbove; ++above) {
    const llvm::BasicBlock* here = node->getBlock();
    node = node->getIDom();
    if (node == nullptr) break;
    // Branches behind which the ways meet again decide nothing.
    const llvm::Instruction* end = node->getBlock()->getTerminator();
    if (here->getUniquePredecessor() != node->getBlock()) continue;
    const auto* br = llvm::dyn_cast<llvm::BranchInst>(end);
    const auto* sw = llvm::dyn_cast<llvm::SwitchInst>(end);
    const llvm::Value* condition = nullptr;
    if (br != nullptr && br->isConditional()) condition = br->getCondition();
    if (sw != nullptr) condition = sw->getCondition();
    if (condition == nullptr) continue;
    const std::int64_t found = mark(condition, field, known, memory_.layout());
    if (found != kAnyOffset) return found;
  }
  return kAnyOffset;
}

// Whether two calls take members of one union that lie at the same place, each under a mark of its
// own. A guess: such marks say which member the record has, and it has one.
// `if (r->n) free(r->u.a); if (r->m) free(r->u.b);`
bool Solver::are_members(const llvm::Instruction* begin, const llvm::Instruction* end) {
  const auto* first = llvm::dyn_cast_or_null<llvm::CallBase>(begin);
  const auto* second = llvm::dyn_cast_or_null<llvm::CallBase>(end);
  if (first == nullptr || second == nullptr || first->getFunction() != second->getFunction())
    return false;
  const auto field = [&](const llvm::Value* v) {
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(v->stripPointerCasts());
    return load != nullptr ? address_of(load->getPointerOperand(), memory_.layout()) : Address{};
  };
  for (const llvm::Value* a : first->args()) {
    const Address here = field(a);
    if (here.root == nullptr || !is_member(here, program_.unions(), memory_.layout())) continue;
    for (const llvm::Value* b : second->args()) {
      const Address there = field(b);
      if (there.root != here.root || there.offset != here.offset) continue;
      const std::int64_t one = mark_of(a, *first, {}), other = mark_of(b, *second, {});
      if (one != kAnyOffset && other != kAnyOffset && one != other) return true;
    }
  }
  return false;
}

// The parameter that the value is; -1.
int Solver::parameter(const llvm::Value* value) {
  const auto* a =
      value != nullptr ? llvm::dyn_cast<llvm::Argument>(value->stripPointerCasts()) : nullptr;
  return a != nullptr ? static_cast<int>(a->getArgNo()) : -1;
}

}  // namespace lint
