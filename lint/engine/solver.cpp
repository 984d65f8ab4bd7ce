// Contexts, paths and summaries (solver.h).
#include "solver.h"

#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicInst.h>

namespace lint {
namespace {

// With more, summaries are begun afresh: about 1 GB.
constexpr std::size_t kMostViews = 400'000;
constexpr std::size_t kMostTraces = 1'600'000;
constexpr int kMostJoins = 6;           // then only what does not change is known
constexpr std::size_t kMostExits = 12;  // of one function for one fact

// The few ranges by which callers tell results apart.
std::optional<Range> result_class(const std::optional<Range>& range) {
  if (!range || range->isFullSet()) return std::nullopt;
  if (range->isSingleElement()) return range;
  const unsigned width = range->getBitWidth();
  if (width == 1) return std::nullopt;
  const llvm::APInt zero(width, 0), one(width, 1);
  const llvm::APInt least = llvm::APInt::getSignedMinValue(width);
  for (const Range& c : {Range(one, least), Range(least, zero), Range(zero, least),
                         Range(one, zero), Range(-one, one)}) {
    if (c.contains(*range)) return c;
  }
  return std::nullopt;
}

// Whether all that the rule forbids lies where the function takes any arguments: it is another one
// of that name. Nothing is known of the parameters of one that was never declared.
bool is_of_another_library(const Rule& rule, const llvm::Function& f) {
  const auto parameters = static_cast<int>(f.arg_size());
  return rule.kind == Rule::Kind::kForbid && f.isVarArg() && parameters != 0 &&
         std::all_of(rule.places.begin(), rule.places.end(), [parameters](const Place& place) {
           return place.kind == Place::Kind::kArgument && place.first == place.last &&
                  place.first >= parameters;
         });
}

}  // namespace

Solver::Solver(Program& program, Memory& memory, const std::vector<Property>& properties,
               std::size_t work_per_line)
    : program_(program),
      memory_(memory),
      properties_(properties),
      rules_(properties.size()),
      at_end_(properties.size(), 0),
      descriptor_(llvm::Type::getInt32Ty(program.module().getContext())),
      most_in_all_(work_per_line * (program.lines() + 10'000)) {
  recursive_ = find_recursive();
  for (std::size_t p = 0; p < properties.size(); ++p) {
    for (const Rule& rule : properties[p].rules) {
      if (rule.kind == Rule::Kind::kForbidEnd) at_end_[p] |= properties[p].at_least[rule.state];
    }
  }
  for (const llvm::Function& f : program.module()) {
    const std::string name = f.getName().str();
    const std::string plain = plain_name(f), whole = llvm::demangle(name);
    for (std::size_t p = 0; p < properties.size(); ++p) {
      for (const Rule& rule : properties[p].rules) {
        if (is_of_another_library(rule, f)) continue;
        for (const std::string& pattern : rule.functions) {
          const bool overload = pattern.find('(') != std::string::npos;
          if (matches(pattern, name) || matches(pattern, overload ? whole : plain)) {
            rules_[p][&f].push_back(&rule);
            break;
          }
        }
      }
    }
  }
}

// A function through a pointer has no name.
std::string Solver::Note::text() const {
  std::string text = what.str() + link.str();
  if (who != nullptr) return text + llvm::demangle(who->getName().str());
  return link.empty() ? text : text + "a call";
}

TraceId Solver::event(TraceId parent, const llvm::Instruction* at, Note note, ContextId entered) {
  traces_.push_back({parent, at, note, entered});
  return static_cast<TraceId>(traces_.size() - 1);
}

// The events within a called function, after those before the call.
TraceId Solver::graft(TraceId base, TraceId inner) {
  std::vector<TraceId> events;
  for (TraceId t = inner; t != kNone; t = traces_[t].parent) events.push_back(t);
  for (auto t = events.rbegin(); t != events.rend(); ++t) {
    base = event(base, traces_[*t].at, traces_[*t].note, traces_[*t].entered);
  }
  return base;
}

void Solver::arrive(State&& state) {
  Seen& seen = seen_[{state.context, state.at, facts_.id(state.fact)}];
  for (const Known& k : seen.known) {
    if (k.covers(state.known)) return;
  }
  if (seen.known.size() < most_views_) {
    seen.known.push_back(state.known);
    ++views_;
  } else {
    joined_ = true;
    Known& last = seen.known.back();
    if (++seen.joins > kMostJoins)
      last.keep_same(state.known);
    else
      last.join(state.known);
    state.known = last;
  }
  work_.push_back(std::move(state));
}

// Whether all was followed to its end.
bool Solver::drain() {
  while (!work_.empty() || !rising_.empty()) {
    if (work_.empty()) {
      rise();
      continue;
    }
    if (steps_ > most_work_) break;
    State state = std::move(work_.front());
    work_.pop_front();
    walk(std::move(state));
  }
  if (steps_ <= most_work_) return true;
  work_.clear();
  rising_.clear();
  return false;
}

void Solver::walk(State&& first) {
  States states;
  states.push_back(std::move(first));
  while (!states.empty()) {
    State state = std::move(states.back());
    states.pop_back();
    for (bool going = true; going && steps_ <= most_work_;) {
      ++steps_;
      const llvm::Instruction& i = *state.at;
      if (!step(state, i, states)) break;
      if (const auto* end = llvm::dyn_cast<llvm::ReturnInst>(&i)) {
        leave(state, *end);
        break;
      }
      if (i.isTerminator())
        going = branch(state, i);
      else
        state.at = i.getNextNode();
    }
  }
}

void Solver::leave(State& state, const llvm::ReturnInst& end) {
  Fact out = state.fact;
  out.names.clear();
  bool kept = false;
  const llvm::Value* value = end.getReturnValue();
  const Address result = value != nullptr ? address(value, state.fact) : Address{};
  for (const Name& n : state.fact.names) {
    const bool outer = llvm::isa<llvm::Argument>(n.root) || llvm::isa<llvm::GlobalVariable>(n.root);
    if (outer && n.kind != Name::Kind::kScalar) {
      kept |= n.kind != Name::Kind::kOwner;
      out.add(n);
    } else if (n.steps > 0 && !is_own(n.root)) {
      out.escaped = true;
    }
    if (value != nullptr && n.root == result.root) {
      Name back = n;
      back.root = returned_value();
      if (n.offsets[0] != kAnyOffset && result.offset != kAnyOffset)
        back.offsets[0] -= result.offset;
      kept |= n.kind != Name::Kind::kOwner;
      out.add(back);
    }
  }
  // Judged once the callers are known: judge_ends.
  if (property(out).track == Track::kAddress && contexts_[state.context].is_root && !out.escaped &&
      matters_at_end(out)) {
    out.guess |= is_answered_otherwise(state) || !is_given(state);
  }
  if (!kept) {
    state.fact.escaped = out.escaped;
    lost(state, end);
    // A lock in what only this function knows is judged here.
    if (property(out).track == Track::kAddress && contexts_[state.context].is_root)
      add_exit(state.context, {std::move(out), std::nullopt, state.trace, &end, {}, {}});
    return;
  }
  Reasoning reasoning(state.known, state.fact, property(state.fact).track);
  const auto returned = value != nullptr ? reasoning.range(value) : std::nullopt;
  Exit exit{std::move(out), result_class(returned), state.trace, &end, {}, flags(state)};
  std::erase_if(exit.flags, [](const Flag& f) {
    return !llvm::isa<llvm::Argument, llvm::GlobalVariable>(f.at.root);
  });
  for (const llvm::Argument& a : end.getFunction()->args()) {
    const auto range = state.known.find(&a);
    if (!range) continue;
    if (const auto coarse = result_class(*range))
      exit.parameters.emplace_back(a.getArgNo(), *coarse);
  }
  add_exit(state.context, std::move(exit));
}

void Solver::add_exit(ContextId id, Exit exit) {
  Context& context = contexts_[id];
  if (context.exits.size() >= kMostExits) {
    exit.returned.reset();
    exit.parameters.clear();
    exit.flags.clear();
  }
  for (const Exit& e : context.exits) {
    if (e.fact == exit.fact && (!e.returned || e.returned == exit.returned) &&
        (e.parameters.empty() || e.parameters == exit.parameters) &&
        std::all_of(e.flags.begin(), e.flags.end(), [&](const Flag& f) {
          return std::find(exit.flags.begin(), exit.flags.end(), f) != exit.flags.end();
        })) {
      return;
    }
  }
  if (context.exits.size() >= 2 * kMostExits) return;
  context.exits.push_back(exit);
  if (context.is_root) {
    rising_.emplace_back(id, context.exits.size() - 1);
  } else {
    const std::size_t count = context.callers.size();
    for (std::size_t c = 0; c < count; ++c) resume(Waiting(contexts_[id].callers[c]), id, exit);
  }
}

// What the way out of the callee says of its result and of what it was given; false if that
// cannot have been.
bool Solver::learn_result(State& state, const llvm::CallBase& call, const llvm::Function* callee,
                          const Exit& exit) {
  Reasoning reasoning(state.known, state.fact, property(state.fact).track);
  for (const auto& [parameter, range] : exit.parameters) {
    const int at = Memory::argument_for(call, callee, static_cast<int>(parameter));
    if (at < 0 || at >= static_cast<int>(call.arg_size())) continue;
    const llvm::Value* actual = call.getArgOperand(static_cast<unsigned>(at));
    const auto width = full_range(actual->getType());
    if (!width || width->getBitWidth() != range.getBitWidth()) continue;
    if (!reasoning.constrain(actual, range)) return false;
  }
  for (const Flag& flag : exit.flags) {
    Address at = flag.at;
    if (const auto* parameter = llvm::dyn_cast<llvm::Argument>(at.root)) {
      const int place = Memory::argument_for(call, callee, static_cast<int>(parameter->getArgNo()));
      if (place < 0 || place >= static_cast<int>(call.arg_size())) continue;
      const Address a = address(call.getArgOperand(static_cast<unsigned>(place)), state.fact);
      if (a.offset == kAnyOffset || llvm::isa<llvm::ConstantData>(a.root)) continue;
      at = {a.root, a.offset + at.offset};
    }
    state.known.set_cell(at, flag.value);
  }
  const bool returns = call.getCalledFunction() == callee || call.isIndirectCall();
  const auto width = full_range(call.getType());
  if (returns && exit.returned && width && width->getBitWidth() == exit.returned->getBitWidth()) {
    state.known.set(&call, *exit.returned);
  }
  return true;
}

// A call comes back with what its summary says.
void Solver::resume(const Waiting& waiting, ContextId callee, const Exit& exit) {
  const llvm::Function* f = contexts_[callee].function;
  State state{waiting.context, waiting.call, back(exit.fact, *waiting.call, f), waiting.known,
              graft(waiting.trace, exit.trace)};
  // A variable that the callee writes on some ways, and does not tell by its result on which: what
  // it holds afterwards is not sure.
  if (!exit.returned && !waiting.call->use_empty() && !matters_at_end(state.fact) &&
      property(state.fact).track == Track::kObject) {
    std::erase_if(state.fact.names, [&](const Name& n) {
      return n.steps > 0 && is_own(n.root) &&
             memory_.may_write(*waiting.call, name_cells(n, n.steps - 1));
    });
  }
  // Names that the callee cannot change: registers, and cells that it does not write.
  for (const Name& n : waiting.fact.names) state.fact.add(n);
  state.fact.guess = waiting.fact.guess;
  state.fact.skipped = waiting.fact.skipped;
  state.fact.escaped |= waiting.fact.escaped;
  state.fact.lent |= waiting.fact.lent;
  after_call(state, *waiting.call);
  if (!learn_result(state, *waiting.call, f, exit)) return;
  if (!state.fact.has_object() && !lost(state, *waiting.call)) return;
  if (pass(state, *waiting.call)) arrive(std::move(state));
}

// To what follows the instruction.
bool Solver::pass(State& state, const llvm::Instruction& i) {
  if (const auto* invoke = llvm::dyn_cast<llvm::InvokeInst>(&i)) {
    return enter_block(state, invoke->getParent(), invoke->getNormalDest());
  }
  state.at = i.getNextNode();
  return state.at != nullptr;
}

// Whether all was followed to its end.
bool Solver::finish(ContextId first) {
  const bool all = drain();
  all_steps_ += steps_;
  steps_ = 0;
  if (all_steps_ > most_in_all_) most_work_ = kFewWork;
  judge_ends(first);
  return all;
}

void Solver::follow(llvm::function_ref<void()> begins) {
  const auto first = static_cast<ContextId>(contexts_.size());
  begins();
  if (!finish(first)) ++given_up_;
  if (joined_ && has_sure_error(first))
    look_again(first, begins);
  else
    report(first);
  all_steps_ += steps_;  // of what was asked to tell it
  steps_ = 0;
  gone_round_.clear();
  if (views_ >= kMostViews || traces_.size() >= kMostTraces) forget();
}

bool Solver::has_sure_error(ContextId first) {
  for (ContextId c = first; c < contexts_.size(); ++c) {
    const Context& context = contexts_[c];
    if (context.is_root && llvm::any_of(context.errors, [&](const Error& error) {
          return !is_possible(context, error);
        })) {
      return true;
    }
  }
  return false;
}

// Where views were joined, the way to an error may be none. Followed anew with more of them kept
// apart, it is not seen again then. What takes too long stays as it was seen first.
void Solver::look_again(ContextId first, llvm::function_ref<void()> begins) {
  const auto findings = findings_;
  const auto told = told_;
  report(first);
  auto first_findings = std::exchange(findings_, findings);
  auto first_told = std::exchange(told_, told);
  forget();
  gone_round_.clear();
  most_views_ = kManyViews;
  begins();
  if (finish(0)) {
    report(0);
  } else {
    findings_ = std::move(first_findings);
    told_ = std::move(first_told);
  }
  most_views_ = kFewViews;
  forget();
}

// All but what was found.
void Solver::forget() {
  seen_.clear();
  views_ = 0;
  joined_ = false;
  contexts_.clear();
  callees_.clear();
  roots_.clear();
  traces_.clear();
}

std::vector<Finding> Solver::run(const Progress& progress) {
  for (std::size_t p = 0; p < properties_.size(); ++p) seed(p, progress);
  return std::move(findings_);
}

}  // namespace lint
