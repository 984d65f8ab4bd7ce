// Fields that say of another field of their record what it holds and whose that is: flags, kinds,
// counts (solver.h).
#include <llvm/IR/Operator.h>

#include "solver.h"

namespace lint {
namespace {

constexpr int kMostAbove = 16;  // branches above a place
constexpr int kMostParts = 6;   // of a condition, one in the other

// Whether the condition reads a number that lies in the same record as the field, beside it, and
// that is not known there.
bool asks(const llvm::Value* v, Address field, const Known& known, const llvm::DataLayout& layout,
          int depth = kMostParts) {
  if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(v)) {
    const Address a = address_of(load->getPointerOperand(), layout);
    return load->getType()->isIntegerTy() && a.root == field.root && a.offset != kAnyOffset &&
           a.offset != field.offset && !llvm::isa_and_nonnull<llvm::ConstantInt>(known.cell(a));
  }
  if (depth == 0 || !llvm::isa<llvm::ICmpInst, llvm::BinaryOperator, llvm::CastInst,
                               llvm::SelectInst, llvm::FreezeInst>(v)) {
    return false;
  }
  return llvm::any_of(llvm::cast<llvm::Instruction>(v)->operands(), [&](const llvm::Use& part) {
    return asks(part.get(), field, known, layout, depth - 1);
  });
}

}  // namespace

// Whether what was read from a field gets to the place only if another field of the record, which
// is not known, allows it. A record that borrows a text says so there; that it does is seldom
// followed.
bool Solver::is_marked(const llvm::Value* value, const llvm::Instruction& at, const Known& known) {
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(value->stripPointerCasts());
  if (load == nullptr || load->getFunction() != at.getFunction()) return false;
  const Address field = address_of(load->getPointerOperand(), memory_.layout());
  if (field.offset == kAnyOffset) return false;
  const llvm::DominatorTree& tree = dominators(*at.getFunction());
  const auto* node = tree.getNode(at.getParent());
  for (int above = 0; node != nullptr && above < kMostAbove; ++above) {
    const llvm::BasicBlock* here = node->getBlock();
    node = node->getIDom();
    if (node == nullptr) break;
    // Branches behind which the ways meet again decide nothing.
    const llvm::Instruction* end = node->getBlock()->getTerminator();
    if (here->getUniquePredecessor() != node->getBlock()) continue;
    const auto* br = llvm::dyn_cast<llvm::BranchInst>(end);
    const auto* sw = llvm::dyn_cast<llvm::SwitchInst>(end);
    const llvm::Value* condition = nullptr;
    if (br != nullptr && br->isConditional()) condition = br->getCondition();
    if (sw != nullptr) condition = sw->getCondition();
    if (condition != nullptr && asks(condition, field, known, memory_.layout())) return true;
  }
  return false;
}

// The parameter that the value is; -1.
int Solver::parameter(const llvm::Value* value) {
  const auto* a =
      value != nullptr ? llvm::dyn_cast<llvm::Argument>(value->stripPointerCasts()) : nullptr;
  return a != nullptr ? static_cast<int>(a->getArgNo()) : -1;
}

}  // namespace lint
