// Fields that say of another field of their record what it holds and whose that is: flags, kinds,
// counts; and variables that mark something by their address (solver.h).
#include <llvm/Analysis/ConstantFolding.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Operator.h>

#include "solver.h"

namespace lint {
namespace {

constexpr int kMostAbove = 16;  // branches above a place
constexpr int kMostParts = 6;   // of a condition, one in the other

// Where the number lies that the condition reads: in the same record as the field, beside it, and
// not known there. kAnyOffset: it reads none.
std::int64_t mark(const llvm::Value* v, Address field, const Known& known,
                  const llvm::DataLayout& layout, int depth = kMostParts) {
  if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(v)) {
    const Address a = address_of(load->getPointerOperand(), layout);
    const bool marks = load->getType()->isIntegerTy() && a.root == field.root &&
                       a.offset != field.offset &&
                       !llvm::isa_and_nonnull<llvm::ConstantInt>(known.cell(a));
    return marks ? a.offset : kAnyOffset;
  }
  if (depth == 0 || !llvm::isa<llvm::ICmpInst, llvm::BinaryOperator, llvm::CastInst,
                               llvm::SelectInst, llvm::FreezeInst>(v)) {
    return kAnyOffset;
  }
  for (const llvm::Use& part : llvm::cast<llvm::Instruction>(v)->operands()) {
    const std::int64_t found = mark(part.get(), field, known, layout, depth - 1);
    if (found != kAnyOffset) return found;
  }
  return kAnyOffset;
}

// Whether the field is a member of a union, by the type through which its record is reached.
bool is_member(Address field, const Unions& unions, const llvm::DataLayout& layout) {
  return field.offset >= 0 && llvm::any_of(field.root->users(), [&](const llvm::User* user) {
           const auto* gep = llvm::dyn_cast<llvm::GEPOperator>(user);
           return gep != nullptr && gep->getPointerOperand() == field.root &&
                  unions.has_at(gep->getSourceElementType(),
                                static_cast<std::uint64_t>(field.offset), layout);
         });
}

// Whether only the variable's address is spoken of.
bool is_only_a_mark(const llvm::GlobalVariable& variable) {
  return llvm::all_of(variable.users(), [&](const llvm::User* user) {
    const auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
    return (store != nullptr && store->getPointerOperand() != &variable) ||
           llvm::isa<llvm::ICmpInst, llvm::PHINode, llvm::SelectInst, llvm::ReturnInst>(user);
  });
}

}  // namespace

// Where the number lies that decides whether what was read from a field gets to the place: another
// field of the record, which is not known. A record that borrows a text says so there; that it does
// is seldom followed. kAnyOffset: there is none.
std::int64_t Solver::mark_of(const llvm::Value* value, const llvm::Instruction& at,
                             const Known& known) {
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(value->stripPointerCasts());
  if (load == nullptr || load->getFunction() != at.getFunction()) return kAnyOffset;
  const Address field = address_of(load->getPointerOperand(), memory_.layout());
  if (field.offset == kAnyOffset) return kAnyOffset;
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
    if (condition == nullptr) continue;
    const std::int64_t found = mark(condition, field, known, memory_.layout());
    if (found != kAnyOffset) return found;
  }
  return kAnyOffset;
}

// Whether two calls take members of one union that lie at the same place, each under a mark of its
// own. A guess: such marks say which member the record has, and it has one.
// `if (r->n) free(r->u.a); if (r->m) free(r->u.b);`
bool Solver::are_members(const llvm::Instruction* begin, const llvm::Instruction* end) {
  const auto* first = llvm::dyn_cast_or_null<llvm::CallBase>(begin);
  const auto* second = llvm::dyn_cast_or_null<llvm::CallBase>(end);
  if (first == nullptr || second == nullptr || first->getFunction() != second->getFunction())
    return false;
  const auto field = [&](const llvm::Value* v) {
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(v->stripPointerCasts());
    return load != nullptr ? address_of(load->getPointerOperand(), memory_.layout()) : Address{};
  };
  for (const llvm::Value* a : first->args()) {
    const Address here = field(a);
    if (here.root == nullptr || !is_member(here, program_.unions(), memory_.layout())) continue;
    for (const llvm::Value* b : second->args()) {
      const Address there = field(b);
      if (there.root != here.root || there.offset != here.offset) continue;
      const std::int64_t one = mark_of(a, *first, {}), other = mark_of(b, *second, {});
      if (one != kAnyOffset && other != kAnyOffset && one != other) return true;
    }
  }
  return false;
}

// What a variable that is the object held when the program began, if it holds it still: nothing
// writes to it by its name, and all that anybody asks of it is its address.
std::optional<Range> Solver::first_held(const Fact& fact, const llvm::LoadInst& load,
                                        Address from) const {
  const auto width = full_range(load.getType());
  if (!width || property(fact).track != Track::kObject || from.offset == kAnyOffset)
    return std::nullopt;
  const llvm::GlobalVariable* mark = nullptr;
  std::int64_t begin = 0;  // of what is named so
  const Name* here = nullptr;
  for (const Name& n : fact.names) {
    if (n.steps != 0 || n.kind != Name::Kind::kObject || n.offsets[0] == kAnyOffset) continue;
    if (const auto* g = llvm::dyn_cast<llvm::GlobalVariable>(n.root)) {
      mark = g;
      begin = n.offsets[0];
    }
    if (n.root == from.root) here = &n;
  }
  if (mark == nullptr || here == nullptr || !mark->hasInitializer() || !is_only_a_mark(*mark))
    return std::nullopt;
  const llvm::APInt at(64, static_cast<std::uint64_t>(begin + from.offset - here->offsets[0]),
                       true);
  const llvm::Constant* held = llvm::ConstantFoldLoadFromConst(
      const_cast<llvm::Constant*>(mark->getInitializer()), load.getType(), at, memory_.layout());
  if (const auto* number = llvm::dyn_cast_or_null<llvm::ConstantInt>(held))
    return Range(number->getValue());
  if (held != nullptr && held->isNullValue()) return Range(llvm::APInt(width->getBitWidth(), 0));
  return std::nullopt;
}

// The parameter that the value is; -1.
int Solver::parameter(const llvm::Value* value) {
  const auto* a =
      value != nullptr ? llvm::dyn_cast<llvm::Argument>(value->stripPointerCasts()) : nullptr;
  return a != nullptr ? static_cast<int>(a->getArgNo()) : -1;
}

}  // namespace lint
