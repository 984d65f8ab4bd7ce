// From block to block: which ways a branch allows, and what values are called in the next
// (solver.h).
#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicInst.h>

#include "solver.h"

namespace lint {
namespace {

// Whether the value that a phi gets is itself, moved along: a place in a stack or a buffer.
bool moves_along(const llvm::PHINode& phi, const llvm::Value* in, const llvm::DataLayout& layout,
                 int depth = 5, bool moved = false) {
  const Address a = address_of(in, layout, true);
  moved |= a.offset != 0;
  if (a.root == &phi) return moved;
  const auto* other = llvm::dyn_cast<llvm::PHINode>(a.root);
  if (other == nullptr || depth == 0) return false;
  return std::any_of(other->op_begin(), other->op_end(), [&](const llvm::Use& use) {
    return moves_along(phi, use.get(), layout, depth - 1, moved);
  });
}

// The comparison by which two values are the same on the way to a block; null if there is none.
const llvm::ICmpInst* found_equal(const llvm::Instruction& end, const llvm::BasicBlock* to) {
  const auto* br = llvm::dyn_cast<llvm::BranchInst>(&end);
  const auto* cmp = br != nullptr && br->isConditional()
                        ? llvm::dyn_cast<llvm::ICmpInst>(br->getCondition())
                        : nullptr;
  if (cmp == nullptr || !cmp->isEquality()) return nullptr;
  const bool equal = cmp->getPredicate() == llvm::CmpInst::ICMP_EQ;
  return (br->getSuccessor(0) == to) == equal ? cmp : nullptr;
}

// The same of two numbers.
const llvm::ICmpInst* same_number(const llvm::Instruction& end, const llvm::BasicBlock* to) {
  const llvm::ICmpInst* cmp = found_equal(end, to);
  return cmp != nullptr && cmp->getOperand(0)->getType()->isIntegerTy() ? cmp : nullptr;
}

// Whether the pointer is fresh from an allocator, by whichever way it came.
bool is_fresh(const llvm::Value* v) {
  const auto* either = llvm::dyn_cast<llvm::PHINode>(v);
  if (either == nullptr) return llvm::isNoAliasCall(v);
  return llvm::all_of(either->incoming_values(),
                      [](const llvm::Use& in) { return llvm::isNoAliasCall(in.get()); });
}

// Whether memory that was given back turns out to be what an allocator gave since: realloc left it
// where it was.
bool is_given_anew(const Fact& fact, const llvm::Instruction& end, const llvm::BasicBlock* to) {
  const llvm::ICmpInst* cmp = found_equal(end, to);
  if (cmp == nullptr) return false;
  const auto is_named = [&fact](const llvm::Value* v) {
    return std::any_of(fact.names.begin(), fact.names.end(),
                       [v](const Name& n) { return n.steps == 0 && n.root == v; });
  };
  const llvm::Value *a = cmp->getOperand(0), *b = cmp->getOperand(1);
  return (is_named(a) && !is_named(b) && is_fresh(b)) ||
         (is_named(b) && !is_named(a) && is_fresh(a));
}

// What is known of bits that are asked of the phi behind: what is known of those of its value.
void note_bits(const llvm::PHINode& phi, const llvm::Value* in, const Reasoning& reasoning,
               std::vector<std::pair<const llvm::Value*, Range>>& bits) {
  if (!phi.getType()->isIntegerTy() || phi.hasNUsesOrMore(kMostUsers)) return;
  for (const llvm::User* user : phi.users()) {
    const auto* asked = llvm::dyn_cast<llvm::BinaryOperator>(user);
    if (asked == nullptr || asked->getOpcode() != llvm::Instruction::And) continue;
    const auto* mask = llvm::dyn_cast<llvm::ConstantInt>(asked->getOperand(1));
    const auto known = mask != nullptr ? reasoning.bits(in, *mask) : std::nullopt;
    if (known) bits.emplace_back(asked, *known);
  }
}

// Whether what was put nowhere yet turns out to be what was read from memory: on no way.
bool is_read_elsewhere(const Fact& fact, const llvm::Instruction& end, const llvm::BasicBlock* to) {
  const llvm::ICmpInst* cmp = found_equal(end, to);
  if (cmp == nullptr || !cmp->getOperand(0)->getType()->isPointerTy() || fact.escaped ||
      fact.lent) {
    return false;
  }
  bool named = false;
  for (const Name& n : fact.names) {
    if (n.steps != 0) return false;
    named |= n.root == cmp->getOperand(0) || n.root == cmp->getOperand(1);
  }
  const auto is_read = [&fact](const llvm::Value* v) {
    return llvm::isa<llvm::LoadInst>(v) && std::none_of(fact.names.begin(), fact.names.end(),
                                                        [v](const Name& n) { return n.root == v; });
  };
  return named && (is_read(cmp->getOperand(0)) || is_read(cmp->getOperand(1)));
}

// Whether a descriptor turns out to be the number of another variable. If it was closed, the number
// may be that other's by now.
bool is_anothers(const Fact& fact, const llvm::Instruction& end, const llvm::BasicBlock* to) {
  const llvm::ICmpInst* cmp = same_number(end, to);
  if (cmp == nullptr || llvm::isa<llvm::Constant>(cmp->getOperand(1))) return false;
  return std::any_of(fact.names.begin(), fact.names.end(), [cmp](const Name& n) {
    return n.steps == 0 && (n.root == cmp->getOperand(0) || n.root == cmp->getOperand(1));
  });
}

}  // namespace

// Goes on at every successor that the path can take: the last in place, the others by `arrive`.
bool Solver::branch(State& state, const llvm::Instruction& end) {
  const llvm::BasicBlock* from = end.getParent();
  std::vector<State> next;
  const auto take = [&](const llvm::BasicBlock* to, auto learn) {
    State copy = state;
    Reasoning reasoning(copy.known, copy.fact, property(copy.fact).track);
    if (!learn(reasoning)) return;
    if (property(copy.fact).track == Track::kObject && !matters_at_end(copy.fact) &&
        (is_anothers(copy.fact, end, to) || is_given_anew(copy.fact, end, to))) {
      return;
    }
    if (property(copy.fact).track == Track::kObject && matters_at_end(copy.fact) &&
        contexts_[copy.context].is_root && is_read_elsewhere(copy.fact, end, to)) {
      return;
    }
    if (!drop_null(copy)) return;
    know_by_number(copy, end, to);
    if (enter_block(copy, from, to)) next.push_back(std::move(copy));
  };
  const auto always = [](Reasoning&) { return true; };
  if (const auto* br = llvm::dyn_cast<llvm::BranchInst>(&end)) {
    if (br->isUnconditional()) return jump(state, *br);
    const llvm::Value* c = br->getCondition();
    take(br->getSuccessor(0), [c](Reasoning& r) { return r.assume(c, true); });
    take(br->getSuccessor(1), [c](Reasoning& r) { return r.assume(c, false); });
  } else if (const auto* sw = llvm::dyn_cast<llvm::SwitchInst>(&end)) {
    const llvm::Value* c = sw->getCondition();
    for (const auto& one : sw->cases()) {
      const llvm::APInt value = one.getCaseValue()->getValue();
      take(one.getCaseSuccessor(), [&](Reasoning& r) { return r.constrain(c, Range(value)); });
    }
    take(sw->getDefaultDest(), [&](Reasoning& r) {
      for (const auto& one : sw->cases()) {
        if (!r.constrain(c, Range(one.getCaseValue()->getValue()).inverse())) return false;
      }
      return true;
    });
  } else if (const auto* invoke = llvm::dyn_cast<llvm::InvokeInst>(&end)) {
    take(invoke->getNormalDest(), always);
  } else if (!llvm::isa<llvm::ResumeInst>(end)) {
    for (const llvm::BasicBlock* to : llvm::successors(from)) take(to, always);
  }
  std::erase_if(next, [&](const State& s) { return !is_alive(s); });
  if (next.size() == 1 && next[0].at->getParent()->getSinglePredecessor() != nullptr) {
    state = std::move(next[0]);
    return true;
  }
  for (State& s : next) {
    if (s.at->getParent()->getSinglePredecessor() != nullptr)
      work_.push_back(std::move(s));
    else
      arrive(std::move(s));
  }
  return false;
}

// The same of a branch with one way.
bool Solver::jump(State& state, const llvm::BranchInst& end) {
  const llvm::BasicBlock* to = end.getSuccessor(0);
  know_by_number(state, end, to);
  if (!enter_block(state, end.getParent(), to) || !is_alive(state)) return false;
  if (to->getSinglePredecessor() != nullptr) return true;
  arrive(std::move(state));
  return false;
}

// A descriptor that is the same number as another, or a number known beforehand (0 to 2), is
// reached by that as well.
void Solver::know_by_number(State& state, const llvm::Instruction& end,
                            const llvm::BasicBlock* to) const {
  if (property(state.fact).track != Track::kObject) return;
  const llvm::ICmpInst* cmp = same_number(end, to);
  for (const Name& n : state.fact.names) {
    if (n.steps != 0) continue;
    const auto range = n.root->getType()->isIntegerTy() ? state.known.find(n.root) : std::nullopt;
    if (range && range->getSignedMax().sle(2)) state.fact.escaped = true;
    if (cmp != nullptr && (n.root == cmp->getOperand(0) || n.root == cmp->getOperand(1)))
      state.fact.escaped = true;
  }
}

// A place in the object that turns out to be null is none. False: no name of it is left.
bool Solver::drop_null(State& state) const {
  if (property(state.fact).track != Track::kObject || matters_at_end(state.fact)) return true;
  std::erase_if(state.fact.names, [&](const Name& n) {
    if (n.steps != 0 || n.kind != Name::Kind::kObject || !n.root->getType()->isPointerTy())
      return false;
    const auto range = state.known.find(n.root);
    return range && range->isSingleElement() && range->getSingleElement()->isZero();
  });
  return state.fact.has_object();
}

// Whether anything that lies ahead speaks of one of the names, if that is all that counts.
bool Solver::is_alive(const State& state) {
  if (matters_at_end(state.fact)) return true;
  const llvm::BasicBlock* here = state.at->getParent();
  for (const Name& n : state.fact.names) {
    const auto* root = llvm::dyn_cast<llvm::Instruction>(n.root);
    if (root == nullptr || users_ahead(*root).contains(here)) return true;
  }
  return false;
}

// The blocks from which a use of the value, or of a pointer made from it, can be reached.
const Solver::Blocks& Solver::users_ahead(const llvm::Instruction& root) {
  const auto [at, added] = ahead_.try_emplace(&root);
  if (!added) return at->second;
  std::vector<const llvm::BasicBlock*> work;
  std::vector<const llvm::Value*> values{&root};
  std::set<const llvm::Value*> seen;
  while (!values.empty()) {
    const llvm::Value* v = values.back();
    values.pop_back();
    if (!seen.insert(v).second) continue;
    for (const llvm::User* user : v->users()) {
      const auto* i = llvm::dyn_cast<llvm::Instruction>(user);
      if (i == nullptr || llvm::isa<llvm::LifetimeIntrinsic>(i)) continue;
      if (const auto* phi = llvm::dyn_cast<llvm::PHINode>(i)) {
        for (unsigned in = 0; in < phi->getNumIncomingValues(); ++in) {
          if (phi->getIncomingValue(in) == v) work.push_back(phi->getIncomingBlock(in));
        }
      } else {
        work.push_back(i->getParent());
        if (llvm::isa<llvm::GetElementPtrInst, llvm::CastInst, llvm::FreezeInst>(i) ||
            returned_as_it_is(i) == v)
          values.push_back(i);
      }
    }
  }
  Blocks& blocks = at->second;
  while (!work.empty()) {
    const llvm::BasicBlock* b = work.back();
    work.pop_back();
    if (!blocks.insert(b).second) continue;
    for (const llvm::BasicBlock* before : llvm::predecessors(b)) work.push_back(before);
  }
  return blocks;
}

// Registers of the block's phis change all at once.
bool Solver::enter_block(State& state, const llvm::BasicBlock* from, const llvm::BasicBlock* to) {
  std::vector<std::pair<const llvm::PHINode*, const llvm::Value*>> phis;
  for (const llvm::PHINode& phi : to->phis())
    phis.emplace_back(&phi, phi.getIncomingValueForBlock(from));
  state.at = &*to->getFirstNonPHIOrDbgOrLifetime();
  if (phis.empty()) {
    note_loop(state, from, to);
    return true;
  }
  const Fact before = state.fact;
  const bool content = property(before).track == Track::kContent;
  std::vector<std::optional<Range>> ranges;
  std::vector<std::pair<const llvm::Value*, Range>> bits;
  Reasoning reasoning(state.known, before, property(before).track);
  for (const auto& [phi, in] : phis) {
    ranges.push_back(reasoning.range(in));
    note_bits(*phi, in, reasoning, bits);
  }
  std::erase_if(state.fact.names, [&](const Name& n) {
    const auto* phi =
        llvm::dyn_cast_or_null<llvm::PHINode>(n.root == returned_value() ? nullptr : n.root);
    const bool gone = phi != nullptr && phi->getParent() == to;
    if (gone && n.steps > 0) state.fact.escaped = true;
    return gone;
  });
  for (std::size_t p = 0; p < phis.size(); ++p) {
    const auto [phi, in] = phis[p];
    state.known.forget(phi);
    if (ranges[p] && !ranges[p]->isFullSet()) state.known.set(phi, *ranges[p]);
    const Address a = address(in, before);
    // What lies where a pointer moves along is written again and again: no name is sure there.
    const bool moving = !content && a.offset != 0 && moves_along(*phi, in, memory_.layout());
    for (const Name& n : before.names) {
      if (n.root != a.root) continue;
      if (moving && n.steps > 0) {
        state.fact.escaped = true;
        continue;
      }
      Name more = n;
      more.root = phi;
      // However often it moved on, it has moved: one name for that, or a loop has no end.
      const bool moved = moving && n.root == phi && n.offsets[0] != 0;
      if (n.offsets[0] != kAnyOffset && a.offset != kAnyOffset && !moved)
        more.offsets[0] -= a.offset;
      state.fact.add(more);
    }
  }
  for (const auto& [asked, range] : bits) state.known.set(asked, range);
  // A cell that holds what the block does not speak of any more holds what the phi is.
  const llvm::DominatorTree& tree = dominators(*to->getParent());
  for (const auto& [phi, in] : phis) {
    const auto* moved = llvm::dyn_cast<llvm::Instruction>(in);
    // All phis take their values at once: one of this block is what it was before.
    if (moved != nullptr && !(llvm::isa<llvm::PHINode>(moved) && moved->getParent() == to) &&
        !tree.properlyDominates(moved->getParent(), to))
      state.known.rename_cells(moved, phi);
  }
  note_loop(state, from, to);
  if (state.fact.has_object()) return true;
  return lost(state, *from->getTerminator());
}

}  // namespace lint
