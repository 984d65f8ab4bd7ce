// What single instructions do to a fact (solver.h).
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Operator.h>

#include "solver.h"

namespace lint {
namespace {

// Of a pointer that a loop moves along: where it started. Nothing if that is not one place.
const llvm::Value* stepped_from(const llvm::Value* v) {
  constexpr std::size_t kMostPhis = 12;
  const auto* first = llvm::dyn_cast<llvm::PHINode>(v);
  if (first == nullptr || !first->getType()->isPointerTy()) return nullptr;
  const llvm::Value* base = nullptr;
  bool moves = false;
  std::vector<const llvm::PHINode*> phis{first};
  for (std::size_t p = 0; p < phis.size(); ++p) {
    for (const llvm::Value* in : phis[p]->incoming_values()) {
      const llvm::Value* from = in;
      while (const auto* gep = llvm::dyn_cast<llvm::GEPOperator>(from))
        from = gep->getPointerOperand();
      if (const auto* phi = llvm::dyn_cast<llvm::PHINode>(from)) {
        moves |= from != in;
        if (std::find(phis.begin(), phis.end(), phi) == phis.end()) phis.push_back(phi);
      } else if (base != nullptr && base != in) {
        return nullptr;
      } else {
        base = in;
      }
    }
    if (phis.size() > kMostPhis) return nullptr;
  }
  return moves ? base : nullptr;
}

// The first array in a record, which a pointer to the record points to as well.
std::int64_t first_array(llvm::Type* type, const llvm::DataLayout& layout) {
  auto* record = llvm::dyn_cast_or_null<llvm::StructType>(type);
  if (record == nullptr || record->getNumElements() < 2) return 0;
  llvm::Type* first = record->getElementType(0);
  if (llvm::isa<llvm::StructType>(first)) return first_array(first, layout);
  if (!first->isArrayTy()) return 0;
  return static_cast<std::int64_t>(layout.getTypeAllocSize(first).getFixedValue());
}

using Names = llvm::SmallVector<Name, kMostNames>;

enum class Kept : std::uint8_t { kNothing, kRecord, kPointer };

// What is put at the place, or in the record that lies there.
Kept kept_at(const llvm::GetElementPtrInst& place, int depth = 3) {
  const bool record =
      place.getSourceElementType()->isStructTy() || place.getResultElementType()->isStructTy();
  Kept kept = Kept::kNothing;
  for (const llvm::User* user : place.users()) {
    if (const auto* within = llvm::dyn_cast<llvm::GetElementPtrInst>(user)) {
      if (depth > 0) kept = std::max(kept, kept_at(*within, depth - 1));
    } else if (const auto* call = llvm::dyn_cast<llvm::CallBase>(user)) {
      if (record && !call->isLifetimeStartOrEnd() && !call->isDebugOrPseudoInst())
        kept = std::max(kept, Kept::kRecord);
    } else if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
               store != nullptr && store->getPointerOperand() == &place) {
      const llvm::Value* value = store->getValueOperand();
      if (value->getType()->isPointerTy() && !llvm::isa<llvm::ConstantPointerNull>(value))
        return Kept::kPointer;
      if (record && !llvm::isa<llvm::BinaryOperator>(value)) kept = std::max(kept, Kept::kRecord);
    }
  }
  return kept;
}

// What the function keeps at that number in arrays.
Kept kept_at(const llvm::Value& number) {
  Kept kept = Kept::kNothing;
  const auto look = [&](const llvm::Value& index) {
    for (const llvm::User* user : index.users()) {
      const auto* place = llvm::dyn_cast<llvm::GetElementPtrInst>(user);
      if (place != nullptr && place->getPointerOperand() != &index)
        kept = std::max(kept, kept_at(*place));
    }
  };
  look(number);
  for (const llvm::User* user : number.users()) {
    if (llvm::isa<llvm::CastInst>(user)) look(*user);
  }
  return kept;
}

// Whether a test of the pointer, or of what else is read from its variable, can follow.
bool is_tested(const llvm::Value* pointer) {
  const auto tested = [](const llvm::Value* v) {
    return std::any_of(v->user_begin(), v->user_end(), [](const llvm::User* u) {
      return llvm::isa<llvm::ICmpInst, llvm::PHINode>(u);
    });
  };
  if (tested(pointer)) return true;
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(pointer);
  if (load == nullptr) return false;
  const llvm::Value* variable = load->getPointerOperand();
  return std::any_of(variable->user_begin(), variable->user_end(), [&](const llvm::User* u) {
    return llvm::isa<llvm::LoadInst>(u) && tested(u);
  });
}

// A text that is parted in two where a pointer found its way into it: "name\0value". What follows
// is as it was. False if it was cut to nothing: where a variable begins.
bool parted(Fact& fact, const Name& at, const llvm::ConstantInt& zero) {
  if (llvm::isa<llvm::AllocaInst, llvm::GlobalVariable>(at.root) || !zero.getType()->isIntegerTy(8))
    return false;
  if (fact.extent == 1) return false;
  Name rest = at;
  ++rest.offsets[0];
  std::erase(fact.names, at);
  if (fact.extent > 1) --fact.extent;
  return fact.add(rest);
}

// Whether it asks for some bits of a number: what is known of those goes when the number is another
// (Known::forget).
bool is_of_same_bits(const llvm::Instruction& i) {
  return i.getOpcode() == llvm::Instruction::And && llvm::isa<llvm::ConstantInt>(i.getOperand(1)) &&
         !i.getOperand(0)->hasNUsesOrMore(kMostUsers);
}

}  // namespace

Address Solver::address(const llvm::Value* v, const Fact& fact) const {
  const bool content = property(fact).track == Track::kContent;
  Address a = address_of(v, memory_.layout(), false);
  // An index into bytes is anywhere in them; one into an array of records is the first record.
  while (content) {
    if (const llvm::Value* base = stepped_from(a.root); base != nullptr) {
      a = {base, kAnyOffset};
      const Address below = address_of(base, memory_.layout(), false);
      a.root = below.root;
    }
    const auto* gep = llvm::dyn_cast<llvm::GEPOperator>(a.root);
    if (gep == nullptr) break;
    llvm::MapVector<llvm::Value*, llvm::APInt> indices;
    llvm::APInt rest(64, 0);
    const bool known = gep->collectOffset(memory_.layout(), 64, indices, rest);
    bool bytes = !known;
    for (const auto& [index, scale] : indices) bytes |= scale.isOne();
    const Address base = address_of(gep->getPointerOperand(), memory_.layout(), false);
    const bool any = bytes || a.offset == kAnyOffset || base.offset == kAnyOffset;
    a = {base.root, any ? kAnyOffset : a.offset + base.offset + rest.getSExtValue()};
  }
  return a;
}

// The bytes of the array or record that a step within a record leads to; 0: not known.
std::int64_t Solver::extent(const llvm::Value* v) const {
  const auto* gep = llvm::dyn_cast<llvm::GEPOperator>(v);
  if (const auto* local = llvm::dyn_cast<llvm::AllocaInst>(v)) {
    return first_array(local->getAllocatedType(), memory_.layout());
  }
  if (const auto* global = llvm::dyn_cast<llvm::GlobalVariable>(v)) {
    return first_array(global->getValueType(), memory_.layout());
  }
  if (gep == nullptr || !gep->getSourceElementType()->isAggregateType()) return 0;
  llvm::Type* type = gep->getResultElementType();
  if (type->isIntegerTy(8) && gep->getNumIndices() > 1) {
    llvm::SmallVector<llvm::Value*, 4> steps(gep->idx_begin(), gep->idx_end());
    steps.pop_back();
    type = llvm::GetElementPtrInst::getIndexedType(gep->getSourceElementType(), steps);
  }
  if (type == nullptr || !type->isSized() || !type->isAggregateType()) return 0;
  return static_cast<std::int64_t>(memory_.layout().getTypeAllocSize(type).getFixedValue());
}

// The cells that a name leads through: 0 is the first.
Cells Solver::name_cells(const Name& name, int step) const {
  Cells cells = memory_.cells(name.root, name.offsets[0]);
  for (int s = 1; s <= step; ++s)
    cells = memory_.follow(cells, name.offsets[static_cast<std::size_t>(s)]);
  return cells;
}

bool Solver::lost(State& state, const llvm::Instruction& i) {
  const Property& p = property(state.fact);
  if (p.track == Track::kAddress || state.fact.escaped || state.fact.lent) return false;
  if (llvm::isa<llvm::ReturnInst>(i) && i.getFunction()->getName() == "main") {
    return false;  // the program's end is the end of all it has
  }
  for (const Rule& rule : p.rules) {
    if (rule.kind == Rule::Kind::kForbidEnd &&
        ((p.at_least[rule.state] >> state.fact.state) & 1) != 0) {
      Error error = error_at(state, rule, i);
      error.guess |= llvm::isa<llvm::ReturnInst>(i) && is_one_of_mains(*i.getFunction());
      add_error(state.context, error);
    }
  }
  return false;
}

bool Solver::redefine(State& state, const llvm::Instruction& i) {
  // What is read again from a cell that holds it still is the same.
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(&i);
  const bool again =
      load != nullptr && state.known.cell(address(load->getPointerOperand(), state.fact)) == load;
  if (!again && !is_of_same_bits(i)) state.known.forget(&i);
  const std::size_t before = state.fact.names.size();
  std::erase_if(state.fact.names, [&](const Name& n) {
    if (n.root == &i && n.steps > 0) state.fact.escaped = true;  // it lies where it lay
    return n.root == &i;
  });
  return before == state.fact.names.size() || state.fact.has_object() || lost(state, i);
}

bool Solver::used(State& state, const llvm::Instruction& i, const llvm::Value* v) {
  const Property& p = property(state.fact);
  if (p.track == Track::kContent || !state.fact.is_named(address(v, state.fact), p.track))
    return false;
  for (const Rule& rule : p.rules) {
    if (rule.kind == Rule::Kind::kForbidUse &&
        ((p.at_least[rule.state] >> state.fact.state) & 1) != 0) {
      add_error(state.context, error_at(state, rule, i));
      return true;
    }
  }
  return false;
}

// Names through cells that may have been written are gone, save those through `must`, which the
// caller handles.
void Solver::overwrite(State& state, Cells cells, Address must) {
  const bool content = property(state.fact).track == Track::kContent;
  bool gone = false;
  std::erase_if(state.fact.names, [&](const Name& n) {
    if (n.steps == 0) return false;
    if (n.root == must.root && n.steps == 1 && n.offsets[0] != must.offset &&
        !offsets_meet(n.offsets[0], must.offset)) {
      return false;
    }
    if (n.root == must.root && n.offsets[0] == must.offset) return true;
    if (content) return false;
    for (int s = 0; s < n.steps; ++s) {
      if (memory_.meet(name_cells(n, s), cells)) {
        gone = true;
        return true;
      }
    }
    return false;
  });
  if (gone) state.fact.escaped = true;
}

// What was reached through a pointer was there: later tests of it say so. False: it is null here.
bool Solver::reached(State& state, const llvm::Value* pointer) const {
  const llvm::Value* root = address_of(pointer, memory_.layout(), true).root;
  if (!llvm::isa<llvm::Argument, llvm::PHINode, llvm::LoadInst, llvm::CallBase>(root) ||
      !root->getType()->isPointerTy()) {
    return true;
  }
  const auto [tested, added] = tested_.try_emplace(root, false);
  if (added) tested->second = is_tested(root);
  Reasoning reasoning(state.known, state.fact, property(state.fact).track);
  return (!tested->second && !state.known.find(root)) ||
         reasoning.constrain(root, Range(llvm::APInt(64, 0)).inverse());
}

bool Solver::load(State& state, const llvm::LoadInst& load, States& forks) {
  if (used(state, load, load.getPointerOperand())) return false;
  if (!reached(state, load.getPointerOperand())) return false;
  const Address from = address(load.getPointerOperand(), state.fact);
  const bool content = property(state.fact).track == Track::kContent;
  const llvm::Type* type = load.getType();
  if (content && type->isIntegerTy() && type->getIntegerBitWidth() <= 32 &&
      state.fact.is_named(from, Track::kContent)) {
    State fork = state;
    fork.fact.names.clear();
    fork.fact.extent = 0;
    fork.fact.add({&load, {}, 0, Name::Kind::kScalar});
    fork.at = load.getNextNode();
    forks.push_back(std::move(fork));
  }
  const Names names(state.fact.names.begin(), state.fact.names.end());
  for (const Name& n : names) {
    Name more;
    if (derived(n, from, &load, more)) state.fact.add(more);
  }
  load_element(state, load, from);
  if (content && type->isPointerTy() && !state.fact.is_named({&load, 0}, Track::kContent)) {
    // Another way to the object, if the pointer can hold nothing else.
    const Cells held = memory_.points(&load);
    if (!held.empty() && held.count() <= 2) {
      for (const Name& n : names) {
        if (n.steps != 0 || n.kind != Name::Kind::kObject || n.offsets[0] == kAnyOffset) continue;
        if (memory_.cells(n.root, n.offsets[0]) == held) {
          state.fact.add({&load, {}, 0, Name::Kind::kObject});
          break;
        }
      }
    }
  }
  if (const auto first = first_held(state.fact, load, from)) state.known.set(&load, *first);
  read_cell(state, load, from);
  return true;
}

// What is read is what was put there, if that is known.
void Solver::read_cell(State& state, const llvm::LoadInst& load, Address from) const {
  const llvm::Type* type = load.getType();
  if (!full_range(type)) return;
  if (const llvm::Value* held = state.known.cell(from);
      held != nullptr && held->getType() == type) {
    Reasoning reasoning(state.known, state.fact, property(state.fact).track);
    const auto range = reasoning.range(held);
    if (range && !range->isFullSet()) state.known.set(&load, *range);
    state.known.copy_cells(held, &load);
    const std::vector<Name> all = state.fact.names;
    for (const Name& n : all) {
      if (n.root != held) continue;
      Name same = n;
      same.root = &load;
      state.fact.add(same);
    }
  }
  // A number that was put there says more than what was read.
  const llvm::Value* held = state.known.cell(from);
  if (held == nullptr || held->getType() != type || !llvm::isa<llvm::ConstantInt>(held))
    state.known.set_cell(from, &load);
}

void Solver::write_cell(State& state, const llvm::StoreInst& store, Address to) const {
  const Cells cells = memory_.cells_of(store.getPointerOperand());
  state.known.keep_cells([&](Address a) {
    if (a.root == to.root)
      return a.offset != to.offset && to.offset != kAnyOffset && a.offset != kAnyOffset;
    return !memory_.meet(memory_.cells(a.root, a.offset), cells);
  });
  if (full_range(store.getValueOperand()->getType()))
    state.known.set_cell(to, store.getValueOperand());
}

bool Solver::store(State& state, const llvm::StoreInst& store, States& forks) {
  if (used(state, store, store.getPointerOperand())) return false;
  if (!reached(state, store.getPointerOperand())) return false;
  const Property& p = property(state.fact);
  const llvm::Value* value = store.getValueOperand();
  const Address to = address(store.getPointerOperand(), state.fact);
  const Address held = address(value, state.fact);
  if (p.track == Track::kContent) {
    for (const Name& n : state.fact.names) {
      if (n.kind == Name::Kind::kScalar && n.root == value) {
        State fork = state;
        fork.fact.names.clear();
        fork.fact.extent = extent(store.getPointerOperand());
        fork.fact.add({to.root, {to.offset}, 0, Name::Kind::kObject});
        widen(fork.fact, store);
        fork.at = store.getNextNode();
        forks.push_back(std::move(fork));
        break;
      }
    }
    // A string that is cut to nothing holds nothing.
    const auto* c = llvm::dyn_cast<llvm::ConstantInt>(value);
    if (c != nullptr && c->isZero() && to.offset != kAnyOffset) {
      for (const Name& n : state.fact.names) {
        if (n.root == to.root && n.steps == 0 && n.kind == Name::Kind::kObject &&
            n.offsets[0] == to.offset) {
          if (!parted(state.fact, n, *c)) return false;
          break;
        }
      }
    }
  }
  const Cells cells = memory_.cells_of(store.getPointerOperand());
  overwrite(state, cells, to);
  const Names names(state.fact.names.begin(), state.fact.names.end());
  for (const Name& n : names) {
    if (n.root != held.root || n.kind == Name::Kind::kScalar) continue;
    Name inner = n;
    if (n.offsets[0] != kAnyOffset && held.offset != kAnyOffset) inner.offsets[0] -= held.offset;
    Name more;
    if (!prefixed(inner, to.root, to.offset, more) || !state.fact.add(more))
      state.fact.escaped = true;
    // In memory that outlives the function others may see to its end.
    state.fact.lie_at(to.root);
  }
  write_cell(state, store, to);
  return state.fact.has_object() || lost(state, store);
}

bool Solver::select(State& state, const llvm::SelectInst& select, States& forks) {
  if (!full_range(select.getType())) return true;
  const auto choose = [&](State& s, bool truth) {
    Reasoning reasoning(s.known, s.fact, property(s.fact).track);
    if (!reasoning.assume(select.getCondition(), truth)) return false;
    const llvm::Value* chosen = truth ? select.getTrueValue() : select.getFalseValue();
    const auto range = reasoning.range(chosen);
    if (range && !range->isFullSet()) s.known.set(&select, *range);
    const Address a = address(chosen, s.fact);
    const std::vector<Name> names = s.fact.names;
    for (const Name& n : names) {
      if (n.root != a.root) continue;
      Name same = n;
      same.root = &select;
      if (n.offsets[0] != kAnyOffset && a.offset != kAnyOffset) same.offsets[0] -= a.offset;
      s.fact.add(same);
    }
    return true;
  };
  const Address yes = address(select.getTrueValue(), state.fact);
  const Address no = address(select.getFalseValue(), state.fact);
  bool concerns = false;
  for (const Name& n : state.fact.names) concerns |= n.root == yes.root || n.root == no.root;
  if (!concerns) return true;
  State other = state;
  if (choose(other, false)) {
    other.at = select.getNextNode();
    forks.push_back(std::move(other));
  }
  return choose(state, true);
}

// Bytes of the content stay what they are when they are computed with.
void Solver::scalar(State& state, const llvm::Instruction& i) {
  if (!i.getType()->isIntegerTy() || llvm::isa<llvm::ICmpInst>(i)) return;
  for (const llvm::Value* operand : i.operands()) {
    for (const Name& n : state.fact.names) {
      if (n.kind == Name::Kind::kScalar && n.root == operand) {
        state.fact.add({&i, {}, 0, Name::Kind::kScalar});
        return;
      }
    }
  }
}

// A descriptor at whose number in an array a pointer is put: that knows of it. `table[fd] = record`
// A record that lies there itself may. What is only read or counted there knows nothing.
void Solver::is_index(State& state, const llvm::GetElementPtrInst& place) const {
  if (property(state.fact).track != Track::kObject) return;
  for (const llvm::Use& index : place.indices()) {
    const llvm::Value* number = index.get();
    if (const auto* wide = llvm::dyn_cast<llvm::CastInst>(number)) number = wide->getOperand(0);
    if (llvm::isa<llvm::Constant>(number)) continue;
    if (std::none_of(state.fact.names.begin(), state.fact.names.end(), [number](const Name& n) {
          return n.root == number && n.steps == 0 && n.kind == Name::Kind::kObject;
        })) {
      continue;
    }
    const Kept kept = kept_at(*number);
    state.fact.escaped |= kept == Kept::kPointer;
    state.fact.guess |= kept == Kept::kRecord;
  }
}

// A descriptor's number, made into a pointer that is not null: `(void*)(long)(fd + 1)`. Who has
// that has the descriptor.
void Solver::is_handle(State& state, const llvm::IntToPtrInst& handle) const {
  if (property(state.fact).track != Track::kObject) return;
  const auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(address(&handle, state.fact).root);
  if (sum == nullptr || !llvm::isa<llvm::Constant>(sum->getOperand(1))) return;
  const Address number = address(sum->getOperand(0), state.fact);
  for (const Name& n : state.fact.names)
    state.fact.escaped |= n.steps == 0 && n.root == number.root;
}

bool Solver::step(State& state, const llvm::Instruction& i, States& forks) {
  if (const auto* c = llvm::dyn_cast<llvm::CallBase>(&i)) {
    if (llvm::isa<llvm::DbgInfoIntrinsic>(i)) return true;
    if (!i.getType()->isVoidTy() && !redefine(state, i)) return false;
    return call(state, *c, forks);
  }
  if (i.isTerminator()) return true;
  if (!i.getType()->isVoidTy() && !redefine(state, i)) return false;
  if (const auto* l = llvm::dyn_cast<llvm::LoadInst>(&i)) return load(state, *l, forks);
  if (const auto* s = llvm::dyn_cast<llvm::StoreInst>(&i)) return store(state, *s, forks);
  if (const llvm::Value* written = written_by(i)) return change(state, i, *written);
  if (const auto* s = llvm::dyn_cast<llvm::SelectInst>(&i)) return select(state, *s, forks);
  if (property(state.fact).track == Track::kContent) scalar(state, i);
  if (const auto* place = llvm::dyn_cast<llvm::GetElementPtrInst>(&i)) is_index(state, *place);
  if (const auto* handle = llvm::dyn_cast<llvm::IntToPtrInst>(&i)) is_handle(state, *handle);
  if (const auto* shift = llvm::dyn_cast<llvm::BinaryOperator>(&i)) is_packed(state, *shift);
  return true;
}

}  // namespace lint
