// What calls do to a fact: by the property's rules, by entering the callee, or by being foreign.
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Operator.h>

#include "solver.h"

namespace lint {
namespace {

const llvm::Function* named(const llvm::CallBase& call) {
  const llvm::Value* target = call.getCalledOperand()->stripPointerCasts();
  if (const auto* alias = llvm::dyn_cast<llvm::GlobalAlias>(target))
    target = alias->getAliaseeObject();
  return llvm::dyn_cast<llvm::Function>(target);
}

// A constant string that is an argument.
llvm::StringRef text(const llvm::Value* v) {
  const auto* g = llvm::dyn_cast<llvm::GlobalVariable>(v->stripPointerCasts());
  if (g == nullptr || !g->hasInitializer()) return {};
  const auto* data = llvm::dyn_cast<llvm::ConstantDataArray>(g->getInitializer());
  return data != nullptr && data->isCString() ? data->getAsCString() : llvm::StringRef();
}

// Of a function with `...`: whether an argument for it is followed, and not only printed.
bool reads_extra(const llvm::CallBase& call) {
  for (const llvm::Value* a : call.args()) {
    if (text(a).contains("%s")) return true;
  }
  return false;
}

}  // namespace

const std::vector<const Rule*>& Solver::rules_for(std::size_t p, const llvm::CallBase& call) const {
  static const std::vector<const Rule*> none;
  const llvm::Function* f = named(call);
  if (f == nullptr) {
    const Functions &targets = memory_.callees(call), &others = memory_.externals(call);
    if (targets.size() + others.size() != 1) return none;
    f = targets.empty() ? others[0] : targets[0];
  }
  const auto found = rules_[p].find(f);
  return found == rules_[p].end() ? none : found->second;
}

// The parameter of the function around, if what goes wrong is what its caller passes as a format.
int Solver::lifted(const Rule& rule, const llvm::CallBase& call,
                   const llvm::Value* argument) const {
  if (argument == nullptr || rule.kind != Rule::Kind::kForbid) return -1;
  const auto* parameter = llvm::dyn_cast<llvm::Argument>(argument->stripPointerCasts());
  if (parameter == nullptr) return -1;
  const llvm::Function* callee = named(call);
  const bool variadic = parameter->getParent()->isVarArg() ||
                        (callee != nullptr && callee->getName().starts_with("v")) ||
                        (callee != nullptr && callee->getName().starts_with("__v"));
  return variadic ? static_cast<int>(parameter->getArgNo()) : -1;
}

// Whether a rule produces a state where a null pointer may stand: free(0) is right, fclose(0) is
// not.
bool Solver::takes_null(const llvm::CallBase& call, const std::vector<const Rule*>& rules, int at) {
  const llvm::Function* f = named(call);
  if (f != nullptr && f->getName() == "fflush") return true;
  if (f != nullptr && (f->getName() == "fclose" || f->getName() == "pclose")) return false;
  return std::any_of(rules.begin(), rules.end(), [at](const Rule* rule) {
    return rule->kind == Rule::Kind::kProduce && rule->places[0].covers(at) &&
           rule->places[0].kind == Place::Kind::kArgument;
  });
}

bool Solver::apply(State& state, const llvm::CallBase& call, const std::vector<const Rule*>& rules,
                   States& forks) {
  const Property& p = property(state.fact);
  for (const Rule* rule : rules) {  // wrong before anything changes
    if (rule->kind != Rule::Kind::kForbid ||
        ((p.at_least[rule->state] >> state.fact.state) & 1) == 0 || !holds(*rule, call, state)) {
      continue;
    }
    for (const Place& place : rule->places) {
      const llvm::Value* which = nullptr;
      if (!is_at(state.fact, place, call, &which)) continue;
      if (rule->inside) {
        const Address a = address(which, state.fact);
        bool moved = false;
        for (const Name& n : state.fact.names) {
          moved |= n.root == a.root && n.steps == 0 && a.offset != kAnyOffset &&
                   n.offsets[0] != kAnyOffset && a.offset > n.offsets[0];
        }
        if (!moved) continue;
      }
      if (rule->not_recursive && which != nullptr &&
          memory_.cells_of(which).intersects(recursive_)) {
        continue;
      }
      if (rule->not_marked && which != nullptr && is_marked(which, call, state.known)) continue;
      if (rule->not_owned_by >= 0) {
        const Address a =
            address(call.getArgOperand(static_cast<unsigned>(rule->not_owned_by)), state.fact);
        bool same = false, known = false;
        for (const Name& n : state.fact.names) {
          if (n.kind != Name::Kind::kOwner) continue;
          known = true;
          same |= n.root == a.root ||
                  memory_.share_object(memory_.cells(n.root, 0), memory_.points(a.root));
        }
        if (same || !known) continue;
      }
      Error error = error_at(state, *rule, call);
      error.guess |= p.track == Track::kContent && is_looked_through(call, which);
      error.lift = lifted(*rule, call, which);
      error.given = parameter(which);
      add_error(state.context, error);
      if (p.track != Track::kContent) return false;
    }
  }
  for (const Rule* rule : rules) {
    if (rule->kind != Rule::Kind::kPass || p.track != Track::kContent || !holds(*rule, call, state))
      continue;
    const bool from_here = is_at(state.fact, rule->source, call);
    if (from_here && rule->returned) continue;
    for (const Place& place : rule->places) {
      if (from_here) {
        for (const auto& [name, bytes] : names_at(p, place, call)) {
          State fork = state;
          fork.fact.names.clear();
          fork.fact.extent = bytes;
          fork.fact.add(name);
          widen(fork.fact, call);
          fork.trace = event(state.trace, &call, {"", "passed on by ", named(call)});
          if (!(fork.fact == state.fact) && pass(fork, call)) forks.push_back(std::move(fork));
        }
      } else if (rule->overwrites && is_at(state.fact, place, call)) {
        bool exact = false;  // only if all of it is written
        for (const auto& [name, bytes] : names_at(p, place, call)) {
          for (const Name& n : state.fact.names) exact |= n == name;
        }
        if (exact) return false;
      }
    }
  }
  for (const Rule* rule : rules) {
    if ((rule->kind != Rule::Kind::kProduce && rule->kind != Rule::Kind::kTest) || rule->entry ||
        (rule->from != kNoState && rule->from != state.fact.state)) {
      continue;
    }
    bool here = false;
    for (const Place& place : rule->places) here |= is_at(state.fact, place, call);
    if (!here) {
      // Perhaps it is this object, by another name.
      for (const Place& place : rule->places) {
        if (place.kind != Place::Kind::kArgument || p.track == Track::kContent) continue;
        for (unsigned a = 0; a < call.arg_size(); ++a) {
          if (!place.covers(static_cast<int>(a))) continue;
          const Cells cells = memory_.cells_of(call.getArgOperand(a));
          for (const Name& n : state.fact.names) {
            if (n.kind == Name::Kind::kObject && !cells.empty() &&
                memory_.meet(name_cells(n, n.steps), cells)) {
              // It may have been given back, or taken again: nothing is sure.
              if (p.track == Track::kAddress &&
                  (rule->from == state.fact.state || !matters_at_end(state.fact))) {
                return false;
              }
              state.fact.escaped = true;
            }
          }
        }
      }
      continue;
    }
    if (!holds(*rule, call, state)) {
      if (rule->argument) continue;
    }
    if (rule->returned) {
      // Where the condition does not hold, nothing has changed.
      State unchanged = state;
      const auto width = full_range(call.getType());
      if (!width) continue;
      const Range met = allowed(*rule->returned, width->getBitWidth());
      Reasoning no(unchanged.known, unchanged.fact, p.track);
      Reasoning yes(state.known, state.fact, p.track);
      const Range failed =
          rule->otherwise ? allowed(*rule->otherwise, width->getBitWidth()) : met.inverse();
      const bool may_fail = no.constrain(&call, failed);
      if (may_fail && pass(unchanged, call)) forks.push_back(std::move(unchanged));
      if (!yes.constrain(&call, met)) return false;
    }
    if (rule->kind == Rule::Kind::kProduce && rule->from == kNoState &&
        rule->places[0].kind != Place::Kind::kOwned) {
      mark_released(state.context);  // what begins here is followed for itself
      return false;
    }
    if (rule->state == 0) {
      mark_released(state.context);
      return false;
    }
    state.fact.state = rule->state;
    state.trace = event(state.trace, &call, {p.states[rule->state], " by ", named(call)});
  }
  // What is used there is there: nothing but what gives memory back takes a null pointer.
  for (const Rule* rule : rules) {
    if (p.track != Track::kObject || rule->kind != Rule::Kind::kForbid) continue;
    for (const Place& place : rule->places) {
      if (place.kind != Place::Kind::kArgument || place.stars != 0) continue;
      for (unsigned a = 0; a < call.arg_size(); ++a) {
        const llvm::Value* v = call.getArgOperand(a);
        if (!place.covers(static_cast<int>(a)) || !v->getType()->isPointerTy()) continue;
        if (takes_null(call, rules, static_cast<int>(a)) || reached(state, v)) continue;
        return false;
      }
    }
  }
  // Speaking of a function that the property knows is a use like any other.
  for (const Rule* rule : rules) {
    if (rule->kind == Rule::Kind::kTest) continue;
    for (unsigned a = 0; a < call.arg_size(); ++a) {
      if (call.getArgOperand(a)->getType()->isPointerTy() &&
          used(state, call, call.getArgOperand(a))) {
        return false;
      }
    }
  }
  return true;
}

// A function without a body and without rules.
bool Solver::foreign(State& state, const llvm::CallBase& call) {
  const Property& p = property(state.fact);
  const bool extra = reads_extra(call);
  const auto* known = named(call);
  const bool copies =
      p.track == Track::kObject && call.arg_size() >= 3 &&
      (llvm::isa<llvm::MemTransferInst>(call) ||
       (known != nullptr && (known->getName() == "memcpy" || known->getName() == "memmove")));
  const unsigned fixed =
      known != nullptr ? static_cast<unsigned>(known->arg_size()) : call.arg_size();
  for (unsigned a = 0; a < call.arg_size(); ++a) {
    const llvm::Value* argument = call.getArgOperand(a);
    const Address at = address(argument, state.fact);
    bool named_here = false;
    for (const Name& n : state.fact.names)
      named_here |= n.root == at.root && n.kind != Name::Kind::kScalar;
    if (!named_here) continue;
    if (argument->getType()->isPointerTy() && (a < fixed || extra) && !call.isInlineAsm() &&
        !(known != nullptr && known->isIntrinsic() && !llvm::isa<llvm::MemIntrinsic>(call)) &&
        used(state, call, argument)) {
      return false;
    }
    if (copies && a == 1 && !llvm::isa<llvm::ConstantInt>(call.getArgOperand(2))) {
      for (const Name& n : state.fact.names) state.fact.escaped |= n.root == at.root && n.steps > 0;
    }
    const bool keeps = !(known != nullptr && known->isIntrinsic()) && !call.doesNotCapture(a);
    if (keeps && p.track != Track::kContent) state.fact.escaped = true;
  }
  return true;
}

// The names of what lies in a record that is copied, in its copy.
std::vector<Name> Solver::copied(const State& state, const llvm::CallBase& call) const {
  std::vector<Name> out;
  const auto* whole = llvm::dyn_cast<llvm::MemTransferInst>(&call);
  const auto* f = call.getCalledFunction();
  const bool copies =
      whole != nullptr || (f != nullptr && (f->getName() == "memcpy" || f->getName() == "memmove"));
  if (!copies || call.arg_size() < 3 || property(state.fact).track != Track::kObject) return out;
  const auto* length = llvm::dyn_cast<llvm::ConstantInt>(call.getArgOperand(2));
  const Address to = address(call.getArgOperand(0), state.fact);
  const Address from = address(call.getArgOperand(1), state.fact);
  if (length == nullptr || to.offset == kAnyOffset || from.offset == kAnyOffset) return out;
  for (const Name& n : state.fact.names) {
    if (n.root != from.root || n.steps == 0 || n.offsets[0] < from.offset ||
        n.offsets[0] >= from.offset + length->getSExtValue()) {
      continue;
    }
    out.push_back(n);
    out.back().root = to.root;
    out.back().offsets[0] += to.offset - from.offset;
  }
  return out;
}

// A record that is copied or cleared as a whole: its cells lead to the object no more.
void Solver::overwrite_by(State& state, const llvm::CallBase& call) const {
  const auto* whole = llvm::dyn_cast<llvm::MemIntrinsic>(&call);
  if (whole == nullptr || property(state.fact).track == Track::kContent) return;
  const Address to = address(whole->getDest(), state.fact);
  const auto* length = llvm::dyn_cast<llvm::ConstantInt>(whole->getLength());
  if (to.offset == kAnyOffset) return;
  if (length == nullptr) {  // as far as it goes, but not beyond an array
    const auto* member = llvm::dyn_cast<llvm::GEPOperator>(whole->getDest());
    const llvm::Type* array = member != nullptr ? member->getResultElementType() : nullptr;
    const std::int64_t end =
        array != nullptr && array->isArrayTy()
            ? to.offset + static_cast<std::int64_t>(
                              memory_.layout().getTypeAllocSize(member->getResultElementType()))
            : INT64_MAX;
    state.fact.guess |=
        std::any_of(state.fact.names.begin(), state.fact.names.end(), [&](const Name& n) {
          return n.steps > 0 && n.root == to.root && n.offsets[0] >= to.offset &&
                 n.offsets[0] < end;
        });
    return;
  }
  const std::int64_t end = to.offset + length->getSExtValue();
  std::erase_if(state.fact.names, [&](const Name& n) {
    return n.steps > 0 && n.root == to.root && n.offsets[0] >= to.offset && n.offsets[0] < end;
  });
}

std::vector<Solver::Flag> Solver::flags(const State& state) const {
  std::vector<Flag> out;
  Known known = state.known;
  const Reasoning reasoning(known, state.fact, property(state.fact).track);
  state.known.each_cell([&](Address at, const llvm::Value* value) {
    const bool pointer = value->getType()->isPointerTy();
    if (at.offset == kAnyOffset || (!pointer && !value->getType()->isIntegerTy())) return;
    const auto range = reasoning.range(value);
    if (!range || !range->isSingleElement()) return;
    const llvm::APInt& number = *range->getSingleElement();
    if (pointer && !number.isZero()) return;
    out.push_back({at, pointer ? llvm::Constant::getNullValue(value->getType())
                               : llvm::ConstantInt::get(value->getType(), number)});
  });
  return out;
}

void Solver::after_call(State& state, const llvm::CallBase& call) {
  state.known.forget(&call);
  state.known.keep_cells(
      [&](Address a) { return !memory_.may_write(call, memory_.cells(a.root, a.offset)); });
}

// va_start and va_copy: the list leads to what came for `...`.
bool Solver::start_pack(State& state, const llvm::CallBase& call) {
  const auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&call);
  if (intrinsic == nullptr) return false;
  const bool start = intrinsic->getIntrinsicID() == llvm::Intrinsic::vastart;
  if (!start && intrinsic->getIntrinsicID() != llvm::Intrinsic::vacopy) return false;
  const llvm::Value* source = call.getFunction();
  if (!start) source = address(call.getArgOperand(1), state.fact).root;
  bool found = false;
  for (const Name& n : state.fact.names) found |= n.kind == Name::Kind::kPack && n.root == source;
  if (!found) return true;
  const Address list = address(call.getArgOperand(0), state.fact);
  state.fact.add({list.root, {list.offset}, 0, Name::Kind::kPack});
  for (const std::int64_t field : {8, 16}) {  // where x86-64 has the two areas
    if (list.offset != kAnyOffset) {
      state.fact.add({list.root, {list.offset + field, kAnyOffset, 0}, 2, Name::Kind::kObject});
    }
  }
  return true;
}

bool Solver::call(State& state, const llvm::CallBase& call, States& forks) {
  if (const auto* life = llvm::dyn_cast<llvm::LifetimeIntrinsic>(&call)) {
    if (life->getIntrinsicID() == llvm::Intrinsic::lifetime_end) {
      const Address a = address_of(life->getArgOperand(1), memory_.layout());
      std::erase_if(state.fact.names, [&](const Name& n) { return n.root == a.root; });
      if (!state.fact.has_object()) return lost(state, call);
    }
    return true;
  }
  if (start_pack(state, call)) return true;
  const std::vector<Name> copies = copied(state, call);
  overwrite_by(state, call);
  if (!state.fact.has_object()) return lost(state, call);
  const std::vector<const Rule*>& rules = rules_for(state.fact.property, call);
  const Functions& targets = memory_.callees(call);
  if (program_.ends(call) && targets.empty() && rules.empty()) {
    jump_back(state, call);
    return false;
  }
  if (!rules.empty()) {
    if (!apply(state, call, rules, forks)) return false;
    if (program_.ends(call)) return false;
  } else {
    bool entered = false;
    // Locks on the way into a crash, or through a pointer that may lead elsewhere, are a guess.
    const bool guess = property(state.fact).track == Track::kAddress &&
                       (program_.ends(call) || (call.isIndirectCall() && targets.size() > 1));
    if (guess) return false;
    // What was given back may be taken again by who knows it from elsewhere.
    if (!targets.empty() && property(state.fact).track == Track::kAddress &&
        !matters_at_end(state.fact)) {
      const bool unseen = std::any_of(targets.begin(), targets.end(), [&](const llvm::Function* f) {
        return changes(state.fact.property, *f) && !into(state.fact, call, f).has_object();
      });
      if (unseen) return false;
    }
    // What is given to a library runs when the library likes: perhaps in another thread.
    const llvm::Function* called = call.getCalledFunction();
    const bool later = property(state.fact).track == Track::kAddress && called != nullptr &&
                       called->isDeclaration();
    if (!later) {
      for (const llvm::Function* callee : targets) enter(state, call, callee, entered);
    }
    if (entered) return false;
    if (program_.ends(call)) return false;
    if ((later || targets.empty()) && !foreign(state, call)) return false;
  }
  // Names through what the call may have written are gone.
  bool gone = false;
  const bool content = property(state.fact).track == Track::kContent;
  if (!content) {
    std::erase_if(state.fact.names, [&](const Name& n) {
      for (int s = 0; s < n.steps; ++s) {
        if (memory_.may_write(call, name_cells(n, s))) return gone = true;
      }
      return false;
    });
  }
  if (gone) state.fact.escaped = true;
  for (const Name& n : copies) {
    state.fact.add(n);
    state.fact.lie_at(n.root);
  }
  const std::optional<Range> kept = state.known.find(&call);
  after_call(state, call);
  if (kept) state.known.set(&call, *kept);
  return state.fact.has_object() || lost(state, call);
}

}  // namespace lint
