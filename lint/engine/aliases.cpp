// By which other names the object is reached where a state begins: cells that it was read from or
// stored to, records that were copied, what was read before (solver.h).
#include <llvm/IR/IntrinsicInst.h>

#include "solver.h"

namespace lint {

constexpr std::size_t kLooked = 16;  // instructions looked at that count as one step

namespace {

// Whether the number, or what is computed from it, goes to another function of the program or into
// memory. Who only prints it has nothing of it.
bool is_handed_on(const llvm::Value& number, int depth) {
  return llvm::any_of(number.uses(), [&](const llvm::Use& use) {
    const llvm::User* user = use.getUser();
    if (llvm::isa<llvm::BinaryOperator, llvm::CastInst>(user))
      return depth > 0 && is_handed_on(*user, depth - 1);
    if (const auto* call = llvm::dyn_cast<llvm::CallBase>(user)) {
      const llvm::Function* callee = call->getCalledFunction();
      return call->isArgOperand(&use) && (callee == nullptr || !callee->isDeclaration());
    }
    return llvm::isa<llvm::StoreInst, llvm::ReturnInst>(user);
  });
}

// Whether the store goes where the object itself says, and changes who leads to it: a list from
// which it is taken. `*k->prev = k->next`
bool is_unlinked_by(const llvm::StoreInst& store, const llvm::Instruction& object,
                    const llvm::DataLayout& layout) {
  const auto* pointer =
      llvm::dyn_cast<llvm::LoadInst>(address_of(store.getPointerOperand(), layout).root);
  return pointer != nullptr && store.getValueOperand()->getType()->isPointerTy() &&
         address_of(pointer->getPointerOperand(), layout).root == &object;
}

}  // namespace

// Whether nothing between the two may have written the cells; not, if to look takes too long.
bool Solver::untouched(const llvm::Instruction& from, const llvm::Instruction& to, Cells cells,
                       Address place) const {
  const auto writes = [&](const llvm::Instruction& i) {
    if (const auto* s = llvm::dyn_cast<llvm::StoreInst>(&i)) {
      const Address to = address_of(s->getPointerOperand(), memory_.layout());
      if (to.root == place.root) return offsets_meet(to.offset, place.offset);
      if (is_unlinked_by(*s, from, memory_.layout())) return true;
      return memory_.meet(memory_.cells_of(s->getPointerOperand()), cells);
    }
    if (const auto* c = llvm::dyn_cast<llvm::CallBase>(&i)) {
      return !llvm::isa<llvm::DbgInfoIntrinsic>(i) && memory_.may_write(*c, cells);
    }
    return false;
  };
  std::set<const llvm::BasicBlock*> seen;
  std::size_t looked = 0;
  std::vector<const llvm::Instruction*> ends{&to};
  while (!ends.empty()) {
    const llvm::Instruction* end = ends.back();
    ends.pop_back();
    const llvm::BasicBlock* block = end->getParent();
    bool found = false;
    for (const llvm::Instruction* i = end->getPrevNode(); i != nullptr; i = i->getPrevNode()) {
      if (i == &from) {
        found = true;
        break;
      }
      if (++looked % kLooked == 0 && ++steps_ > most_work_) return false;
      if (writes(*i)) return false;
    }
    if (found) continue;
    if (block == &block->getParent()->getEntryBlock() || seen.size() > 60) return false;
    for (const llvm::BasicBlock* before : llvm::predecessors(block)) {
      if (!seen.insert(before).second) continue;
      if (before->getTerminator() == &from) continue;
      if (writes(*before->getTerminator())) return false;
      ends.push_back(before->getTerminator());
    }
  }
  return true;
}

// Of what lies in a record that was copied from another: the name in the other, if neither has
// changed since.
void Solver::original(Fact& fact, const Name& name, const llvm::Instruction& at) {
  if (!llvm::isa<llvm::AllocaInst>(name.root) || name.offsets[0] == kAnyOffset) return;
  for (const llvm::User* user : name.root->users()) {
    const auto* copy = llvm::dyn_cast<llvm::MemTransferInst>(user);
    if (copy == nullptr || copy->getDest() != name.root) continue;
    const auto* length = llvm::dyn_cast<llvm::ConstantInt>(copy->getLength());
    const Address from = address(copy->getSource(), fact);
    if (length == nullptr || name.offsets[0] >= length->getSExtValue() ||
        from.offset == kAnyOffset || !dominators(*at.getFunction()).dominates(copy, &at)) {
      continue;
    }
    Name more = name;
    more.root = from.root;
    more.offsets[0] += from.offset;
    const Address place{more.root, more.offsets[0]}, copied_to{name.root, name.offsets[0]};
    if (untouched(*copy, at, name_cells(name, 0), copied_to) &&
        untouched(*copy, at, name_cells(more, 0), place)) {
      fact.add(more);
    }
  }
}

// What was read from the same cell before, or stored to it, and is spoken of still, is the same.
void Solver::recall(Fact& fact, const Name& name, const llvm::Instruction& at) {
  constexpr unsigned kMostUsers = 64;
  // The cell: what the name leads through first, or what its root was read from.
  Address cell{name.root, name.offsets[0]};
  const llvm::Instruction* until = &at;
  if (name.steps == 0) {
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(name.root);
    if (load == nullptr || load->getFunction() != at.getFunction()) return;
    cell = address(load->getPointerOperand(), fact);
    until = load;
  }
  if (cell.offset == kAnyOffset || llvm::isa<llvm::Constant>(cell.root) ||
      fact.names.size() + 2 > kMostNames) {
    return;
  }
  const Cells cells = memory_.cells(cell.root, cell.offset);
  if (name.steps > 0 && writes(at, cells)) return;
  const auto consider = [&](const llvm::Instruction& access, const llvm::Value* value) {
    const auto* root = llvm::dyn_cast<llvm::Instruction>(value);
    if (root == nullptr || root == name.root || !value->getType()->isPointerTy() ||
        access.getFunction() != at.getFunction() ||
        !dominators(*at.getFunction()).dominates(&access, until) ||
        !users_ahead(*root).contains(at.getParent()) || !untouched(access, *until, cells, cell)) {
      return;
    }
    Name more = name;
    if (name.steps == 0)
      more.root = value;
    else if (!derived(name, cell, value, more))
      return;
    fact.add(more);
  };
  const auto look = [&](const llvm::Value* pointer) {
    for (const llvm::User* user : pointer->users()) {
      if (const auto* l = llvm::dyn_cast<llvm::LoadInst>(user))
        consider(*l, l);
      else if (const auto* s = llvm::dyn_cast<llvm::StoreInst>(user);
               s != nullptr && s->getPointerOperand() == pointer)
        consider(*s, s->getValueOperand());
    }
  };
  if (cell.root->hasNUsesOrMore(kMostUsers)) return;
  if (cell.offset == 0) look(cell.root);
  for (const llvm::User* user : cell.root->users()) {
    const auto* gep = llvm::dyn_cast<llvm::GetElementPtrInst>(user);
    if (gep == nullptr) continue;
    const Address a = address(gep, fact);
    if (a.root == cell.root && a.offset == cell.offset) look(gep);
  }
}

// Where a rule says that what a call returns is what it was given, as a stream and its descriptor.
void Solver::made_from(Fact& fact, const Name& name, const llvm::Instruction& at) const {
  const auto* call = llvm::dyn_cast<llvm::CallBase>(name.root);
  if (call == nullptr || call == &at || name.steps != 0) return;
  for (const Rule* rule : rules_for(fact.property, *call)) {
    if (rule->kind != Rule::Kind::kPass ||
        static_cast<unsigned>(rule->source.first) >= call->arg_size()) {
      continue;
    }
    const Address from =
        address(call->getArgOperand(static_cast<unsigned>(rule->source.first)), fact);
    fact.add({from.root, {from.offset}, 0, Name::Kind::kObject});
  }
}

// Adds the cells that surely hold the object when `at` is reached, from the loads and stores of it
// that lie before.
void Solver::widen(Fact& fact, const llvm::Instruction& at) {
  for (std::size_t round = 0; round < fact.names.size(); ++round) {
    const std::vector<Name> names = fact.names;
    const std::size_t before = names.size();
    for (const Name& n : names) {
      if (n.kind == Name::Kind::kScalar) continue;
      if (n.steps > 0) original(fact, n, at);
      if (property(fact).track == Track::kObject) {
        made_from(fact, n, at);
        recall(fact, n, at);
      }
      if (n.steps == kMostSteps) continue;
      const auto try_cell = [&](const llvm::Instruction& access, const llvm::Value* pointer) {
        const Address a = address(pointer, fact);
        Name more;
        if (!prefixed(n, a.root, a.offset, more)) return;
        for (int s = 0; s < more.steps; ++s) {
          const Address first = s == 0 ? a : Address{};
          if (!untouched(access, at, name_cells(more, s), first)) return;
        }
        fact.add(more);
      };
      if (const auto* l = llvm::dyn_cast<llvm::LoadInst>(n.root); l != nullptr && l != &at) {
        if (l->getFunction() == at.getFunction()) try_cell(*l, l->getPointerOperand());
      } else if (llvm::isa<llvm::CallBase>(n.root) || llvm::isa<llvm::Argument>(n.root)) {
        for (const llvm::User* user : n.root->users()) {
          const auto* s = llvm::dyn_cast<llvm::StoreInst>(user);
          if (s == nullptr || s->getValueOperand() != n.root ||
              s->getFunction() != at.getFunction()) {
            continue;
          }
          if (dominators(*at.getFunction()).dominates(s, &at)) try_cell(*s, s->getPointerOperand());
        }
      }
    }
    if (fact.names.size() == before) return;
  }
}

// A descriptor's number with room made for a flag, `fd << 1 | 1`, that a function of the program
// gets or a place keeps: who has that has the descriptor.
void Solver::is_packed(State& state, const llvm::BinaryOperator& shift) const {
  if (property(state.fact).track != Track::kObject || shift.getOpcode() != llvm::Instruction::Shl ||
      !llvm::isa<llvm::Constant>(shift.getOperand(1)) || !is_handed_on(shift, kMostSteps)) {
    return;
  }
  const Address number = address(shift.getOperand(0), state.fact);
  for (const Name& n : state.fact.names)
    state.fact.escaped |= n.steps == 0 && n.root == number.root;
}

}  // namespace lint
