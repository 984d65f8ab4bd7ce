// Locks that who has them may take again: mutexes made recursive (solver.h).
#include <llvm/IR/Constants.h>

#include "solver.h"

namespace lint {
namespace {

constexpr unsigned kKind = 4;       // the field of glibc's mutex that says so
constexpr unsigned kRecursive = 1;  // PTHREAD_MUTEX_RECURSIVE

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

}  // namespace lint
