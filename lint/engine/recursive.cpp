// Locks that who has them may take again: mutexes made recursive; and who may take any (solver.h).
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>

#include "solver.h"

namespace lint {
namespace {

constexpr unsigned kKind = 4;             // the field of glibc's mutex that says so
constexpr unsigned kRecursive = 1;        // PTHREAD_MUTEX_RECURSIVE
constexpr std::size_t kMostTargets = 16;  // of a call; with more, its function counts as changing

bool is_recursive(const llvm::Value* v) {
  const auto* number = llvm::dyn_cast<llvm::ConstantInt>(v);
  return number != nullptr && number->getValue() == kRecursive;
}

}  // namespace

Bits Solver::find_recursive() const {
  Bits out, attributes;
  const llvm::Module& module = program_.module();
  if (const llvm::Function* f = module.getFunction("pthread_mutexattr_settype"); f != nullptr) {
    for (const llvm::User* user : f->users()) {
      const auto* call = llvm::dyn_cast<llvm::CallBase>(user);
      if (call == nullptr || call->arg_size() < 2 || !is_recursive(call->getArgOperand(1)))
        continue;
      const Bits cells = memory_.cells_of(call->getArgOperand(0));
      if (!cells.test(kAnywhere)) attributes.merge(cells);
    }
  }
  if (const llvm::Function* f = module.getFunction("pthread_mutex_init"); f != nullptr) {
    for (const llvm::User* user : f->users()) {
      const auto* call = llvm::dyn_cast<llvm::CallBase>(user);
      if (call == nullptr || call->arg_size() < 2) continue;
      const Bits locks = memory_.cells_of(call->getArgOperand(0));
      if (!locks.test(kAnywhere) && memory_.cells_of(call->getArgOperand(1)).intersects(attributes))
        out.merge(locks);
    }
  }
  for (const llvm::GlobalVariable& g : module.globals()) {
    if (!g.hasInitializer()) continue;
    const llvm::Constant* fields = g.getInitializer()->getAggregateElement(0u);
    const llvm::Constant* kind = fields != nullptr ? fields->getAggregateElement(kKind) : nullptr;
    const auto* type = llvm::dyn_cast<llvm::StructType>(g.getValueType());
    const bool mutex =
        type != nullptr && type->hasName() && type->getName().starts_with("union.pthread_mutex_t");
    if (mutex && kind != nullptr && is_recursive(kind)) out.merge(memory_.cells_of(&g));
  }
  return out;
}

// Whether a call of the function may reach one that a rule gives a state to.
bool Solver::changes(std::size_t property, const llvm::Function& f) {
  const auto [entry, fresh] = changing_.try_emplace(property);
  std::set<const llvm::Function*>& changing = entry->second;
  if (!fresh) return changing.contains(&f);
  std::map<const llvm::Function*, std::vector<const llvm::Function*>> callers;
  std::vector<const llvm::Function*> next;
  const auto add = [&](const llvm::Function* one) {
    if (changing.insert(one).second) next.push_back(one);
  };
  for (const auto& [called, rules] : rules_[property]) {
    const auto gives = [](const Rule* rule) { return rule->kind == Rule::Kind::kProduce; };
    if (std::any_of(rules.begin(), rules.end(), gives)) add(called);
  }
  for (const llvm::Function& caller : program_.module()) {
    for (const llvm::Instruction& i : llvm::instructions(caller)) {
      const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
      if (call == nullptr) continue;
      if (const llvm::Function* called = call->getCalledFunction(); called != nullptr) {
        callers[called].push_back(&caller);
        continue;
      }
      const Functions& targets = memory_.callees(*call);
      if (targets.size() > kMostTargets) add(&caller);
      for (const llvm::Function* target : targets) callers[target].push_back(&caller);
    }
  }
  while (!next.empty()) {
    const llvm::Function* one = next.back();
    next.pop_back();
    for (const llvm::Function* caller : callers[one]) add(caller);
  }
  return changing.contains(&f);
}

}  // namespace lint
