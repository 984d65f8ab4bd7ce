// What is known where a state begins: from the branches that lead there (solver.h).
#include "conditions.h"

#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>

#include "solver.h"

namespace lint {
namespace {

constexpr std::size_t kMostEdges = 4;  // into a block, that are told apart
constexpr std::size_t kMostWays = 12;  // into a block, what they have in common
constexpr int kMostAbove = 6;          // blocks between that and where the state begins

}  // namespace

// The branches above a place, and where each went, the nearest first.
Edges edges_above(const llvm::DominatorTree& tree, const llvm::Instruction& at) {
  Edges edges;
  const auto* node = tree.getNode(at.getParent());
  if (node == nullptr) return edges;
  for (node = node->getIDom(); node != nullptr && edges.size() < 16; node = node->getIDom()) {
    const llvm::Instruction* end = node->getBlock()->getTerminator();
    if (!llvm::isa<llvm::BranchInst, llvm::SwitchInst>(end) || end->getNumSuccessors() < 2)
      continue;
    for (const llvm::BasicBlock* to : llvm::successors(end)) {
      if (to->getUniquePredecessor() == nullptr || !tree.dominates(to, at.getParent())) continue;
      edges.emplace_back(end, to);
      break;
    }
  }
  return edges;
}

// What it means that a branch went there; false if it cannot have been.
bool assume_edge(Reasoning& reasoning, const llvm::Instruction& end, const llvm::BasicBlock& to) {
  if (const auto* br = llvm::dyn_cast<llvm::BranchInst>(&end)) {
    return br->isUnconditional() || br->getSuccessor(0) == br->getSuccessor(1) ||
           reasoning.assume(br->getCondition(), br->getSuccessor(0) == &to);
  }
  const auto* sw = llvm::dyn_cast<llvm::SwitchInst>(&end);
  if (sw == nullptr) return true;
  if (sw->getDefaultDest() == &to) {
    return std::all_of(sw->case_begin(), sw->case_end(), [&](const auto& one) {
      const Range value(one.getCaseValue()->getValue());
      return one.getCaseSuccessor() == &to ||
             reasoning.constrain(sw->getCondition(), value.inverse());
    });
  }
  std::optional<Range> values;
  for (const auto& one : sw->cases()) {
    if (one.getCaseSuccessor() != &to) continue;
    const Range value(one.getCaseValue()->getValue());
    values = values ? values->unionWith(value) : value;
  }
  return !values || reasoning.constrain(sw->getCondition(), *values);
}

bool counts_by_one(const llvm::PHINode& counter, const llvm::Loop& loop) {
  const llvm::BasicBlock* latch = loop.getLoopLatch();
  if (latch == nullptr || counter.getParent() != loop.getHeader()) return false;
  const auto* next = llvm::dyn_cast<llvm::BinaryOperator>(counter.getIncomingValueForBlock(latch));
  if (next == nullptr || next->getOpcode() != llvm::Instruction::Add) return false;
  const auto* step = llvm::dyn_cast<llvm::ConstantInt>(next->getOperand(1));
  return step != nullptr && step->isOne() && next->getOperand(0) == &counter;
}

bool asks_for_null(const llvm::Instruction& end, const llvm::CallBase& call) {
  const auto* br = llvm::dyn_cast<llvm::BranchInst>(&end);
  const auto* cmp = br != nullptr && br->isConditional()
                        ? llvm::dyn_cast<llvm::ICmpInst>(br->getCondition())
                        : nullptr;
  return cmp != nullptr && cmp->isEquality() &&
         llvm::isa<llvm::ConstantPointerNull>(cmp->getOperand(1)) &&
         llvm::is_contained(call.args(), cmp->getOperand(0));
}

const llvm::DominatorTree& Solver::dominators(const llvm::Function& f) {
  std::unique_ptr<llvm::DominatorTree>& tree = trees_[&f];
  if (tree == nullptr) tree = std::make_unique<llvm::DominatorTree>(const_cast<llvm::Function&>(f));
  return *tree;
}

// Whether the call or the atomic operation where the state begins writes the cells itself.
bool Solver::writes(const llvm::Instruction& at, Cells cells) const {
  if (!llvm::isa<llvm::StoreInst>(at) && written_by(at) != nullptr)
    return memory_.meet(memory_.cells_of(written_by(at)), cells);
  const auto* call = llvm::dyn_cast<llvm::CallBase>(&at);
  return call != nullptr && memory_.may_write(*call, cells);
}

// What the branches above a place say of it.
Known Solver::conditions_at(const llvm::Instruction& at) {
  Known known;
  const Fact none;
  const llvm::DominatorTree& tree = dominators(*at.getFunction());
  // The cells to which what is asked for was stored, if they hold it still.
  const auto note_stored = [&](const llvm::Value& value) {
    if (!llvm::isa<llvm::Instruction>(value)) return;
    for (const llvm::User* user : value.users()) {
      const auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
      if (store == nullptr || store->getValueOperand() != &value || !tree.dominates(store, &at))
        continue;
      const Address to = address_of(store->getPointerOperand(), memory_.layout());
      const Cells cells = memory_.cells_of(store->getPointerOperand());
      if (untouched(*store, at, cells, to) && !writes(at, cells)) known.set_cell(to, &value);
    }
  };
  const Edges edges = edges_above(tree, at);
  for (auto e = edges.rbegin(); e != edges.rend(); ++e) {
    Reasoning reasoning(known, none, Track::kAddress);
    assume_edge(reasoning, *e->first, *e->second);
    const auto* br = llvm::dyn_cast<llvm::BranchInst>(e->first);
    if (br == nullptr) continue;
    note_cells(known, *br->getCondition(),
               [&](const llvm::LoadInst& load, Cells cells, Address from) {
                 return untouched(load, at, cells, from) && !writes(at, cells);
               });
    if (const auto* cmp = llvm::dyn_cast<llvm::ICmpInst>(br->getCondition()))
      note_stored(*cmp->getOperand(0));
  }
  note_numbers(known, at);
  return known;
}

// The numbers that were stored above, if they are there still; `before`: that `at` may write there
// does not count.
void Solver::note_numbers(Known& known, const llvm::Instruction& at, bool before) {
  constexpr int kMostLooked = 24;
  int looked = 0;
  const auto* node = dominators(*at.getFunction()).getNode(at.getParent());
  for (const llvm::Instruction* i = &at; node != nullptr && ++looked < kMostLooked;) {
    i = i->getPrevNode();
    if (i == nullptr) {
      node = node->getIDom();
      if (node != nullptr) i = node->getBlock()->getTerminator();
    }
    if (i == nullptr) return;
    if (const auto* call = llvm::dyn_cast<llvm::CallBase>(i)) note_left(known, *call, at, before);
    const auto* store = llvm::dyn_cast<llvm::StoreInst>(i);
    if (store == nullptr || !llvm::isa<llvm::ConstantInt>(store->getValueOperand())) continue;
    const Address to = address_of(store->getPointerOperand(), memory_.layout());
    const Cells cells = memory_.cells_of(store->getPointerOperand());
    if (untouched(*store, at, cells, to) && (before || !writes(at, cells)))
      known.set_cell(to, store->getValueOperand());
  }
}

// The same of numbers that a function left in what it made, or was given.
void Solver::note_left(Known& known, const llvm::CallBase& call, const llvm::Instruction& at,
                       bool before) {
  const llvm::Function* f = call.getCalledFunction();
  if (f == nullptr || f->isDeclaration()) return;
  for (const Left& left : numbers_left(*f)) {
    const llvm::Value* in =
        left.parameter < 0 ? &call : call.getArgOperand(static_cast<unsigned>(left.parameter));
    Address to = address_of(in, memory_.layout());
    if (to.offset == kAnyOffset || llvm::isa<llvm::ConstantData>(to.root)) continue;
    to.offset += left.offset;
    const Cells cells = memory_.cells(to.root, to.offset);
    if (untouched(call, at, cells, to) && (before || !writes(at, cells)))
      known.set_cell(to, left.number);
  }
}

// The numbers that are there whenever the function comes back with something.
const std::vector<Solver::Left>& Solver::numbers_left(const llvm::Function& f) {
  constexpr unsigned kMostInstructions = 200;
  const auto [found, added] = left_.try_emplace(&f);
  if (!added || f.getInstructionCount() > kMostInstructions) return found->second;
  const llvm::Instruction* end = nullptr;
  for (const llvm::BasicBlock& block : f) {
    if (!llvm::isa<llvm::ReturnInst>(block.getTerminator())) continue;
    if (end != nullptr) return found->second;
    end = block.getTerminator();
  }
  if (end == nullptr) return found->second;
  const llvm::Value* made = llvm::cast<llvm::ReturnInst>(end)->getReturnValue();
  const llvm::Instruction* last = end;
  for (int depth = 0; depth < kMostSteps; ++depth) {  // either something or null
    const auto* meeting = llvm::dyn_cast_or_null<llvm::PHINode>(made);
    if (meeting == nullptr) break;
    made = nullptr;
    for (unsigned in = 0; in < meeting->getNumIncomingValues(); ++in) {
      const llvm::Value* value = meeting->getIncomingValue(in);
      if (llvm::isa<llvm::ConstantPointerNull>(value)) continue;
      if (made != nullptr) return found->second;
      made = value;
      last = meeting->getIncomingBlock(in)->getTerminator();
    }
  }
  for (const llvm::BasicBlock& block : f) {
    for (const llvm::Instruction& i : block) {
      const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
      const auto* number =
          store != nullptr ? llvm::dyn_cast<llvm::ConstantInt>(store->getValueOperand()) : nullptr;
      if (number == nullptr) continue;
      const Address to = address_of(store->getPointerOperand(), memory_.layout());
      const auto* parameter = llvm::dyn_cast<llvm::Argument>(to.root);
      const llvm::Instruction* until = parameter != nullptr ? end : last;
      if ((parameter == nullptr && to.root != made) || to.offset == kAnyOffset ||
          !dominators(f).dominates(store, until) ||
          !untouched(*store, *until, memory_.cells_of(store->getPointerOperand()), to)) {
        continue;
      }
      const int place = parameter != nullptr ? static_cast<int>(parameter->getArgNo()) : -1;
      found->second.push_back({place, to.offset, number});
    }
  }
  return found->second;
}

// Where several branches meet above a place, what each of them says; else only what is known.
std::vector<Known> Solver::views_at(const llvm::Instruction& at, Known known) {
  const llvm::DominatorTree& tree = dominators(*at.getFunction());
  const auto* node = tree.getNode(at.getParent());
  const auto is_meeting = [&](const llvm::BasicBlock* block) {
    return block->hasNPredecessorsOrMore(2) && !block->hasNPredecessorsOrMore(kMostEdges + 1) &&
           llvm::all_of(llvm::predecessors(block), [&](const llvm::BasicBlock* from) {
             return from->getTerminator()->getNumSuccessors() > 1 && !tree.dominates(block, from);
           });
  };
  for (int above = 0; node != nullptr && above < kMostAbove; ++above, node = node->getIDom()) {
    const llvm::BasicBlock* meeting = node->getBlock();
    std::vector<Known> views;
    if (!is_meeting(meeting)) {
      views = views_by_way(*meeting, at, known);
      if (views.size() > 1) return views;
      if (views.size() == 1) known = std::move(views[0]);
      continue;
    }
    for (const llvm::BasicBlock* from : llvm::predecessors(meeting)) {
      Known view = known;
      const Fact none;
      Reasoning reasoning(view, none, Track::kAddress);
      const Edges before = edges_above(tree, *from->getTerminator());
      bool can = llvm::all_of(before, [&](const auto& edge) {
        return assume_edge(reasoning, *edge.first, *edge.second);
      });
      can = can && learn_edge(view, *from->getTerminator(), *meeting, at) &&
            llvm::all_of(meeting->phis(), [&](const llvm::PHINode& phi) {
              const auto range = reasoning.range(phi.getIncomingValueForBlock(from));
              return !range || reasoning.constrain(&phi, *range);
            });
      if (can) views.push_back(std::move(view));
    }
    return views;
  }
  return {known};
}

// Where ways meet, each of which knows something: `case kCopy: opens = 0; break; ... if (opens)
// open(...)`. What those say by which the place can be reached, or, if all can, what they have in
// common; none if that is nothing.
std::vector<Known> Solver::views_by_way(const llvm::BasicBlock& meeting,
                                        const llvm::Instruction& at, const Known& known) {
  const llvm::DominatorTree& tree = dominators(*at.getFunction());
  if (!meeting.hasNPredecessorsOrMore(2) || meeting.hasNPredecessorsOrMore(kMostWays + 1))
    return {};
  const Fact none;
  const auto goes_round = [&](const llvm::BasicBlock* from) {
    return tree.dominates(&meeting, from);
  };
  const auto stays = [&](const llvm::PHINode& phi) {
    return llvm::all_of(llvm::predecessors(&meeting), [&](const llvm::BasicBlock* from) {
      return !goes_round(from) || phi.getIncomingValueForBlock(from) == &phi;
    });
  };
  const auto came = [&](Known& view, const llvm::BasicBlock* from) {
    Reasoning reasoning(view, none, Track::kAddress);
    const llvm::Instruction& end = *from->getTerminator();
    const Edges above = edges_above(tree, end);
    return std::all_of(above.rbegin(), above.rend(),
                       [&](const auto& edge) {
                         return assume_edge(reasoning, *edge.first, *edge.second);
                       }) &&
           assume_edge(reasoning, end, meeting) &&
           llvm::all_of(meeting.phis(), [&](const llvm::PHINode& phi) {
             const auto range = reasoning.range(phi.getIncomingValueForBlock(from));
             return !range || !stays(phi) || reasoning.constrain(&phi, *range);
           });
  };
  const Edges below = edges_above(tree, at);
  std::vector<Known> views;
  bool all = true;
  for (const llvm::BasicBlock* from : llvm::predecessors(&meeting)) {
    if (goes_round(from)) continue;
    Known view;
    bool can = came(view, from);
    Reasoning reasoning(view, none, Track::kAddress);
    for (auto edge = below.rbegin(); can && edge != below.rend(); ++edge)
      can = assume_edge(reasoning, *edge->first, *edge->second);
    all &= can;
    if (!can) continue;
    views.push_back(known);
    if (!came(views.back(), from)) views.pop_back();
  }
  while (views.size() > (all ? 1 : kMostEdges)) {
    views[views.size() - 2].join(views.back());
    views.pop_back();
  }
  if (all && !views.empty() && views[0].covers(known)) return {};
  return views;
}

// What the edge between two blocks says, of values and of the cells that they were read from, if
// these are the same still at the place. False if the edge cannot have been taken.
bool Solver::learn_edge(Known& view, const llvm::Instruction& end, const llvm::BasicBlock& to,
                        const llvm::Instruction& at) const {
  const Fact none;
  Reasoning reasoning(view, none, Track::kAddress);
  const auto* br = llvm::dyn_cast<llvm::BranchInst>(&end);
  if (br == nullptr || br->getSuccessor(0) == br->getSuccessor(1)) return true;
  if (!reasoning.assume(br->getCondition(), br->getSuccessor(0) == &to)) return false;
  note_cells(view, *br->getCondition(), [&](const llvm::LoadInst& load, Cells cells, Address from) {
    return untouched(load, end, cells, from) && untouched(to.front(), at, cells, from) &&
           !writes(at, cells);
  });
  return true;
}

// The cells from which a comparison read what it compares, if they hold the same still.
void Solver::note_cells(
    Known& known, const llvm::Value& condition,
    llvm::function_ref<bool(const llvm::LoadInst&, Cells, Address)> holds) const {
  const auto* cmp = llvm::dyn_cast<llvm::ICmpInst>(&condition);
  const llvm::Value* read = cmp != nullptr ? cmp->getOperand(0) : nullptr;
  while (read != nullptr) {
    if (const auto* cast = llvm::dyn_cast<llvm::CastInst>(read)) read = cast->getOperand(0);
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(read);
    if (load == nullptr) return;
    const Address from = address_of(load->getPointerOperand(), memory_.layout());
    if (!holds(*load, memory_.cells_of(load->getPointerOperand()), from)) return;
    known.set_cell(from, load);
    read = from.root;  // it may have been reached through a cell itself
  }
}

}  // namespace lint
