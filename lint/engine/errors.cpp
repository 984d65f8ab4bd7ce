// What went wrong, from where it was seen up to the caller that it is reported for (solver.h).
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicInst.h>

#include "solver.h"

namespace lint {
namespace {

constexpr int kDeepest = 6;  // calls from where a state began down to where it is wrong

// Whether it is what pthread_cleanup_push does in a thread that is cancelled.
bool is_cancelled(const llvm::Instruction& i) {
  return llvm::any_of(*i.getParent(), [](const llvm::Instruction& other) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&other);
    const llvm::Function* f = call != nullptr ? call->getCalledFunction() : nullptr;
    return f != nullptr && f->getName() == "__pthread_unwind_next";
  });
}

}  // namespace

void Solver::mark_released(ContextId id) {
  if (contexts_[id].released) return;
  contexts_[id].released = true;
  const std::size_t count = contexts_[id].callers.size();
  for (std::size_t c = 0; c < count; ++c) mark_released(contexts_[id].callers[c].context);
}

// Whether a caller may give what the parameters are on this way.
bool Solver::is_given(const State& state) {
  const Context& context = contexts_[state.context];
  const llvm::Function& f = *context.function;
  if (!context.is_root || f.hasAddressTaken() || memory_.callers(&f).empty()) return true;
  // Of a library, who calls it is seen in part.
  if (!f.hasLocalLinkage() && !f.hasHiddenVisibility() && !program_.has_main()) return true;
  Ranges wanted;
  for (const llvm::Argument& a : f.args()) {
    if (const auto range = state.known.find(&a)) wanted.emplace_back(a.getArgNo(), *range);
  }
  if (wanted.empty()) return true;
  steps_ += memory_.callers(&f).size();
  return llvm::any_of(memory_.callers(&f), [&](const llvm::CallBase* site) {
    if (program_.ends(*site)) return false;
    Known known;
    const Fact none;
    const Reasoning reasoning(known, none, Track::kAddress);
    return llvm::all_of(wanted, [&](const auto& one) {
      const int at = Memory::argument_for(*site, &f, static_cast<int>(one.first));
      if (at < 0 || at >= static_cast<int>(site->arg_size())) return true;
      const llvm::Value* actual = site->getArgOperand(static_cast<unsigned>(at));
      const auto given = reasoning.range(actual);
      return !given || given->getBitWidth() != one.second.getBitWidth() ||
             !given->intersectWith(one.second).isEmptySet();
    });
  });
}

Solver::Error Solver::error_at(const State& state, const Rule& rule, const llvm::Instruction& i) {
  Error error{&rule, &i, &i, state.trace, -1};
  error.guess = state.fact.guess;
  error.skipped = state.fact.skipped;
  // What is noted already needs no answer: add_error leaves it out.
  const Track track = property(state.fact).track;
  if (track == Track::kContent || is_noted(contexts_[state.context], error)) return error;
  error.guess |= is_answered_otherwise(state) || !is_given(state) ||
                 (track == Track::kAddress && (is_first_use(i) || is_cancelled(i)));
  return error;
}

// Whether the same was seen on another way, at least as sure.
bool Solver::is_noted(const Context& context, const Error& error) {
  return std::any_of(context.errors.begin(), context.errors.end(), [&](const Error& e) {
    return e.rule == error.rule && e.deepest == error.deepest && e.sink == error.sink &&
           e.guess <= error.guess && (e.skipped == nullptr || e.skipped == error.skipped);
  });
}

void Solver::add_error(ContextId id, Error error) {
  Context& context = contexts_[id];
  if (is_noted(context, error)) return;
  context.errors.push_back(error);
  const std::size_t count = context.callers.size();
  for (std::size_t c = 0; c < count; ++c) bubble(Waiting(contexts_[id].callers[c]), id, error);
}

// Whether anything behind the call speaks of what the caller has of its own.
bool Solver::is_named_behind(const Waiting& waiting) {
  const llvm::BasicBlock* block = waiting.call->getParent();
  const auto speaks = [&](const llvm::Instruction& i, const llvm::Value* root) {
    return !llvm::isa<llvm::LifetimeIntrinsic>(i) &&
           llvm::any_of(i.operands(), [&](const llvm::Use& use) {
             return address_of(use.get(), memory_.layout(), true).root == root;
           });
  };
  return std::any_of(waiting.fact.names.begin(), waiting.fact.names.end(), [&](const Name& n) {
    if (n.kind != Name::Kind::kObject) return false;
    const auto* root = llvm::dyn_cast<llvm::Instruction>(n.root);
    if (root == nullptr) return true;  // who called sees it
    for (const auto* i = waiting.call->getNextNode(); i != nullptr; i = i->getNextNode()) {
      if (speaks(*i, root)) return true;
    }
    const Blocks& ahead = users_ahead(*root);
    return llvm::any_of(llvm::successors(block), [&](const llvm::BasicBlock* next) {
      return ahead.contains(next) || llvm::any_of(next->phis(), [&](const llvm::PHINode& phi) {
               const llvm::Value* in = phi.getIncomingValueForBlock(block);
               return address_of(in, memory_.layout(), true).root == root;
             });
    });
  });
}

void Solver::bubble(const Waiting& waiting, ContextId callee, const Error& error) {
  // The callee lost what it was given. What the caller speaks of by a name of its own goes on
  // there, and is judged where it ends.
  if (error.rule->kind == Rule::Kind::kForbidEnd &&
      property(waiting.fact).track == Track::kObject && is_named_behind(waiting)) {
    Exit exit{waiting.fact, std::nullopt, error.trace, error.sink, {}, {}};
    exit.fact.names.clear();
    resume(waiting, callee, exit);
    return;
  }
  Error above = error;
  if (error.given >= 0) {
    const int at = Memory::argument_for(*waiting.call, contexts_[callee].function, error.given);
    const bool known = at >= 0 && at < static_cast<int>(waiting.call->arg_size());
    const llvm::Value* actual =
        known ? waiting.call->getArgOperand(static_cast<unsigned>(at)) : nullptr;
    if (error.rule->not_marked && actual != nullptr &&
        is_marked(actual, *waiting.call, waiting.known))
      return;
    above.given = parameter(actual);
  }
  above.sink = waiting.call;
  ++above.depth;
  above.guess |= waiting.fact.guess;
  if (above.skipped == nullptr) above.skipped = waiting.fact.skipped;
  above.trace = graft(waiting.trace, error.trace);
  if (error.lift >= 0) {
    above.deepest = waiting.call;
    const unsigned at = static_cast<unsigned>(error.lift);
    above.lift = at < waiting.call->arg_size()
                     ? lifted(*error.rule, *waiting.call, waiting.call->getArgOperand(at))
                     : -1;
  }
  add_error(waiting.context, above);
}

// A lock that is left: some ways out of the function give it back and others do not, and no caller
// takes care of it.
void Solver::judge_ends(ContextId first) {
  std::vector<char> cared(contexts_.size(), 0);
  for (auto c = static_cast<ContextId>(contexts_.size()); c-- > first;) {
    const Context& context = contexts_[c];
    if (!context.is_root) continue;
    if (context.below != kNone && (context.released || cared[c] != 0)) cared[context.below] = 1;
  }
  for (ContextId c = first; c < contexts_.size(); ++c) {
    const Context& context = contexts_[c];
    if (!context.is_root || context.exits.empty() || cared[c] != 0) continue;
    const Property& p = property(context.entry);
    if (p.track != Track::kAddress || !context.released) continue;
    for (const Rule& rule : p.rules) {
      if (rule.kind != Rule::Kind::kForbidEnd) continue;
      for (const Exit& exit : std::vector<Exit>(context.exits)) {
        if (exit.fact.escaped || ((p.at_least[rule.state] >> exit.fact.state) & 1) == 0) continue;
        add_error(c, {&rule, exit.at, exit.at, exit.trace, -1, -1, 0, exit.fact.guess,
                      exit.fact.skipped});
      }
    }
  }
}

// Whether the way leads through a function that gives the object back, or keeps it, on some
// condition of its own and does not tell: what its caller lost then is not lost for sure. Only what
// was given as it is on this way counts: the same call may be another thing for another beginning.
bool Solver::may_be_released(const Error& error) const {
  for (TraceId t = error.trace; t != kNone; t = traces_[t].parent) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(traces_[t].at);
    if (call == nullptr || !call->use_empty() || traces_[t].entered == kNone) continue;
    const Context& callee = contexts_[traces_[t].entered];
    if (callee.released) return true;
    if (!callee.entry.escaped && std::any_of(callee.exits.begin(), callee.exits.end(),
                                             [](const Exit& exit) { return exit.fact.escaped; })) {
      return true;
    }
  }
  return false;
}

bool Solver::is_possible(const Context& context, const Error& error) {
  return error.guess ||
         (error.skipped != nullptr && !gone_round_.contains({error.skipped, context.origin})) ||
         (error.rule->kind == Rule::Kind::kForbid &&
          property(context.entry).track == Track::kObject &&
          are_members(context.start, error.sink));
}

void Solver::report(ContextId first) {
  for (ContextId c = first; c < contexts_.size(); ++c) {
    const Context& context = contexts_[c];
    if (!context.is_root) continue;
    for (const Error& error : context.errors) tell(context, error);
  }
}

void Solver::tell(const Context& context, const Error& error) {
  const Property& p = property(context.entry);
  // That no condition on the way forbids it is less sure with each call.
  if (error.depth > kDeepest && p.track != Track::kContent) return;
  if (error.rule->kind == Rule::Kind::kForbidEnd && p.track == Track::kObject &&
      (may_be_released(error) || is_asked_again(*context.origin, *error.deepest) ||
       is_closed_with_all(*context.start, *error.deepest))) {
    return;
  }
  const bool by_sink = p.track == Track::kContent;
  const void* begin = by_sink ? nullptr : static_cast<const void*>(context.start);
  const void* end = by_sink ? static_cast<const void*>(error.deepest) : nullptr;
  // Once for each, and what is sure in place of what is possible, whichever was seen first: two
  // that began in one function are told for the same call.
  const auto [told, added] = told_.try_emplace({&p, begin, end}, findings_.size());
  if (!added && !findings_[told->second].possible) return;
  const bool possible = is_possible(context, error);
  if (!added && possible) return;
  Finding finding{&p, error.rule->message, {}, possible};
  std::vector<TraceId> events;
  for (TraceId t = error.trace; t != kNone; t = traces_[t].parent) events.push_back(t);
  for (auto t = events.rbegin(); t != events.rend(); ++t) {
    finding.steps.push_back({traces_[*t].at, traces_[*t].note.text()});
  }
  finding.steps.push_back({error.deepest, error.rule->message});
  if (added)
    findings_.push_back(std::move(finding));
  else
    findings_[told->second] = std::move(finding);
}

}  // namespace lint
