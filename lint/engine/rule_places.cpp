// Whether a property's rule applies to a call with a fact as it is, and what the places that a rule
// names are called there (solver.h).
#include <llvm/IR/Constants.h>

#include "solver.h"

namespace lint {

Range Solver::allowed(const Condition& condition, unsigned width) {
  const llvm::APInt zero(width, 0), one(width, 1);
  const llvm::APInt least = llvm::APInt::getSignedMinValue(width);
  switch (condition.kind) {
    case Condition::Kind::kNull:
      return Range(zero);
    case Condition::Kind::kNonNull:
      return Range(one, zero);
    case Condition::Kind::kNegative:
      return Range(least, zero);
    case Condition::Kind::kNonNegative:
      return Range(zero, least);
    case Condition::Kind::kPositive:
      return Range(one, least);
    case Condition::Kind::kEqual:
      break;
  }
  return Range(llvm::APInt(width, static_cast<std::uint64_t>(condition.value), true));
}

// Whether the rule's `with` surely holds.
bool Solver::holds(const Rule& rule, const llvm::CallBase& call, const State& state) const {
  if (!rule.argument) return true;
  if (static_cast<unsigned>(rule.argument_index) >= call.arg_size()) return false;
  Known known = state.known;
  Reasoning reasoning(known, state.fact, property(state.fact).track);
  const auto range =
      reasoning.range(call.getArgOperand(static_cast<unsigned>(rule.argument_index)));
  return range && allowed(*rule.argument, range->getBitWidth()).contains(*range);
}

bool Solver::is_at(const Fact& fact, const Place& place, const llvm::CallBase& call,
                   const llvm::Value** which) const {
  const Property& p = property(fact);
  const int steps = place.stars - (p.track == Track::kContent ? 1 : 0);
  if (place.kind == Place::Kind::kReturn) return false;
  if (place.kind == Place::Kind::kGlobal) {
    const llvm::Value* variable = program_.module().getNamedValue(place.variable);
    return std::any_of(fact.names.begin(), fact.names.end(), [&](const Name& n) {
      return n.root == variable && n.kind == Name::Kind::kObject && n.steps == steps + 1;
    });
  }
  for (unsigned a = 0; a < call.arg_size(); ++a) {
    if (!place.covers(static_cast<int>(a)) && place.kind == Place::Kind::kArgument) continue;
    if (place.kind == Place::Kind::kOwned && static_cast<int>(a) != place.first) continue;
    const Address at = address(call.getArgOperand(a), fact);
    for (const Name& n : fact.names) {
      if (n.root != at.root) continue;
      if (which != nullptr) *which = call.getArgOperand(a);
      if (place.kind == Place::Kind::kOwned) {
        if (n.kind == Name::Kind::kOwner && n.steps == 0) return true;
        continue;
      }
      if (n.kind == Name::Kind::kPack && n.steps == 0 && offsets_meet(n.offsets[0], at.offset))
        return true;
      if (n.kind == Name::Kind::kScalar && steps < 0) return true;
      if (n.kind != Name::Kind::kObject || steps < 0) continue;
      if (steps == 0 && n.steps == 0 && fact.is_named(at, p.track)) return true;
      const std::int64_t there = at.offset == kAnyOffset ? kAnyOffset : at.offset + place.bytes;
      if (steps > 0 && n.steps == steps && offsets_meet(n.offsets[0], there)) return true;
    }
  }
  return false;
}

// The names of what a rule places there, with the bytes of content.
std::vector<std::pair<Name, std::int64_t>> Solver::names_at(const Property& p, const Place& place,
                                                            const llvm::CallBase& call) const {
  std::vector<std::pair<Name, std::int64_t>> out;
  Fact none;
  none.property = static_cast<std::uint16_t>(&p - properties_.data());
  const int steps = place.stars - (p.track == Track::kContent ? 1 : 0);
  const auto name = [&](const llvm::Value* v) {
    if (llvm::isa<llvm::ConstantData>(v)) return;
    const Address a = address(v, none);
    Name n{a.root, {a.offset}, static_cast<std::uint8_t>(std::max(steps, 0)), Name::Kind::kObject};
    if (steps < 0) n.kind = Name::Kind::kScalar;
    if (a.offset != kAnyOffset) n.offsets[0] += place.bytes;
    std::int64_t bytes = extent(v);
    for (const llvm::Value* other : call.args()) {  // a size that is more: all of the record
      const auto* size = llvm::dyn_cast<llvm::ConstantInt>(other);
      if (size != nullptr && size->getBitWidth() <= 64 && size->getSExtValue() > bytes) bytes = 0;
    }
    out.emplace_back(n, bytes);
  };
  if (place.kind == Place::Kind::kReturn) {
    if (!call.getType()->isVoidTy()) name(&call);
    return out;
  }
  if (place.kind == Place::Kind::kGlobal) {
    const llvm::Value* variable = program_.module().getNamedValue(place.variable);
    if (variable != nullptr && steps >= 0 && steps < kMostSteps) {
      out.emplace_back(Name{variable, {}, static_cast<std::uint8_t>(steps + 1)}, 0);
    }
    return out;
  }
  for (unsigned a = 0; a < call.arg_size(); ++a) {
    if (place.covers(static_cast<int>(a))) name(call.getArgOperand(a));
  }
  return out;
}

}  // namespace lint
