// Into a function that is called and back, and the summary that its calls share (solver.h).
#include <llvm/IR/Constants.h>

#include "solver.h"

namespace lint {

Fact Solver::into(const Fact& fact, const llvm::CallBase& call,
                  const llvm::Function* callee) const {
  Fact in = fact;
  in.names.clear();
  for (const Name& n : fact.names) {
    if (llvm::isa<llvm::GlobalVariable>(n.root)) {
      if (memory_.mentions(callee, n.root)) in.add(n);
    }
  }
  const auto hand_over = [&](const llvm::Value* actual, const llvm::Value* formal, bool pack) {
    const Address a = address(actual, fact);
    for (const Name& n : fact.names) {
      if (n.root != a.root) continue;
      Name inner = n;
      inner.root = formal;
      if (n.offsets[0] != kAnyOffset) {
        if (a.offset == kAnyOffset)
          inner.offsets[0] = kAnyOffset;
        else
          inner.offsets[0] -= a.offset;
      }
      if (pack) {
        if (n.steps != 0 || n.kind != Name::Kind::kObject) continue;
        inner.kind = Name::Kind::kPack;
      }
      in.add(inner);
    }
  };
  for (const llvm::Argument& parameter : callee->args()) {
    const int at = Memory::argument_for(call, callee, static_cast<int>(parameter.getArgNo()));
    if (at >= 0 && at < static_cast<int>(call.arg_size())) {
      hand_over(call.getArgOperand(static_cast<unsigned>(at)), &parameter, false);
    }
  }
  if (callee->isVarArg()) {
    for (unsigned a = static_cast<unsigned>(callee->arg_size()); a < call.arg_size(); ++a) {
      if (call.getArgOperand(a)->getType()->isPointerTy())
        hand_over(call.getArgOperand(a), callee, true);
    }
  }
  return in;
}

Fact Solver::back(const Fact& exit, const llvm::CallBase& call,
                  const llvm::Function* callee) const {
  Fact out = exit;
  out.names.clear();
  out.lent = false;
  bool found = !exit.lent;  // where it lies, for who called
  const bool direct = call.getCalledFunction() == callee || call.isIndirectCall();
  for (const Name& n : exit.names) {
    Name outer = n;
    if (n.root == returned_value()) {
      if (!direct) continue;
      outer.root = &call;
      out.escaped |= n.steps > 0;
    } else if (const auto* parameter = llvm::dyn_cast<llvm::Argument>(n.root)) {
      const int at = Memory::argument_for(call, callee, static_cast<int>(parameter->getArgNo()));
      if (at < 0 || at >= static_cast<int>(call.arg_size())) continue;
      const llvm::Value* actual = call.getArgOperand(static_cast<unsigned>(at));
      if (llvm::isa<llvm::ConstantData>(actual)) continue;
      const Address a = address(actual, exit);
      outer.root = a.root;
      if (n.offsets[0] != kAnyOffset) {
        if (a.offset == kAnyOffset)
          outer.offsets[0] = kAnyOffset;
        else
          outer.offsets[0] += a.offset;
      }
    }
    if (exit.lent && n.steps > 0 && llvm::isa<llvm::Argument>(n.root)) {
      out.lie_at(outer.root);
      found = true;
    }
    out.add(outer);
  }
  out.escaped |= !found;
  return out;
}

void Solver::enter(State& state, const llvm::CallBase& call, const llvm::Function* callee,
                   bool& entered) {
  Fact in = into(state.fact, call, callee);
  in.guess = false;  // what the callee does is the same for all; who called knows
  in.skipped = nullptr;
  if (!in.has_object()) return;
  entered = true;
  std::vector<std::int64_t> constants;
  Known known;
  Reasoning reasoning(state.known, state.fact, property(state.fact).track);
  for (const llvm::Argument& parameter : callee->args()) {
    const int at = Memory::argument_for(call, callee, static_cast<int>(parameter.getArgNo()));
    if (at < 0 || at >= static_cast<int>(call.arg_size())) continue;
    const auto range = reasoning.range(call.getArgOperand(static_cast<unsigned>(at)));
    if (!range || !full_range(parameter.getType()) ||
        range->getBitWidth() != full_range(parameter.getType())->getBitWidth()) {
      continue;
    }
    const llvm::APInt zero(range->getBitWidth(), 0);
    const Range nonzero =
        zero.getBitWidth() == 1 ? Range(llvm::APInt(1, 1)) : Range(zero + 1, zero);
    if (range->isSingleElement()) {
      constants.insert(constants.end(), {at, 0, range->getSingleElement()->getSExtValue()});
      known.set(&parameter, *range);
    } else if (parameter.getType()->isPointerTy() && nonzero.contains(*range)) {
      constants.insert(constants.end(), {at, 1, 0});
      known.set(&parameter, nonzero);
    }
  }
  std::vector<std::pair<Address, const llvm::Constant*>> handed;
  for (const Flag& flag : flags(state)) {
    if (llvm::isa<llvm::GlobalVariable>(flag.at.root) && memory_.mentions(callee, flag.at.root)) {
      handed.emplace_back(flag.at, flag.value);
    }
    for (const llvm::Argument& parameter : callee->args()) {
      const int at = Memory::argument_for(call, callee, static_cast<int>(parameter.getArgNo()));
      if (at < 0 || at >= static_cast<int>(call.arg_size())) continue;
      const Address a = address(call.getArgOperand(static_cast<unsigned>(at)), state.fact);
      if (a.root != flag.at.root || a.offset == kAnyOffset) continue;
      handed.emplace_back(Address{&parameter, flag.at.offset - a.offset}, flag.value);
    }
  }
  std::sort(handed.begin(), handed.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.root, a.first.offset) < std::tie(b.first.root, b.first.offset);
  });
  for (const auto& [place, value] : handed) {
    known.set_cell(place, value);
    const auto* number = llvm::dyn_cast<llvm::ConstantInt>(value);
    constants.insert(constants.end(), {reinterpret_cast<std::int64_t>(place.root), place.offset,
                                       number != nullptr ? number->getValue().getSExtValue() : 0});
  }
  const auto [at, added] = callees_.try_emplace({callee, facts_.id(in), constants}, kNone);
  if (added) {
    at->second = static_cast<ContextId>(contexts_.size());
    Context& context = contexts_.emplace_back();
    context.function = callee;
    context.entry = in;
  }
  const ContextId id = at->second;
  // What the callee does not get to see stays, unless it is written.
  Fact kept = state.fact;
  bool gone = false;
  std::erase_if(kept.names, [&](const Name& n) {
    if (n.steps == 0) return false;
    for (const llvm::Value* a : call.args()) {
      if (address(a, state.fact).root == n.root) return true;
    }
    if (llvm::isa<llvm::GlobalVariable>(n.root) && memory_.mentions(callee, n.root)) return true;
    for (int s = 0; s < n.steps; ++s) {
      if (memory_.may_write(call, name_cells(n, s))) return gone = true;
    }
    return false;
  });
  kept.escaped |= gone;
  const TraceId trace = event(state.trace, &call, {"", "into ", callee}, id);
  Waiting waiting{state.context, &call, std::move(kept), state.known, trace};
  contexts_[id].callers.push_back(waiting);
  if (added) {
    State start{id, &*callee->getEntryBlock().getFirstNonPHIOrDbgOrLifetime(), std::move(in),
                std::move(known), kNone};
    arrive(std::move(start));
    return;
  }
  if (contexts_[id].released) mark_released(waiting.context);
  const std::vector<Error> errors = contexts_[id].errors;
  for (const Error& e : errors) bubble(waiting, id, e);
  const std::vector<Exit> exits = contexts_[id].exits;
  for (const Exit& e : exits) resume(waiting, id, e);
}

}  // namespace lint
