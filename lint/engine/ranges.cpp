// Ranges over a path (ranges.h).
#include "ranges.h"

#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Operator.h>

#include <algorithm>

namespace lint {
namespace {

using Op = llvm::Instruction;

Range boolean(bool b) { return Range(llvm::APInt(1, b ? 1 : 0)); }

const llvm::Value* unwrap(const llvm::Value* v) {
  for (;;) {
    if (const auto* freeze = llvm::dyn_cast<llvm::FreezeInst>(v))
      v = freeze->getOperand(0);
    else if (const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(v);
             call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::expect)
      v = call->getArgOperand(0);
    else
      return v;
  }
}

}  // namespace

std::optional<Range> full_range(const llvm::Type* type) {
  if (type->isPointerTy()) return Range::getFull(64);
  if (type->isIntegerTy() && type->getIntegerBitWidth() <= 64) {
    return Range::getFull(type->getIntegerBitWidth());
  }
  return std::nullopt;
}

bool Reasoning::is_object(const llvm::Value* v) const {
  for (const Name& n : fact_.names) {
    if (n.root == v && n.steps == 0 && n.offsets[0] == 0 && n.kind == Name::Kind::kObject) {
      return true;
    }
  }
  return false;
}

// How far into the object the pointer leads, if that is known.
std::optional<std::int64_t> Reasoning::position(const llvm::Value* v) const {
  const auto* i = llvm::dyn_cast<llvm::Instruction>(v);
  const auto* parameter = llvm::dyn_cast<llvm::Argument>(v);
  if (i == nullptr && parameter == nullptr) return std::nullopt;
  const llvm::Module* module = i != nullptr ? i->getModule() : parameter->getParent()->getParent();
  const Address a = address_of(v, module->getDataLayout());
  for (const Name& n : fact_.names) {
    if (n.root == a.root && n.steps == 0 && n.kind == Name::Kind::kObject &&
        n.offsets[0] != kAnyOffset && a.offset != kAnyOffset) {
      return a.offset - n.offsets[0];
    }
  }
  return std::nullopt;
}

// Whether it was read from a variable of a library's: stdin, stdout, stderr.
static bool is_librarys(const llvm::Value* v) {
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(unwrap(v));
  if (load == nullptr) return false;
  const auto* g = llvm::dyn_cast<llvm::GlobalVariable>(load->getPointerOperand());
  return g != nullptr && g->isDeclaration();
}

// Whether it is the place of a field, not the first, of something that is not the object.
static bool is_within(const llvm::Value* v) {
  const auto* i = llvm::dyn_cast<llvm::Instruction>(v);
  if (i == nullptr) return false;
  const Address a = address_of(v, i->getModule()->getDataLayout());
  return llvm::isa<llvm::GEPOperator>(v) && a.offset != kAnyOffset && a.offset > 0;
}

// What the same comparison said before: that a number is none of those between, no range says.
std::optional<Range> Reasoning::compared(const llvm::ICmpInst& cmp) const {
  const llvm::Value *a = cmp.getOperand(0), *b = cmp.getOperand(1);
  if (llvm::isa<llvm::Constant>(a) || a->hasNUsesOrMore(kMostUsers)) return std::nullopt;
  for (const llvm::User* user : a->users()) {
    const auto* other = llvm::dyn_cast<llvm::ICmpInst>(user);
    if (other == nullptr || other->getOperand(0) != a || other->getOperand(1) != b) continue;
    const bool same = other->getPredicate() == cmp.getPredicate();
    if (!same && other->getPredicate() != cmp.getInversePredicate()) continue;
    const auto known = known_.find(other);
    if (known && known->isSingleElement())
      return boolean(known->getSingleElement()->isOne() == same);
  }
  return std::nullopt;
}

std::optional<Range> Reasoning::compare(const llvm::ICmpInst& cmp, int depth) const {
  const auto left = range(cmp.getOperand(0), depth - 1);
  const auto right = range(cmp.getOperand(1), depth - 1);
  if (!left || !right) return Range::getFull(1);
  if (left->icmp(cmp.getPredicate(), *right)) return boolean(true);
  if (left->icmp(cmp.getInversePredicate(), *right)) return boolean(false);
  if (const auto before = compared(cmp)) return before;
  const llvm::Value *a = cmp.getOperand(0), *b = cmp.getOperand(1);
  if (!a->getType()->isPointerTy() || !cmp.isEquality()) return Range::getFull(1);
  const bool equal = cmp.getPredicate() == llvm::CmpInst::ICMP_EQ;
  if (is_object(a) && is_object(b)) return boolean(equal);
  const auto left_at = position(a), right_at = position(b);
  if (left_at && right_at) return boolean((*left_at == *right_at) == equal);
  // What was made for itself does not begin within something else.
  if (track_ == Track::kObject &&
      ((is_object(a) && is_within(b)) || (is_object(b) && is_within(a))))
    return boolean(!equal);
  // What the program made is not what a library had before.
  if ((is_object(a) && is_librarys(b)) || (is_object(b) && is_librarys(a))) return boolean(!equal);
  return Range::getFull(1);
}

// What other bits of the same number say of those: what they were when they were asked before; none
// of many is set, so none of these is; or one of a few is.
std::optional<Range> Reasoning::bits(const llvm::Value* flags,
                                     const llvm::ConstantInt& mask) const {
  if (llvm::isa<llvm::Constant>(flags) || flags->hasNUsesOrMore(kMostUsers)) return std::nullopt;
  const llvm::APInt zero(mask.getBitWidth(), 0);
  for (const llvm::User* user : flags->users()) {
    const auto* others = llvm::dyn_cast<llvm::BinaryOperator>(user);
    if (others == nullptr || others->getOpcode() != Op::And || others->getOperand(0) != flags)
      continue;
    const auto* asked = llvm::dyn_cast<llvm::ConstantInt>(others->getOperand(1));
    const auto known = asked != nullptr ? known_.find(others) : std::nullopt;
    if (!known) continue;
    if (asked->getValue() == mask.getValue()) return known;
    if (known->isSingleElement() && known->contains(zero) &&
        mask.getValue().isSubsetOf(asked->getValue())) {
      return Range(zero);
    }
    if (!known->contains(zero) && asked->getValue().isSubsetOf(mask.getValue()))
      return Range(zero).inverse();
  }
  return std::nullopt;
}

// errno, which is read after something has failed.
static bool is_errno(const llvm::Value* v) {
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(v);
  if (load == nullptr || !load->getType()->isIntegerTy(32)) return false;
  const auto* call = llvm::dyn_cast<llvm::CallBase>(load->getPointerOperand());
  const llvm::Function* f = call != nullptr ? call->getCalledFunction() : nullptr;
  return f != nullptr && f->getName() == "__errno_location";
}

std::optional<Range> Reasoning::range(const llvm::Value* v, int depth) const {
  v = unwrap(v);
  const auto full = full_range(v->getType());
  if (!full) return full;
  if (const auto* c = llvm::dyn_cast<llvm::ConstantInt>(v)) return Range(c->getValue());
  if (llvm::isa<llvm::ConstantPointerNull>(v)) return Range(llvm::APInt(64, 0));
  const Range nonnull = Range(llvm::APInt(64, 1), llvm::APInt(64, 0));
  if (v->getType()->isPointerTy()) {
    if (llvm::isa<llvm::AllocaInst, llvm::GlobalVariable, llvm::Function>(v) || is_object(v)) {
      return nonnull;
    }
  } else if (track_ == Track::kObject && is_object(v)) {
    const unsigned width = full->getBitWidth();
    if (width > 1) return Range(llvm::APInt(width, 0), llvm::APInt::getSignedMinValue(width));
  }
  if (const auto found = known_.find(v)) return found;
  if (const auto* call = llvm::dyn_cast<llvm::CallBase>(v); call != nullptr) {
    if (v->getType()->isPointerTy() && call->isReturnNonNull()) return nonnull;
    if (const auto returned = call->getRange()) return returned;  // returns.h
  }
  if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(v); load != nullptr) {
    // A `bool` is 0 or 1.
    if (const auto* range = load->getMetadata(llvm::LLVMContext::MD_range))
      return llvm::getConstantRangeFromMetadata(*range);
  }
  if (is_errno(v)) return Range(llvm::APInt(32, 1), llvm::APInt::getSignedMinValue(32));
  if (depth == 0) return full;
  if (const auto* cmp = llvm::dyn_cast<llvm::ICmpInst>(v)) return compare(*cmp, depth);
  if (const auto* gep = llvm::dyn_cast<llvm::GEPOperator>(v)) {
    // A field of something is not null, whatever null plus some bytes might be.
    const auto base = range(gep->getPointerOperand(), depth - 1);
    if (gep->hasAllZeroIndices()) return base;
    return nonnull;
  }
  if (const auto* cast = llvm::dyn_cast<llvm::CastInst>(v)) {
    const auto inner = range(cast->getOperand(0), depth - 1);
    if (!inner) return full;
    const unsigned width = full->getBitWidth();
    switch (cast->getOpcode()) {
      case Op::ZExt:
        return inner->zeroExtend(width);
      case Op::SExt:
        return inner->signExtend(width);
      case Op::Trunc:
        return inner->truncate(width);
      case Op::PtrToInt:
      case Op::IntToPtr:
      case Op::BitCast:
        return inner->getBitWidth() == width ? *inner : *full;
      default:
        return full;
    }
  }
  if (const auto* select = llvm::dyn_cast<llvm::SelectInst>(v)) {
    const auto condition = range(select->getCondition(), depth - 1);
    if (!condition) return full;
    const auto yes = range(select->getTrueValue(), depth - 1);
    const auto no = range(select->getFalseValue(), depth - 1);
    if (condition->isSingleElement()) return condition->getSingleElement()->isOne() ? yes : no;
    return yes->unionWith(*no);
  }
  if (const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(v)) {
    const auto left = range(op->getOperand(0), depth - 1);
    const auto right = range(op->getOperand(1), depth - 1);
    if (!left || !right || (left->isFullSet() && right->isFullSet())) return full;
    const auto* mask = llvm::dyn_cast<llvm::ConstantInt>(op->getOperand(1));
    if (const auto asked = op->getOpcode() == Op::And && mask != nullptr
                               ? bits(op->getOperand(0), *mask)
                               : std::nullopt) {
      return asked;
    }
    switch (op->getOpcode()) {
      case Op::And:
      case Op::Or:
      case Op::Xor:
      case Op::Add:
      case Op::Sub:
        return left->binaryOp(op->getOpcode(), *right);
      default:
        return full;
    }
  }
  return full;
}

bool Reasoning::constrain(const llvm::Value* v, const Range& wanted, int depth) {
  v = unwrap(v);
  const auto now = range(v);
  if (!now) return true;
  const Range both = now->intersectWith(wanted);
  if (both.isEmptySet()) return false;
  if (llvm::isa<llvm::Constant>(v)) return true;
  if (both != *now || !known_.find(v)) known_.set(v, both);
  if (depth == 0) return true;
  const llvm::APInt zero(wanted.getBitWidth(), 0);
  if (const auto* cast = llvm::dyn_cast<llvm::CastInst>(v)) {
    const llvm::Value* inner = cast->getOperand(0);
    const auto narrow = full_range(inner->getType());
    if (!narrow) return true;
    if (cast->getOpcode() == Op::ZExt || cast->getOpcode() == Op::SExt) {
      if (narrow->getBitWidth() == 1) {
        if (!both.contains(zero)) return assume(inner, true, depth - 1);
        if (both.isSingleElement()) return assume(inner, false, depth - 1);
        return true;
      }
      const Range wide = cast->getOpcode() == Op::ZExt ? narrow->zeroExtend(both.getBitWidth())
                                                       : narrow->signExtend(both.getBitWidth());
      const Range fit = both.intersectWith(wide);
      if (fit.isEmptySet()) return false;
      return constrain(inner, fit.truncate(narrow->getBitWidth()), depth - 1);
    }
    if (cast->isNoopCast(llvm::DataLayout("")) || cast->getOpcode() == Op::PtrToInt ||
        cast->getOpcode() == Op::IntToPtr) {
      return narrow->getBitWidth() != both.getBitWidth() || constrain(inner, both, depth - 1);
    }
  } else if (v->getType()->isIntegerTy(1) && both.isSingleElement()) {
    return assume(v, both.getSingleElement()->isOne(), depth - 1);
  } else if (const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(v)) {
    const auto* step = llvm::dyn_cast<llvm::ConstantInt>(op->getOperand(1));
    if (step != nullptr && op->getOpcode() == Op::Add) {
      return constrain(op->getOperand(0), both.subtract(step->getValue()), depth - 1);
    }
  } else if (const auto* gep = llvm::dyn_cast<llvm::GEPOperator>(v)) {
    if (gep->hasAllZeroIndices()) return constrain(gep->getPointerOperand(), both, depth - 1);
  } else if (const auto* select = llvm::dyn_cast<llvm::SelectInst>(v)) {
    const auto yes = range(select->getTrueValue());
    const auto no = range(select->getFalseValue());
    if (yes && yes->intersectWith(both).isEmptySet()) {
      return assume(select->getCondition(), false, depth - 1);
    }
    if (no && no->intersectWith(both).isEmptySet()) {
      return assume(select->getCondition(), true, depth - 1);
    }
  }
  return true;
}

bool Reasoning::assume(const llvm::Value* condition, bool truth, int depth) {
  condition = unwrap(condition);
  if (const auto now = range(condition); now && now->isSingleElement()) {
    return now->getSingleElement()->isOne() == truth;
  }
  if (depth == 0 || llvm::isa<llvm::Constant>(condition)) return true;
  known_.set(condition, boolean(truth));
  if (const auto* cmp = llvm::dyn_cast<llvm::ICmpInst>(condition)) {
    const auto predicate = truth ? cmp->getPredicate() : cmp->getInversePredicate();
    const auto left = range(cmp->getOperand(0));
    const auto right = range(cmp->getOperand(1));
    if (!left || !right) return true;
    const auto swapped = llvm::CmpInst::getSwappedPredicate(predicate);
    return constrain(cmp->getOperand(0), Range::makeAllowedICmpRegion(predicate, *right),
                     depth - 1) &&
           constrain(cmp->getOperand(1), Range::makeAllowedICmpRegion(swapped, *left), depth - 1);
  }
  if (const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(condition)) {
    if (op->getOpcode() == Op::Xor) {
      const auto* one = llvm::dyn_cast<llvm::ConstantInt>(op->getOperand(1));
      return one == nullptr || !one->isOne() || assume(op->getOperand(0), !truth, depth - 1);
    }
    if ((op->getOpcode() == Op::And && truth) || (op->getOpcode() == Op::Or && !truth)) {
      return assume(op->getOperand(0), truth, depth - 1) &&
             assume(op->getOperand(1), truth, depth - 1);
    }
    return true;
  }
  if (const auto* select = llvm::dyn_cast<llvm::SelectInst>(condition)) {
    const auto* yes = llvm::dyn_cast<llvm::ConstantInt>(select->getTrueValue());
    const auto* no = llvm::dyn_cast<llvm::ConstantInt>(select->getFalseValue());
    if (no != nullptr && no->isZero() && truth) {
      return assume(select->getCondition(), true, depth - 1) &&
             assume(select->getTrueValue(), true, depth - 1);
    }
    if (yes != nullptr && yes->isOne() && !truth) {
      return assume(select->getCondition(), false, depth - 1) &&
             assume(select->getFalseValue(), false, depth - 1);
    }
    return true;
  }
  if (const auto* cast = llvm::dyn_cast<llvm::TruncInst>(condition)) {
    const auto inner = range(cast->getOperand(0));
    if (inner && inner->getUnsignedMax().ule(1)) {
      return constrain(cast->getOperand(0), Range(llvm::APInt(inner->getBitWidth(), truth ? 1 : 0)),
                       depth - 1);
    }
  }
  return true;
}

}  // namespace lint
