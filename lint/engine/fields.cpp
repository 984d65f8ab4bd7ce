// Which functions the fields of records hold (fields.h).
#include "fields.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

namespace lint {
namespace {

const llvm::MDNode* node(const llvm::MDNode* of, unsigned operand) {
  return operand < of->getNumOperands()
             ? llvm::dyn_cast_or_null<llvm::MDNode>(of->getOperand(operand).get())
             : nullptr;
}

std::uint64_t number(const llvm::MDNode* of, unsigned operand) {
  const auto* c = llvm::mdconst::dyn_extract<llvm::ConstantInt>(of->getOperand(operand));
  return c != nullptr ? c->getZExtValue() : 0;
}

const llvm::LoadInst* read_for(const llvm::CallBase& call) {
  return call.isIndirectCall()
             ? llvm::dyn_cast<llvm::LoadInst>(call.getCalledOperand()->stripPointerCasts())
             : nullptr;
}

}  // namespace

// The field of the innermost record that the access goes to, as the compiler noted its type.
Fields::Field Fields::field_of(const llvm::Instruction& access) {
  const llvm::MDNode* tag = access.getMetadata(llvm::LLVMContext::MD_tbaa);
  if (tag == nullptr || tag->getNumOperands() < 3) return {};
  const llvm::MDNode *record = node(tag, 0), *type = node(tag, 1);
  if (record == nullptr || type == nullptr || record == type) return {};
  std::uint64_t offset = number(tag, 2);
  for (;;) {
    unsigned within = 0;  // the field in which the offset lies
    for (unsigned at = 1; at + 1 < record->getNumOperands(); at += 2) {
      if (number(record, at + 1) <= offset) within = at;
    }
    const llvm::MDNode* inner = within != 0 ? node(record, within) : nullptr;
    if (inner == nullptr) return {};
    if (inner == type) break;
    offset -= number(record, within + 1);
    record = inner;
  }
  const auto* name = llvm::dyn_cast<llvm::MDString>(record->getOperand(0));
  return name != nullptr ? Field{name->getString().str(), offset} : Field{};
}

Fields::Fields(const llvm::Module& module) {
  for (const llvm::GlobalVariable& g : module.globals()) {
    if (g.hasInitializer()) initialise({}, g.getInitializer(), module.getDataLayout());
  }
  for (const llvm::Function& f : module) {
    for (const llvm::Instruction& i : llvm::instructions(f)) look_at(i);
  }
  wanted_.insert(kAnywhere);
  follow();
  spread();
}

void Fields::look_at(const llvm::Instruction& i) {
  if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i)) {
    const llvm::Value* value = store->getValueOperand();
    if (!value->getType()->isPointerTy()) return;
    const Field field = field_of(i);
    puts_[field.offset].emplace_back(field, value);
  } else if (const auto* call = llvm::dyn_cast<llvm::CallBase>(&i)) {
    if (const llvm::LoadInst* read = read_for(*call)) wanted_.insert(field_of(*read).offset);
  } else if (llvm::isa<llvm::AtomicCmpXchgInst, llvm::AtomicRMWInst, llvm::InsertValueInst,
                       llvm::PtrToIntInst>(i)) {
    for (const llvm::Value* operand : i.operands()) puts_[kAnywhere].emplace_back(Field{}, operand);
  }
}

// A record without a name may be laid out otherwise than the one it stands for.
void Fields::initialise(const Field& field, const llvm::Constant* value,
                        const llvm::DataLayout& layout) {
  if (value->getType()->isPointerTy()) {
    puts_[field.offset].emplace_back(field, value);
  } else if (const auto* record = llvm::dyn_cast<llvm::ConstantStruct>(value)) {
    llvm::StructType* type = record->getType();
    for (unsigned part = 0; part < record->getNumOperands(); ++part) {
      const std::uint64_t at = layout.getStructLayout(type)->getElementOffset(part);
      const Field inner = type->hasName() ? Field{type->getName().str(), at} : Field{};
      initialise(inner, record->getOperand(part), layout);
    }
  } else if (llvm::isa<llvm::ConstantArray, llvm::ConstantExpr>(value)) {
    for (const llvm::Use& part : value->operands())
      initialise({}, llvm::cast<llvm::Constant>(part.get()), layout);
  }
}

void Fields::add(const Field& field, const llvm::Value* value) {
  value = value->stripPointerCastsAndAliases();
  if (seen_.emplace(field, value).second) work_.emplace_back(field, value);
}

// From all that is put at offsets that are wanted to the functions that it is.
void Fields::follow() {
  std::set<std::uint64_t> done;
  for (bool more = true; more;) {
    more = false;
    for (const std::uint64_t offset : std::set<std::uint64_t>(wanted_)) {
      if (!done.insert(offset).second) continue;
      more = true;
      for (const auto& [field, value] : puts_[offset]) add(field, value);
    }
    while (!work_.empty()) {
      const auto [field, value] = work_.back();
      work_.pop_back();
      Held& held = held_[field];
      if (const auto* f = llvm::dyn_cast<llvm::Function>(value)) {
        held.functions.insert(f);
      } else if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(value)) {
        const Field from = field_of(*load);
        held.open |= from.offset == kAnywhere;
        if (from.offset != kAnywhere && held.from.insert(from).second) wanted_.insert(from.offset);
      } else if (llvm::isa<llvm::PHINode, llvm::SelectInst>(value)) {
        for (const llvm::Use& choice : llvm::cast<llvm::User>(value)->operands())
          if (choice->getType()->isPointerTy()) add(field, choice.get());
      } else if (const auto* argument = llvm::dyn_cast<llvm::Argument>(value)) {
        follow(field, *argument);
      } else if (!llvm::isa<llvm::Constant, llvm::AllocaInst, llvm::GetElementPtrInst>(value) &&
                 !llvm::isNoAliasCall(value)) {
        held.open = true;
      }
    }
  }
}

// Who calls a function that is only called gives what it puts there.
void Fields::follow(const Field& field, const llvm::Argument& argument) {
  const llvm::Function& f = *argument.getParent();
  bool known = !f.use_empty();
  for (const llvm::Use& use : f.uses()) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(use.getUser());
    const unsigned at = argument.getArgNo();
    if (call != nullptr && call->isCallee(&use) && at < call->arg_size())
      add(field, call->getArgOperand(at));
    else
      known = false;
  }
  held_[field].open |= !known;
}

void Fields::spread() {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto& [field, held] : held_) {
      for (const Field& from : held.from) {
        const auto other = held_.find(from);
        if (other == held_.end() || &other->second == &held) continue;
        const std::size_t before = held.functions.size();
        held.functions.insert(other->second.functions.begin(), other->second.functions.end());
        changed |= held.functions.size() != before || (other->second.open && !held.open);
        held.open |= other->second.open;
      }
    }
  }
  for (const auto& [field, held] : held_)
    by_offset_[field.offset].insert(held.functions.begin(), held.functions.end());
}

bool Fields::may_hold(const llvm::CallBase& call, const llvm::Function& f) const {
  const llvm::LoadInst* read = read_for(call);
  const Field field = read != nullptr ? field_of(*read) : Field{};
  if (field.offset == kAnywhere) return true;
  const auto held = held_.find(field);
  if (held != held_.end() && held->second.open) return true;
  const auto is_at = [&](std::uint64_t offset) {
    const auto there = by_offset_.find(offset);
    return there != by_offset_.end() && there->second.contains(&f);
  };
  return is_at(field.offset) || is_at(kAnywhere);
}

}  // namespace lint
