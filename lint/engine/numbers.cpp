// Descriptors as numbers (numbers.h).
#include "numbers.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>

namespace lint {
namespace {

constexpr int kDeepest = 2;  // calls below

// Whether the call, or one below, closes what `closes` says.
template <typename Closes>
bool calls(const llvm::CallBase& call, const Closes& closes, int depth) {
  const llvm::Function* to = call.getCalledFunction();
  if (to == nullptr) return false;
  if (to->isDeclaration()) return closes(call, to->getName());
  return depth > 0 && llvm::any_of(llvm::instructions(*to), [&](const llvm::Instruction& i) {
           const auto* below = llvm::dyn_cast<llvm::CallBase>(&i);
           return below != nullptr && calls(*below, closes, depth - 1);
         });
}

bool is_in_turn(const llvm::CallBase& call, llvm::StringRef name) {
  if (name == "closefrom" || name == "close_range") return true;
  const auto* counted =
      name == "close" ? llvm::dyn_cast<llvm::PHINode>(call.getArgOperand(0)) : nullptr;
  return counted != nullptr && llvm::any_of(counted->incoming_values(), [](const llvm::Use& in) {
           return llvm::isa<llvm::BinaryOperator>(in.get());
         });
}

}  // namespace

bool asks_which(const llvm::ICmpInst& cmp) {
  const auto* number = llvm::dyn_cast<llvm::ConstantInt>(cmp.getOperand(1));
  if (number == nullptr) return true;
  const std::int64_t n = number->getSExtValue();
  return n > 0 || (n == 0 && cmp.isEquality());
}

bool closes_in_turn(const llvm::CallBase& call) { return calls(call, is_in_turn, kDeepest); }

bool frees_standard(const llvm::Function& f) {
  const auto frees = [](const llvm::CallBase& call, llvm::StringRef name) {
    return is_in_turn(call, name) ||
           (name == "close" && llvm::isa<llvm::ConstantInt>(call.getArgOperand(0)));
  };
  return llvm::any_of(llvm::instructions(f), [&](const llvm::Instruction& i) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    return call != nullptr && calls(*call, frees, kDeepest);
  });
}

}  // namespace lint
