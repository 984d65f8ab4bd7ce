// What outlives the function it began in goes on in every caller (solver.h).
#include <llvm/IR/CFG.h>

#include "solver.h"

namespace lint {
namespace {

constexpr int kMostDepth = 5;  // callers above a beginning

enum class Effect { kNone, kTakes, kGives };

// Whether the function, before `until`, gives back what it has not taken: its caller's.
bool gives_first(const llvm::Function& f, const llvm::Instruction* until,
                 llvm::function_ref<Effect(const llvm::CallBase&)> effect) {
  std::vector<const llvm::BasicBlock*> work{&f.getEntryBlock()};
  std::set<const llvm::BasicBlock*> seen{work[0]};
  while (!work.empty()) {
    const llvm::BasicBlock* block = work.back();
    work.pop_back();
    bool going = true;
    for (const llvm::Instruction& i : *block) {
      const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
      const Effect what = call != nullptr ? effect(*call) : Effect::kNone;
      if (what == Effect::kGives) return true;
      if (what == Effect::kTakes || &i == until) going = false;
      if (!going) break;
    }
    if (!going) continue;
    for (const llvm::BasicBlock* next : llvm::successors(block)) {
      if (seen.insert(next).second) work.push_back(next);
    }
  }
  return false;
}

// The variable that the value was read from, if nobody changes that: stdin.
const llvm::GlobalVariable* never_changed(const llvm::Value* v) {
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(v);
  return load != nullptr && load->hasMetadata(llvm::LLVMContext::MD_invariant_load)
             ? llvm::dyn_cast<llvm::GlobalVariable>(load->getPointerOperand())
             : nullptr;
}

// What the function finds where it asks whether it was given that stream, and was.
void know_stream(Known& known, const llvm::Argument& given, const llvm::GlobalVariable& stream) {
  for (const llvm::User* user : given.users()) {
    const auto* cmp = llvm::dyn_cast<llvm::ICmpInst>(user);
    if (cmp == nullptr || !cmp->isEquality() ||
        never_changed(cmp->getOperand(cmp->getOperand(0) == &given ? 1 : 0)) != &stream) {
      continue;
    }
    const bool equal = cmp->getPredicate() == llvm::CmpInst::ICMP_EQ;
    known.set(cmp, Range(llvm::APInt(1, equal ? 1 : 0)));
  }
}

// Whether the function can neither come back behind the call, nor call again.
bool is_last(const Program& program, const llvm::CallBase& call) {
  std::set<const llvm::BasicBlock*> seen;
  std::vector<const llvm::Instruction*> work;
  const auto* invoke = llvm::dyn_cast<llvm::InvokeInst>(&call);
  work.push_back(invoke != nullptr ? &invoke->getNormalDest()->front() : call.getNextNode());
  while (!work.empty()) {
    const llvm::Instruction* i = work.back();
    work.pop_back();
    for (; i != nullptr; i = i->getNextNode()) {
      const auto* other = llvm::dyn_cast<llvm::CallBase>(i);
      if (llvm::isa<llvm::ReturnInst>(i) || i == &call) return false;
      if (other != nullptr && program.ends(*other)) break;
      if (!i->isTerminator()) continue;
      for (const llvm::BasicBlock* next : llvm::successors(i)) {
        if (seen.insert(next).second) work.push_back(&next->front());
      }
    }
  }
  return true;
}

}  // namespace

// Whether it is one of several programs in one: of main's type, called through a table alone, and
// behind one of those calls the process ends, if perhaps not behind others.
bool Solver::is_one_of_mains(const llvm::Function& f) {
  if (!f.getReturnType()->isIntegerTy(32) || f.arg_size() != 2 ||
      !f.getArg(0)->getType()->isIntegerTy(32) || !f.getArg(1)->getType()->isPointerTy()) {
    return false;
  }
  const auto [at, added] = mains_.try_emplace(&f, false);
  if (!added) return at->second;
  const auto& sites = memory_.callers(&f);
  at->second = llvm::all_of(sites, [](const auto* site) { return site->isIndirectCall(); }) &&
               llvm::any_of(sites, [this](const auto* site) { return is_last(program_, *site); });
  return at->second;
}

// Whether the lock that a root took is one that callers have: it was given back before, to be taken
// again, or, if the root has no name for it at its end, other functions give such locks back.
bool Solver::is_the_callers(const Context& root, const Exit& exit) {
  Bits cells;
  for (const Name& n : root.entry.names) {
    if (n.kind == Name::Kind::kObject) cells.merge(name_cells(n, n.steps));
  }
  const bool known = !cells.test(kAnywhere);
  const auto effect = [&](const llvm::CallBase& call) {
    for (const Rule* rule : rules_for(exit.fact.property, call)) {
      if (rule->kind != Rule::Kind::kProduce || call.arg_empty()) continue;
      const llvm::Value* lock = call.getArgOperand(0);
      const bool same = root.entry.is_named(address(lock, root.entry), Track::kAddress);
      if (!same && !(known && memory_.cells_of(lock).intersects(cells))) continue;
      if (rule->from != kNoState && rule->from != exit.fact.state) continue;
      if (rule->from != kNoState) return Effect::kGives;
      if (rule->state != 0) return Effect::kTakes;
    }
    return Effect::kNone;
  };
  if (gives_first(*root.function, root.start, effect)) return true;
  if (exit.fact.has_object()) return false;
  if (!known) return true;  // a guess
  std::set<const llvm::Function*> others{root.function};
  bool given = false;
  cells.each([&](std::uint32_t cell) {
    for (const llvm::CallBase* call : calls_about(exit.fact.property, cell)) {
      if (given || effect(*call) != Effect::kGives) continue;
      const llvm::Function* other = call->getFunction();
      given = others.insert(other).second && gives_first(*other, nullptr, effect);
    }
  });
  return given;
}

const std::vector<const llvm::CallBase*>& Solver::calls_about(std::size_t property,
                                                              std::uint32_t cell) {
  const auto [at, fresh] = takers_.try_emplace(property);
  if (fresh) {
    for (const auto& [f, rules] : rules_[property]) {
      for (const llvm::User* user : f->users()) {
        const auto* call = llvm::dyn_cast<llvm::CallBase>(user);
        if (call == nullptr || call->arg_empty()) continue;
        memory_.cells_of(call->getArgOperand(0)).each([&](std::uint32_t one) {
          at->second[one].push_back(call);
        });
      }
    }
  }
  return at->second[cell];
}

// Once all ways out of a function are known: names through memory hold for its callers only if they
// hold on each way out that looks the same to them.
void Solver::rise() {
  const auto rising = std::move(rising_);
  rising_.clear();
  for (const auto& [id, number] : rising) {
    Exit exit = contexts_[id].exits[number];
    if (property(exit.fact).track == Track::kAddress && is_the_callers(contexts_[id], exit)) {
      contexts_[id].released = false;
      continue;
    }
    std::erase_if(exit.fact.names, [&](const Name& n) {
      if (n.steps == 0 || property(exit.fact).track == Track::kContent) return false;
      for (const Exit& other : contexts_[id].exits) {
        if (other.returned != exit.returned || other.fact.state != exit.fact.state) continue;
        const auto& names = other.fact.names;
        if (std::find(names.begin(), names.end(), n) == names.end()) return true;
      }
      return false;
    });
    if (exit.fact.has_object()) ascend(id, exit);
  }
}

// What began in a function and outlives it goes on where it was called.
void Solver::ascend(ContextId id, const Exit& exit) {
  const Context& root = contexts_[id];
  const llvm::Function* f = root.function;
  if (root.depth >= kMostDepth || f->getName() == "main") return;
  // If it hangs on what the function is given, only those callers know who surely give that.
  const bool hangs = may_pass_by(root, exit, {}, {});
  const bool by_given =
      hangs && !exit.parameters.empty() && !may_pass_by(root, exit, exit.parameters, {});
  if (hangs && !by_given && !asks_memory(root)) return;
  const llvm::Instruction* origin = root.origin;
  for (const llvm::CallBase* site : memory_.callers(f)) {
    const bool direct = site->getCalledFunction() == f || site->isIndirectCall();
    const bool thread = !direct && property(exit.fact).track == Track::kObject;
    const llvm::CallBase* from = direct ? site : thread ? joined(*site) : nullptr;
    if (from == nullptr || program_.ends(*site) || !leads_to(*site, {}, root, kMostDepth)) continue;
    if ((steps_ += 30) > most_work_) return;
    if (!rules_for(exit.fact.property, *site).empty()) continue;
    Fact fact = back(exit.fact, *site, f);
    const bool given = std::any_of(fact.names.begin(), fact.names.end(),
                                   [site](const Name& n) { return n.root == site; });
    if (!fact.has_object() || (given && takes_number(fact.property, *site))) continue;
    const Fact surely = fact;
    widen(fact, *site);
    // What was read before the call holds after it only where the call did not write.
    std::erase_if(fact.names, [&](const Name& n) {
      if (thread && n.steps > 0) return true;
      if (n.steps == 0 || property(fact).track == Track::kContent ||
          std::find(surely.names.begin(), surely.names.end(), n) != surely.names.end()) {
        return false;
      }
      for (int s = 0; s < n.steps; ++s) {
        if (memory_.may_write(*site, name_cells(n, s))) return true;
      }
      return false;
    });
    // Through a pointer that may lead elsewhere it is a guess.
    const std::size_t few = property(fact).track == Track::kAddress ? 1 : 2;
    if (site->isIndirectCall() && memory_.callees(*site).size() > few) continue;
    if (!fact.has_object()) continue;
    State probe{id, from, fact, conditions_at(*from), kNone};
    if (hangs && !(by_given && gives(probe, *site, f, exit.parameters))) {
      State above = probe;
      note_numbers(above.known, *site, true);
      if (may_pass_by(root, exit, {}, held_for(above, *site, f))) continue;
    }
    if (!learn_result(probe, *site, f, exit)) continue;
    const TraceId trace = event(graft(kNone, exit.trace), site, {"", "comes back from ", f});
    begin(from, true, std::move(fact), std::move(probe.known), trace, origin, id);
  }
}

// Whether the branches above where it went on in the callee, and above where it began in what that
// called, allow the constants that the call passes: `checkdir(0, INIT)` gets nowhere where
// `(flag & MASK) == APPEND` was asked, nor `done(stdin)` where `f != stdin` was. `passed` is what
// is known where the call is.
bool Solver::leads_to(const llvm::CallBase& call, Known passed, const Context& root, int depth) {
  ++steps_;
  const Fact none;
  Known given;
  const Reasoning there(passed, none, Track::kAddress);
  for (const llvm::Argument& parameter : root.function->args()) {
    const int at =
        Memory::argument_for(call, root.function, static_cast<int>(parameter.getArgNo()));
    if (at < 0 || at >= static_cast<int>(call.arg_size())) continue;
    const llvm::Value* actual = call.getArgOperand(static_cast<unsigned>(at));
    if (const llvm::GlobalVariable* stream = never_changed(actual); stream != nullptr)
      know_stream(given, parameter, *stream);
    if (!actual->getType()->isIntegerTy() || actual->getType() != parameter.getType()) continue;
    const auto number = there.range(actual);
    if (number && number->isSingleElement()) given.set(&parameter, *number);
  }
  const Edges above = edges_above(dominators(*root.function), *root.start);
  const bool allowed = std::all_of(above.begin(), above.end(), [&](const auto& edge) {
    Known known = given;
    Reasoning reasoning(known, none, Track::kAddress);
    return assume_edge(reasoning, *edge.first, *edge.second);
  });
  const auto* site = llvm::dyn_cast<llvm::CallBase>(root.start);
  if (!allowed || root.belows.empty() || site == nullptr || depth == 0) return allowed;
  return std::any_of(root.belows.begin(), root.belows.end(), [&](ContextId below) {
    return leads_to(*site, given, contexts_[below], depth - 1);
  });
}

// Whether a branch above where the state began asks for a number that the callers may know: a mark,
// a count.
bool Solver::asks_memory(const Context& root) {
  const Edges above = edges_above(dominators(*root.function), *root.start);
  return llvm::any_of(above, [&](const auto& edge) {
    const auto* br = llvm::dyn_cast<llvm::BranchInst>(edge.first);
    const auto* cmp = br != nullptr ? llvm::dyn_cast<llvm::ICmpInst>(br->getCondition()) : nullptr;
    if (cmp == nullptr || !cmp->getOperand(0)->getType()->isIntegerTy()) return false;
    const llvm::Value* asked = cmp->getOperand(0);
    while (llvm::isa<llvm::CastInst, llvm::BinaryOperator>(asked))
      asked = llvm::cast<llvm::Instruction>(asked)->getOperand(0);
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(asked);
    return load != nullptr && llvm::isa<llvm::Argument, llvm::GlobalVariable>(
                                  address_of(load->getPointerOperand(), memory_.layout()).root);
  });
}

// The numbers behind the callee's parameters, and in variables, that are known where it is called.
Known Solver::held_for(const State& state, const llvm::CallBase& call,
                       const llvm::Function* callee) const {
  Known held;
  for (const Flag& flag : flags(state)) {
    if (llvm::isa<llvm::GlobalVariable>(flag.at.root)) held.set_cell(flag.at, flag.value);
    for (const llvm::Argument& parameter : callee->args()) {
      const int at = Memory::argument_for(call, callee, static_cast<int>(parameter.getArgNo()));
      if (at < 0 || at >= static_cast<int>(call.arg_size())) continue;
      const Address a = address(call.getArgOperand(static_cast<unsigned>(at)), state.fact);
      if (a.root == flag.at.root && a.offset != kAnyOffset)
        held.set_cell({&parameter, flag.at.offset - a.offset}, flag.value);
    }
  }
  return held;
}

// Whether the call surely gives the parameters what they were.
bool Solver::gives(State& state, const llvm::CallBase& call, const llvm::Function* callee,
                   const Ranges& wanted) const {
  const Reasoning reasoning(state.known, state.fact, property(state.fact).track);
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& one) {
    const int at = Memory::argument_for(call, callee, static_cast<int>(one.first));
    if (at < 0 || at >= static_cast<int>(call.arg_size())) return false;
    const auto given = reasoning.range(call.getArgOperand(static_cast<unsigned>(at)));
    return given && given->getBitWidth() == one.second.getBitWidth() && one.second.contains(*given);
  });
}

void Solver::begin(const llvm::Instruction* start, bool after, Fact fact, Known known,
                   TraceId trace, const llvm::Instruction* origin, ContextId below) {
  const auto [at, added] = roots_.try_emplace({start, facts_.id(fact), origin}, kNone);
  if (!added) {
    Context& context = contexts_[at->second];
    const auto& belows = context.belows;
    if (below != kNone && std::find(belows.begin(), belows.end(), below) == belows.end()) {
      // Calls that lead to none of the others may lead to this one.
      context.belows.push_back(below);
      for (std::size_t n = 0; n < context.exits.size(); ++n) rising_.emplace_back(at->second, n);
    }
    if (!known.find(start)) return;
  } else {
    at->second = static_cast<ContextId>(contexts_.size());
    Context& context = contexts_.emplace_back();
    context.function = start->getFunction();
    context.is_root = true;
    context.start = start;
    context.origin = origin;
    context.entry = fact;
    context.below = below;
    if (below != kNone) context.belows.push_back(below);
    context.depth = below == kNone ? 0 : contexts_[below].depth + 1;
  }
  for (Known& view : views_at(*start, std::move(known))) {
    State state{at->second, start, fact, std::move(view), trace};
    if (!drop_null(state)) continue;
    if (!after || pass(state, *start)) arrive(std::move(state));
  }
}

}  // namespace lint
