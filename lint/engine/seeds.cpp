// Where states begin: calls of functions that produce them, and places that a rule names.
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <unistd.h>

#include "solver.h"

namespace lint {
namespace {

// A string or a container: it may lead into itself, and nobody frees the whole.
bool is_librarys(const llvm::AllocaInst& local) {
  const auto* type = llvm::dyn_cast<llvm::StructType>(local.getAllocatedType());
  return type != nullptr && type->hasName() &&
         (type->getName().starts_with("class.std::") ||
          type->getName().starts_with("struct.std::"));
}

// Whether the loop asks something of descriptor 0, 1 or 2.
bool asks_for_standard(const llvm::Loop& loop) {
  return llvm::any_of(loop.blocks(), [](const llvm::BasicBlock* block) {
    return llvm::any_of(*block, [](const llvm::Instruction& i) {
      const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
      if (call == nullptr || call->arg_size() == 0) return false;
      const auto* number = llvm::dyn_cast<llvm::ConstantInt>(call->getArgOperand(0));
      return number != nullptr && number->getValue().ule(STDERR_FILENO) &&
             llvm::any_of(call->users(),
                          [](const llvm::User* u) { return llvm::isa<llvm::ICmpInst>(u); });
    });
  });
}

// Whether it is asked which of the lowest numbers it is, and not only whether it is one.
bool asks_which(const llvm::ICmpInst& cmp) {
  const auto* number = llvm::dyn_cast<llvm::ConstantInt>(cmp.getOperand(1));
  if (number == nullptr) return true;
  const std::int64_t n = number->getSExtValue();
  return n > 0 || (n == 0 && cmp.isEquality());
}

// Whether it names what standard numbers are opened on.
bool is_standards(const llvm::Value* v) {
  llvm::StringRef name;
  return llvm::getConstantStringInfo(v, name) &&
         (name == "/dev/null" || name == "/dev/console" || name == "/dev/tty");
}

// Whether numbers are closed as such: 0 to 2, or one after another.
bool frees_standard(const llvm::Function& f, int depth = 2) {
  return llvm::any_of(llvm::instructions(f), [depth](const llvm::Instruction& i) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    const llvm::Function* to = call != nullptr ? call->getCalledFunction() : nullptr;
    if (to == nullptr) return false;
    if (!to->isDeclaration()) return depth > 0 && frees_standard(*to, depth - 1);
    if (to->getName() == "closefrom" || to->getName() == "close_range") return true;
    if (to->getName() != "close") return false;
    const llvm::Value* number = call->getArgOperand(0);
    const auto* counted = llvm::dyn_cast<llvm::PHINode>(number);
    return llvm::isa<llvm::ConstantInt>(number) ||
           (counted != nullptr && llvm::any_of(counted->incoming_values(), [](const llvm::Use& in) {
              return llvm::isa<llvm::BinaryOperator>(in.get());
            }));
  });
}

}  // namespace

// Whether the function can end as at that exit without the state having arisen, so that its caller
// cannot know: a count that fell to zero, an option. Then nothing is said. `given` is what is known
// of its parameters, `held` of what lies behind them.
bool Solver::may_pass_by(const Context& root, const Exit& exit, const Ranges& given,
                         const Known& held) {
  const bool by_result = std::all_of(
      exit.fact.names.begin(), exit.fact.names.end(),
      [](const Name& n) { return n.root == returned_value() || n.kind == Name::Kind::kOwner; });
  const Property& p = property(exit.fact);
  if (by_result || p.track == Track::kContent) return false;
  struct Step_ {
    const llvm::BasicBlock* block;
    State state;
  };
  std::vector<State> work;
  std::unordered_map<const llvm::BasicBlock*, int> visits;
  State first{kNone, &*root.function->getEntryBlock().getFirstNonPHIOrDbgOrLifetime(), exit.fact,
              held, kNone};
  std::erase_if(first.fact.names, [](const Name& n) { return n.root == returned_value(); });
  for (const auto& [parameter, range] : given)
    first.known.set(root.function->getArg(parameter), range);
  work.push_back(std::move(first));
  const llvm::Loop* along = goes_along(root.start);
  std::size_t steps = 0;
  while (!work.empty()) {
    State state = std::move(work.back());
    work.pop_back();
    const llvm::BasicBlock* block = state.at->getParent();
    if (++visits[block] > 4 || ++steps > 500) continue;
    // Where the array has no element, nobody uses one.
    if (along != nullptr && block == along->getHeader() && along->getExitingBlock() == block)
      continue;
    steps_ += 20;
    bool going = true;
    for (const llvm::Instruction* i = state.at; going && i != nullptr; i = i->getNextNode()) {
      if (i == root.start) going = false;
      if (const auto* l = llvm::dyn_cast<llvm::LoadInst>(i)) {
        const Address from = address(l->getPointerOperand(), state.fact);
        const std::vector<Name> names = state.fact.names;
        for (const Name& n : names) {
          Name more;
          if (derived(n, from, l, more)) state.fact.add(more);
        }
        read_cell(state, *l, from);
      } else if (const auto* s = llvm::dyn_cast<llvm::StoreInst>(i)) {
        // Where null is put there, or what turns out to be null, there is nothing to pass by.
        const Address to = address(s->getPointerOperand(), state.fact);
        write_cell(state, *s, to);
        const std::vector<Name> names = state.fact.names;
        for (const Name& n : names) {
          Name more;
          if (n.offsets[0] != to.offset || !derived(n, to, s->getValueOperand(), more)) continue;
          if (llvm::isa<llvm::ConstantPointerNull>(s->getValueOperand()))
            going = false;
          else
            state.fact.add(more);
        }
      } else if (const auto* c = llvm::dyn_cast<llvm::CallBase>(i); c != nullptr && going) {
        // What a function calls itself for ends as the rest of it does.
        if (program_.ends(*c) || c->getCalledFunction() == root.function) going = false;
        after_call(state, *c);
        for (const Rule* rule : rules_for(exit.fact.property, *c)) {  // another way to the same
          if (rule->kind != Rule::Kind::kProduce || rule->state != exit.fact.state) continue;
          for (const Place& place : rule->places) going &= !is_at(state.fact, place, *c);
        }
      } else if (const auto* end = llvm::dyn_cast<llvm::ReturnInst>(i)) {
        const llvm::Value* value = end->getReturnValue();
        if (value == nullptr || !exit.returned) return true;
        Reasoning reasoning(state.known, state.fact, p.track);
        const auto range = reasoning.range(value);
        if (!range || !range->intersectWith(*exit.returned).isEmptySet()) return true;
      }
    }
    if (!going) continue;
    const llvm::Instruction* end = block->getTerminator();
    for (unsigned s = 0; s < end->getNumSuccessors(); ++s) {
      State next = state;
      Reasoning reasoning(next.known, state.fact, p.track);
      if (const auto* br = llvm::dyn_cast<llvm::BranchInst>(end);
          br != nullptr && br->isConditional()) {
        if (!reasoning.assume(br->getCondition(), s == 0)) continue;
      } else if (const auto* sw = llvm::dyn_cast<llvm::SwitchInst>(end); sw != nullptr && s > 0) {
        const auto value = (sw->case_begin() + (s - 1))->getCaseValue()->getValue();
        if (!reasoning.constrain(sw->getCondition(), Range(value))) continue;
      }
      if (enter_block(next, block, end->getSuccessor(s))) work.push_back(std::move(next));
    }
  }
  return false;
}

// Opened for its number, the lowest that is free, and nobody keeps it: close(0); open(...).
bool Solver::takes_number(std::size_t p, const llvm::CallBase& call) const {
  if (properties_[p].track != Track::kObject || !call.getType()->isIntegerTy()) return false;
  // One more of a standard number keeps a low number for later.
  const llvm::Function* by = call.getCalledFunction();
  const bool spare = by != nullptr && by->getName() == "dup" &&
                     llvm::isa<llvm::ConstantInt>(call.getArgOperand(0));
  bool asked = spare;  // which number it is
  for (const llvm::User* user : call.users()) {
    if (const auto* cmp = llvm::dyn_cast<llvm::ICmpInst>(user)) {
      asked |= asks_which(*cmp);
      continue;
    }
    const auto* other = llvm::dyn_cast<llvm::CallBase>(user);
    const llvm::Function* to = other != nullptr ? other->getCalledFunction() : nullptr;
    if (!spare || to == nullptr || to->isDeclaration()) return false;
  }
  const llvm::Function& f = *call.getFunction();
  return asked || llvm::any_of(call.args(), is_standards) || frees_standard(f) ||
         llvm::any_of(memory_.callers(&f),
                      [](const auto* site) { return frees_standard(*site->getFunction()); });
}

// The same of two that come in an array which nobody reads, in a loop that asks for the standard
// numbers: `while (fcntl(2, F_GETFD) == -1) pipe(fds);`
bool Solver::takes_numbers(const Place& place, const llvm::CallBase& call) {
  if (place.kind != Place::Kind::kArgument || place.stars == 0) return false;
  const llvm::Value* given = call.getArgOperand(static_cast<unsigned>(place.first));
  const auto* array = llvm::dyn_cast<llvm::AllocaInst>(address_of(given, memory_.layout()).root);
  const auto only_given = [&](const llvm::User* u) {
    const auto* other = llvm::dyn_cast<llvm::CallBase>(u);
    return other != nullptr &&
           (other->isLifetimeStartOrEnd() || other->getCalledOperand() == call.getCalledOperand());
  };
  const llvm::Loop* loop = loops(*call.getFunction()).getLoopFor(call.getParent());
  return array != nullptr && loop != nullptr && asks_for_standard(*loop) &&
         llvm::all_of(array->users(), [&](const llvm::User* u) {
           return only_given(u) ||
                  (llvm::isa<llvm::GetElementPtrInst>(u) && llvm::all_of(u->users(), only_given));
         });
}

// That the others of several descriptors that the call gave are there, too: the ends of a pipe.
void Solver::know_others(Known& known, const Property& property, const Rule& rule, const Name& name,
                         const llvm::CallBase& call) const {
  if (property.track != Track::kObject || rule.places.size() < 2) return;
  for (const Place& place : rule.places) {
    for (const auto& [other, bytes] : names_at(property, place, call)) {
      if (other == name || other.steps != 1 || other.offsets[0] == kAnyOffset) continue;
      known.set_cell({other.root, other.offsets[0]}, &descriptor_);
      known.set(&descriptor_, Range(llvm::APInt(32, 0), llvm::APInt::getSignedMinValue(32)));
    }
  }
}

void Solver::seed_call(std::size_t p, const Rule& rule, const llvm::CallBase& call) {
  const Property& property_ = properties_[p];
  State probe{kNone, &call, {}, conditions_at(call), kNone};
  probe.fact.property = static_cast<std::uint16_t>(p);
  if (!holds(rule, call, probe)) return;
  if (rule.places[0].kind == Place::Kind::kReturn && takes_number(p, call)) return;
  follow([&] {
    for (const Place& place : rule.places) {
      if (property_.track == Track::kObject && takes_numbers(place, call)) continue;
      for (const auto& [name, bytes] : names_at(property_, place, call)) {
        Fact fact;
        fact.property = static_cast<std::uint16_t>(p);
        fact.state = rule.state;
        fact.extent = bytes;
        fact.add(name);
        widen(fact, call);
        if (rule.owner >= 0 && static_cast<unsigned>(rule.owner) < call.arg_size()) {
          const Address owner =
              address(call.getArgOperand(static_cast<unsigned>(rule.owner)), fact);
          fact.add({owner.root, {owner.offset}, 0, Name::Kind::kOwner});
          widen(fact, call);
        }
        Known known = probe.known;
        know_first_round(known, call);
        know_others(known, property_, rule, name, call);
        if (const auto width = full_range(call.getType())) {
          Range result = *width;
          if (rule.returned) result = allowed(*rule.returned, width->getBitWidth());
          if (!result.isFullSet()) known.set(&call, result);
        }
        const auto* f =
            llvm::dyn_cast<llvm::Function>(call.getCalledOperand()->stripPointerCasts());
        const TraceId trace = event(kNone, &call, {property_.states[rule.state], " by ", f});
        begin(&call, true, fact, std::move(known), trace, &call, kNone);
        if (property_.track != Track::kObject || matters_at_end(fact) || rule.returned) continue;
        begin_elements(fact, call, trace);
        for (const Name& n : fact.names) begin_kept(fact, n, call, trace, call, kMostSteps);
      }
    }
  });
}

// A local or global variable that a rule names `<stack>` or `<static>`: begins where its address
// goes somewhere.
void Solver::seed_place(std::size_t p, const Rule& rule, const llvm::Value* v) {
  const auto* local = llvm::dyn_cast<llvm::AllocaInst>(v);
  if (local != nullptr) {
    begin_place(p, rule, v, *local, "a local variable");
    return;
  }
  for (const llvm::User* user : v->users()) {
    const auto* i = llvm::dyn_cast<llvm::Instruction>(user);
    if (i == nullptr ||
        llvm::isa<llvm::LoadInst, llvm::LifetimeIntrinsic, llvm::DbgInfoIntrinsic>(i))
      continue;

    if (const auto* phi = llvm::dyn_cast<llvm::PHINode>(i)) {
      for (unsigned in = 0; in < phi->getNumIncomingValues(); ++in) {
        if (phi->getIncomingValue(in) != v) continue;
        begin_place(p, rule, v, *phi->getIncomingBlock(in)->getTerminator(), "a global variable");
      }
      continue;
    }
    begin_place(p, rule, v, *i, "a global variable");
  }
}

void Solver::begin_place(std::size_t p, const Rule& rule, const llvm::Value* v,
                         const llvm::Instruction& at, const char* what) {
  Fact fact;
  fact.property = static_cast<std::uint16_t>(p);
  fact.state = rule.state;
  fact.add({v, {}, 0, Name::Kind::kObject});
  follow([&] {
    const TraceId trace =
        event(kNone, &at, v->hasName() ? Note{what, ", ", v} : Note{what, "", nullptr});
    begin(&at, v == &at, fact, conditions_at(at), trace, &at, kNone);
  });
}

// The objects that can reach a place where the state is forbidden; `everything` if any use is.
Bits Solver::wanted_objects(std::size_t p, StateId state, bool& everything) const {
  const Property& property_ = properties_[p];
  Bits out;
  everything = property_.track == Track::kContent;
  for (const Rule& rule : property_.rules) {
    const bool forbids = rule.kind == Rule::Kind::kForbid || rule.kind == Rule::Kind::kForbidUse ||
                         rule.kind == Rule::Kind::kForbidEnd;
    // A state that can turn into another, or end with its owner, is followed for that one.
    const bool begins = rule.kind == Rule::Kind::kProduce || rule.kind == Rule::Kind::kTest;
    if (begins && (rule.from == state || (rule.owner >= 0 && rule.state == state)))
      everything = true;
    if (!forbids || ((property_.at_least[rule.state] >> state) & 1) == 0) continue;
    if (rule.kind != Rule::Kind::kForbid) {
      everything = true;
      continue;
    }
    for (const auto& [f, rules] : rules_[p]) {
      if (std::find(rules.begin(), rules.end(), &rule) == rules.end()) continue;
      for (const llvm::User* user : f->users()) {
        const auto* call = llvm::dyn_cast<llvm::CallBase>(user);
        if (call == nullptr) continue;
        for (unsigned a = 0; a < call->arg_size(); ++a) {
          for (const Place& place : rule.places) {
            if (!place.covers(static_cast<int>(a))) continue;
            const llvm::Value* v = call->getArgOperand(a);
            const Address at = address_of(v, memory_.layout());
            if (rule.inside && at.offset == 0 && !llvm::isa<llvm::PHINode>(at.root) &&
                !memory_.lead_inside(memory_.points(v))) {
              continue;
            }
            if (!memory_.points(v).test(kAnywhere)) out.merge(memory_.objects(memory_.points(v)));
          }
        }
      }
    }
  }
  return out;
}

void Solver::seed(std::size_t p, const Progress& progress) {
  const Property& property_ = properties_[p];
  std::map<StateId, std::pair<bool, Bits>> wanted;
  const auto is_wanted = [&](StateId state, const llvm::Value* v) {
    auto [at, added] = wanted.try_emplace(state);
    if (added) at->second.second = wanted_objects(p, state, at->second.first);
    return at->second.first || memory_.objects(memory_.points(v)).intersects(at->second.second);
  };
  std::vector<std::pair<const Rule*, const llvm::CallBase*>> calls;
  for (const llvm::Function& f : program_.module()) {
    for (const llvm::Instruction& i : llvm::instructions(f)) {
      const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
      if (call == nullptr) continue;
      for (const Rule* rule : rules_for(p, *call)) {
        if (rule->kind != Rule::Kind::kProduce || rule->entry || rule->state == 0 ||
            (rule->from != kNoState && rule->from != 0) ||
            rule->places[0].kind == Place::Kind::kOwned) {
          continue;
        }
        const bool returns = rule->places[0].kind == Place::Kind::kReturn;
        if (returns && !is_wanted(rule->state, call)) continue;
        calls.emplace_back(rule, call);
      }
    }
  }
  std::size_t done = 0;
  for (const auto& [rule, call] : calls) {
    progress(property_.name.c_str(), done++, calls.size());
    seed_call(p, *rule, *call);
  }
  for (const Rule& rule : property_.rules) {
    if (rule.kind != Rule::Kind::kProduce) continue;
    for (const std::string& pattern : rule.functions) {
      if (pattern == "<stack>") {
        for (const llvm::Function& f : program_.module()) {
          for (const llvm::Instruction& i : llvm::instructions(f)) {
            const auto* local = llvm::dyn_cast<llvm::AllocaInst>(&i);
            if (local != nullptr && !is_librarys(*local) && is_wanted(rule.state, local))
              seed_place(p, rule, local);
          }
        }
      } else if (pattern == "<static>") {
        for (const llvm::GlobalVariable& g : program_.module().globals()) {
          if (is_wanted(rule.state, &g)) seed_place(p, rule, &g);
        }
      }
    }
    if (!rule.entry) continue;
    for (const auto& [f, rules] : rules_[p]) {
      if (f->isDeclaration() || std::find(rules.begin(), rules.end(), &rule) == rules.end())
        continue;
      for (const Place& place : rule.places) {
        for (const llvm::Argument& a : f->args()) {
          if (!place.covers(static_cast<int>(a.getArgNo())) || place.kind != Place::Kind::kArgument)
            continue;
          const int steps = place.stars - (property_.track == Track::kContent ? 1 : 0);
          Fact fact;
          fact.property = static_cast<std::uint16_t>(p);
          fact.state = rule.state;
          Name name{&a, {}, static_cast<std::uint8_t>(std::max(steps, 0)), Name::Kind::kObject};
          if (steps > 0) name.offsets[0] = kAnyOffset;
          fact.add(name);
          const llvm::Instruction* at = &*f->getEntryBlock().getFirstNonPHIOrDbgOrLifetime();
          follow([&, start = f] {
            const TraceId trace =
                event(kNone, at, {property_.states[rule.state], " from the start of ", start});
            begin(at, false, fact, {}, trace, at, kNone);
          });
        }
      }
    }
  }
  progress(property_.name.c_str(), calls.size(), calls.size());
}

}  // namespace lint
