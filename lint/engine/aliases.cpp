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

// What a small function reads where its parameter leads, and returns; nothing if it does more.
const llvm::LoadInst* read_by(const llvm::CallBase& call) {
  const llvm::Function* f = call.getCalledFunction();
  if (f == nullptr || f->size() != 1 || f->getInstructionCount() > kLooked) return nullptr;
  const auto* end = llvm::dyn_cast<llvm::ReturnInst>(f->getEntryBlock().getTerminator());
  return end != nullptr ? llvm::dyn_cast_or_null<llvm::LoadInst>(end->getReturnValue()) : nullptr;
}

}  // namespace

// Whether nothing between the two may have written the cells; not, if to look takes too long.
bool Solver::untouched(const llvm::Instruction& from, const llvm::Instruction& to, Cells cells,
                       Address place) const {
  const auto writes = [&](const llvm::Instruction& i) {
    if (const llvm::Value* written = written_by(i)) {
      const Address to = address_of(written, memory_.layout());
      if (to.root == place.root) return offsets_meet(to.offset, place.offset);
      const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
      if (store != nullptr && is_unlinked_by(*store, from, memory_.layout())) return true;
      return memory_.meet(memory_.cells_of(written), cells);
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
// `before`: the name holds before `at`, which may write there.
void Solver::recall(Fact& fact, const Name& name, const llvm::Instruction& at, bool before) {
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
  if (name.steps > 0 && !before && writes(at, cells)) return;
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
  for (const llvm::User* user : cell.root->users()) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(user);
    const llvm::LoadInst* load = call != nullptr ? read_by(*call) : nullptr;
    if (load == nullptr) continue;
    const Address from = address(load->getPointerOperand(), fact);
    const auto* parameter = llvm::dyn_cast<llvm::Argument>(from.root);
    if (parameter == nullptr || from.offset == kAnyOffset) continue;
    const Address given = address(call->getArgOperand(parameter->getArgNo()), fact);
    if (given.root == cell.root && given.offset != kAnyOffset &&
        given.offset + from.offset == cell.offset) {
      consider(*call, call);
    }
  }
}

// What the call returns the object's argument for, where a rule says so; null if none does. A
// number is returned as it is, as the descriptor of a stream; a pointer may lead to another place
// in it.
const llvm::Value* Solver::returns(const Fact& fact, const llvm::CallBase& call) const {
  for (const Rule* rule : rules_for(fact.property, call)) {
    const auto place = static_cast<unsigned>(rule->source.first);
    if (rule->kind == Rule::Kind::kPass && place < call.arg_size())
      return call.getArgOperand(place);
  }
  return nullptr;
}

void Solver::made_from(Fact& fact, const Name& name, const llvm::Instruction& at) const {
  const auto* call = llvm::dyn_cast<llvm::CallBase>(name.root);
  if (call == nullptr || call == &at || name.steps != 0) return;
  const llvm::Value* given = returns(fact, *call);
  if (given == nullptr || llvm::isa<llvm::Constant>(given)) return;
  const Address from = address(given, fact);
  const bool moved = given->getType()->isPointerTy();
  fact.add({from.root, {moved ? kAnyOffset : from.offset}, 0, Name::Kind::kObject});
}

// Whether the value is null or leads into the object.
bool Solver::leads_into(const Fact& fact, const llvm::Value* v, int depth) const {
  const Address a = address_of(v, memory_.layout(), true);
  if (llvm::isa<llvm::ConstantPointerNull>(v) || fact.is_named(a, Track::kObject)) return true;
  if (depth == 0) return false;
  if (const auto* call = llvm::dyn_cast<llvm::CallBase>(a.root)) {
    const llvm::Value* given = returns(fact, *call);
    return given != nullptr && !llvm::isa<llvm::Constant>(given) &&
           leads_into(fact, given, depth - 1);
  }
  const auto* meeting = llvm::dyn_cast<llvm::PHINode>(a.root);
  return meeting != nullptr && llvm::all_of(meeting->incoming_values(), [&](const llvm::Use& in) {
           return address_of(in.get(), memory_.layout(), true).root == meeting ||
                  leads_into(fact, in.get(), depth - 1);
         });
}

// The other way round: what was made of it before, and is spoken of still.
void Solver::made_into(Fact& fact, const Name& name, const llvm::Instruction& at) {
  if (name.steps != 0 || name.kind != Name::Kind::kObject || matters_at_end(fact) ||
      llvm::isa<llvm::Constant>(name.root)) {
    return;
  }
  std::vector<const llvm::Value*> from{name.root};
  for (std::size_t v = 0; v < from.size() && v < kMostUsers; ++v) {
    if (from[v]->hasNUsesOrMore(kMostUsers)) continue;
    for (const llvm::User* user : from[v]->users()) {
      const auto* made = llvm::dyn_cast<llvm::Instruction>(user);
      if (made == nullptr || made == &at || made->getFunction() != at.getFunction()) continue;
      const bool same = llvm::isa<llvm::GetElementPtrInst, llvm::CastInst, llvm::FreezeInst>(made);
      if (!same && (!llvm::isa<llvm::CallBase, llvm::PHINode>(made) ||
                    !leads_into(fact, made, kMostSteps) || llvm::is_contained(from, made))) {
        continue;
      }
      from.push_back(made);
      if (!same && fact.names.size() + 2 <= kMostNames &&
          dominators(*at.getFunction()).dominates(made, &at) &&
          users_ahead(*made).contains(at.getParent())) {
        fact.add({made, {kAnyOffset}, 0, Name::Kind::kObject});
      }
    }
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
        made_into(fact, n, at);
        recall(fact, n, at);
      }
      if (n.steps == kMostSteps) continue;
      const auto try_cell = [&](const llvm::Instruction& access, Address a, const Name& held) {
        Name more;
        if (!prefixed(held, a.root, a.offset, more)) return;
        for (int s = 0; s < more.steps; ++s) {
          const Address first = s == 0 ? a : Address{};
          if (!untouched(access, at, name_cells(more, s), first)) return;
        }
        fact.add(more);
      };
      if (const auto* l = llvm::dyn_cast<llvm::LoadInst>(n.root); l != nullptr && l != &at) {
        if (l->getFunction() != at.getFunction()) continue;
        const Address from = address(l->getPointerOperand(), fact);
        try_cell(*l, from, n);
        if (const auto first = first_element(from, at)) try_cell(*l, *first, n);
      } else if (llvm::isa<llvm::CallBase, llvm::Argument, llvm::PHINode>(n.root)) {
        const auto stored = [&](const llvm::Value& value, const Name& held) {
          for (const llvm::User* user : value.users()) {
            const auto* s = llvm::dyn_cast<llvm::StoreInst>(user);
            if (s != nullptr && s->getValueOperand() == &value &&
                s->getFunction() == at.getFunction() &&
                dominators(*at.getFunction()).dominates(s, &at)) {
              try_cell(*s, address(s->getPointerOperand(), fact), held);
            }
          }
        };
        stored(*n.root, n);
        if (n.root->hasNUsesOrMore(kMostUsers)) continue;
        for (const llvm::User* user : n.root->users()) {  // a place in it
          const auto* gep = llvm::dyn_cast<llvm::GetElementPtrInst>(user);
          const Address a = gep != nullptr ? address(gep, fact) : Address{};
          if (a.root != n.root || a.offset == kAnyOffset) continue;
          Name held = n;
          if (n.offsets[0] != kAnyOffset) held.offsets[0] -= a.offset;
          stored(*gep, held);
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
