// Questions that are asked where an object begins and where it ends: a way on which the answers
// differ is none, unless what is asked for was changed between them (solver.h).
#include <llvm/Analysis/CFG.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

#include "solver.h"

namespace lint {
namespace {

constexpr int kMostAbove = 16;            // branches above a place
constexpr int kMostParts = 6;             // of a condition, one in the other
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

bool is_same(const llvm::Value* a, const llvm::Value* b, Pair pair, int depth = kMostParts);

// Where the value was stored to what is read later; null if it was not.
const llvm::StoreInst* stored_for(const llvm::Value* value, const llvm::LoadInst& read, Pair pair,
                                  int depth = kMostParts) {
  if (llvm::isa<llvm::Constant>(value)) return nullptr;
  for (const llvm::User* user : value->users()) {
    const auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
    if (store != nullptr && store->getValueOperand() == value &&
        store->getFunction() == read.getFunction() &&
        is_same(store->getPointerOperand(), read.getPointerOperand(), pair, depth - 1)) {
      return store;
    }
  }
  return nullptr;
}

// Whether they are read in the same way from the same, or one is what was stored there.
bool is_same(const llvm::Value* a, const llvm::Value* b, Pair pair, int depth) {
  if (const auto* given = llvm::dyn_cast<llvm::Argument>(a); given != nullptr && pair.to != nullptr)
    return is_same(pair.to->getArgOperand(given->getArgNo()), b, {nullptr, pair.from}, depth);
  if (a == b) return true;
  const auto* first = llvm::dyn_cast<llvm::Instruction>(a);
  const auto* second = llvm::dyn_cast<llvm::Instruction>(b);
  if (const auto* read = llvm::dyn_cast<llvm::LoadInst>(b);
      depth > 0 && read != nullptr && !llvm::isa<llvm::LoadInst>(a) &&
      stored_for(a, *read, pair, depth) != nullptr) {
    return true;
  }
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

// What the condition asks for, in the order of its parts; false if any of it is not read from
// memory.
bool reads(const llvm::Value* v, std::vector<const llvm::Value*>& parts, int depth = kMostParts) {
  if (depth == 0 || !llvm::isa<llvm::ICmpInst, llvm::BinaryOperator, llvm::CastInst>(v)) {
    parts.push_back(v);
    return llvm::isa<llvm::LoadInst>(v);
  }
  bool all = true;
  for (const llvm::Use& part : llvm::cast<llvm::Instruction>(v)->operands()) {
    if (!llvm::isa<llvm::Constant>(part.get())) all &= reads(part.get(), parts, depth - 1);
  }
  return all && !parts.empty();
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

// Whether the parameter leads to what is read, as far as a loop over a text goes.
bool is_read_through(const llvm::Value* address, const llvm::Argument& parameter,
                     llvm::SmallPtrSetImpl<const llvm::Value*>& seen) {
  address = address_of(address, parameter.getParent()->getParent()->getDataLayout(), true).root;
  if (address == &parameter) return true;
  const auto* choice = llvm::dyn_cast<llvm::User>(address);
  return choice != nullptr && llvm::isa<llvm::PHINode, llvm::SelectInst>(choice) &&
         seen.insert(address).second && llvm::any_of(choice->operands(), [&](const llvm::Use& u) {
           return u->getType()->isPointerTy() && is_read_through(u.get(), parameter, seen);
         });
}

// Whether a character of the text that the parameter leads to is asked whether it is `%`.
bool looks_for_directives(const llvm::Argument& parameter) {
  return llvm::any_of(llvm::instructions(*parameter.getParent()), [&](const llvm::Instruction& i) {
    const auto* compare = llvm::dyn_cast<llvm::ICmpInst>(&i);
    if (!llvm::isa<llvm::SwitchInst>(i) && (compare == nullptr || !compare->isEquality()))
      return false;
    const llvm::Value* asked = i.getOperand(0);
    while (llvm::isa<llvm::SExtInst, llvm::ZExtInst, llvm::FreezeInst>(asked))
      asked = llvm::cast<llvm::Instruction>(asked)->getOperand(0);
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(asked);
    llvm::SmallPtrSet<const llvm::Value*, 8> seen;
    return load != nullptr && load->getType()->isIntegerTy(8) &&
           llvm::any_of(llvm::drop_begin(i.operands()),
                        [](const llvm::Use& use) {
                          const auto* c = llvm::dyn_cast<llvm::ConstantInt>(use.get());
                          return c != nullptr && c->equalsInt('%');
                        }) &&
           is_read_through(load->getPointerOperand(), parameter, seen);
  });
}

// Whether the value is one and the same all through a round of the loop; null: there is none.
bool is_same_in(const llvm::Value& value, const llvm::Loop* round) {
  const auto* i = llvm::dyn_cast<llvm::Instruction>(&value);
  return i != nullptr ? round == nullptr || !round->contains(i) : llvm::isa<llvm::Argument>(value);
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

// Whether the second question, which comes after the first, reads what the first has read. `to`:
// the call into the function where the first is asked, if it is another one; `state`: the way.
bool Solver::is_unchanged(const Question& first, const Question& then, const llvm::CallBase* to,
                          const State& state) {
  const llvm::Instruction& from = to != nullptr ? *to : *first.at;
  const llvm::LoopInfo& all = loops(*then.at->getFunction());
  steps_ += then.at->getFunction()->size() / kLooksPerStep;
  const llvm::Loop* round = loop_around(all, from, *then.at);
  if (!Between(from, *then.at, round).is_any()) return false;
  std::vector<const llvm::Value*> before, after;
  const bool read = reads(first.condition, before), again = reads(then.condition, after);
  if ((!(read && again) && to != nullptr) || before.size() != after.size() || after.empty())
    return false;
  for (std::size_t n = 0; n < before.size(); ++n) {
    if (before[n] == after[n] && to == nullptr && is_same_in(*before[n], round)) continue;
    if (!llvm::isa<llvm::LoadInst>(after[n])) return false;
    const auto& other = *llvm::cast<llvm::LoadInst>(after[n]);
    const llvm::Instruction* begin = llvm::dyn_cast<llvm::LoadInst>(before[n]);
    if (begin == nullptr) begin = stored_for(before[n], other, {nullptr, first.at});
    if (begin == nullptr || !dominators(*begin->getFunction()).dominates(begin, first.at))
      return false;
    const llvm::Instruction& one = *begin;
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
    if (known->second && to != nullptr) return false;
    if (!known->second) continue;
    // Only where the way did not come by may it have been changed.
    const Asked asked{&other, memory_.points(other.getPointerOperand()), bits};
    const Between between(one, other, loop_around(all, one, other));
    if (may_change(*other.getFunction(), asked, [&](const llvm::Instruction& i) {
          return between.has(i) && !is_passed_by(state, i, round);
        })) {
      return false;
    }
  }
  return true;
}

// Whether the way cannot have come by there in this round of the loop, by what is known at its end:
// `if (fd < 0) *made = 1;` where a descriptor is open.
bool Solver::is_passed_by(const State& state, const llvm::Instruction& there,
                          const llvm::Loop* round) {
  const llvm::Function& f = *there.getFunction();
  return llvm::any_of(edges_above(dominators(f), there), [&](const auto& edge) {
    if (loops(f).getLoopFor(edge.first->getParent()) != round) return false;
    Known known = state.known;
    Reasoning reasoning(known, state.fact, property(state.fact).track);
    return !assume_edge(reasoning, *edge.first, *edge.second);
  });
}

// Whether a function of the program looked through the format, and its answer let the call be: what
// it allows is not followed.
bool Solver::is_looked_through(const llvm::CallBase& call, const llvm::Value* format) {
  if (format == nullptr) return false;
  const llvm::Value* root = address_of(format, memory_.layout()).root;
  const Edges above = edges_above(dominators(*call.getFunction()), call);
  return llvm::any_of(above, [&](const auto& edge) {
    const auto* br = llvm::dyn_cast<llvm::BranchInst>(edge.first);
    const auto* by = br != nullptr && br->isConditional() ? asked(br->getCondition()) : nullptr;
    const llvm::Function* f = by != nullptr ? by->getCalledFunction() : nullptr;
    if (f == nullptr || f->isDeclaration()) return false;
    return llvm::any_of(f->args(), [&](const llvm::Argument& parameter) {
      return parameter.getArgNo() < by->arg_size() &&
             address_of(by->getArgOperand(parameter.getArgNo()), memory_.layout()).root == root &&
             looks_for_directives(parameter);
    });
  });
}

// Whether the way answered a question otherwise than before, though nothing between can have
// changed what is asked for. `if (g->flags & OWN) d = g->open(); ... if (!(g->flags & OWN))
// closedir(d);`
bool Solver::is_answered_otherwise(const State& state) {
  const Context& context = contexts_[state.context];
  std::vector<Question> asked_here;
  steps_ += context.function->size() / kLooksPerStep;
  for (const llvm::BasicBlock& block : *context.function) {
    const auto* br = llvm::dyn_cast<llvm::BranchInst>(block.getTerminator());
    const llvm::Value* condition =
        br != nullptr && br->isConditional() ? br->getCondition() : nullptr;
    const auto known = condition != nullptr ? state.known.find(condition) : std::nullopt;
    if (!known || !known->isSingleElement()) continue;
    asked_here.push_back({br, condition, known->getSingleElement()->isOne()});
  }
  const auto differs = [&](const Question& one, const Question& other, const llvm::CallBase* to) {
    const llvm::Instruction* from = to != nullptr ? to : one.at;
    return one.answer != other.answer && is_same(one.condition, other.condition, {to, from}) &&
           is_unchanged(one, other, to, state);
  };
  steps_ += asked_here.size() * asked_here.size() / kLooksPerStep;
  for (const Question& one : asked_here) {
    for (const Question& other : asked_here) {
      if (one.condition != other.condition && differs(one, other, nullptr)) return true;
    }
  }
  if (!context.is_root) return false;
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

// Whether the lock is taken to make something that is not there yet, which is asked once more under
// it: `if (!made) { lock(&l); if (!made) ...`. That it is not there on this way is not known.
bool Solver::is_first_use(const llvm::Instruction& lock) {
  const llvm::DominatorTree& tree = dominators(*lock.getFunction());
  for (const auto& [end, way] : edges_above(tree, lock)) {
    const auto* br = llvm::dyn_cast<llvm::BranchInst>(end);
    std::vector<const llvm::Value*> read;
    if (br == nullptr || !br->isConditional() || !reads(br->getCondition(), read)) continue;
    for (const llvm::BasicBlock& block : *lock.getFunction()) {
      const auto* again = llvm::dyn_cast<llvm::BranchInst>(block.getTerminator());
      if (again != nullptr && again->isConditional() && tree.dominates(&lock, again) &&
          is_same(br->getCondition(), again->getCondition(), {nullptr, &lock})) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace lint
