// Which functions the fields of records hold (fields.h).
#include "fields.h"

#include <llvm/ADT/StringExtras.h>
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

// What a name says of a type: linking adds a number to the second of two.
llvm::StringRef plain(const llvm::StructType& type) {
  const llvm::StringRef whole = type.hasName() ? type.getName() : "";
  const auto [name, last] = whole.rsplit('.');
  return !last.empty() && llvm::all_of(last, llvm::isDigit) ? name : whole;
}

// The record that a step leads into, and the bytes; null: none that is known.
const llvm::StructType* stepped_into(const llvm::GEPOperator& step, const llvm::DataLayout& layout,
                                     std::uint64_t& bytes) {
  const auto* type = llvm::dyn_cast<llvm::StructType>(step.getSourceElementType());
  const auto* global = llvm::dyn_cast<llvm::GlobalVariable>(step.getPointerOperand());
  if (type == nullptr && global != nullptr)  // a constant step counts bytes
    type = llvm::dyn_cast<llvm::StructType>(global->getValueType());
  llvm::APInt offset(64, 0);
  if (type == nullptr || !type->hasName() || !step.accumulateConstantOffset(layout, offset))
    return nullptr;
  bytes = offset.getZExtValue();
  return type;
}

bool has_pointer(const llvm::Type& type) {
  return type.isPointerTy() || (type.isArrayTy() && has_pointer(*type.getArrayElementType()));
}

}  // namespace

// The fields that the access goes to, from the outermost record that the compiler noted inwards: a
// record may stand for one that begins alike anywhere in between.
Fields::Path Fields::path_of(const llvm::Instruction& access) {
  const llvm::MDNode* tag = access.getMetadata(llvm::LLVMContext::MD_tbaa);
  if (tag == nullptr || tag->getNumOperands() < 3) return {};
  const llvm::MDNode *record = node(tag, 0), *type = node(tag, 1);
  if (record == nullptr || type == nullptr || record == type) return {};
  std::uint64_t offset = number(tag, 2);
  Path path;
  for (;;) {
    const auto* name = llvm::dyn_cast<llvm::MDString>(record->getOperand(0));
    path.push_back({name != nullptr ? name->getString().str() : std::string(), offset});
    unsigned within = 0;  // the field in which the offset lies
    for (unsigned at = 1; at + 1 < record->getNumOperands(); at += 2) {
      if (number(record, at + 1) <= offset) within = at;
    }
    const llvm::MDNode* inner = within != 0 ? node(record, within) : nullptr;
    if (inner == nullptr) return {};
    if (inner == type) return path;
    offset -= number(record, within + 1);
    record = inner;
  }
}

Fields::Fields(const llvm::Module& module) : layout_(module.getDataLayout()) {
  for (const llvm::Function& f : module) {
    for (const llvm::Instruction& i : llvm::instructions(f)) look_for_escapes(i);
  }
  for (const llvm::GlobalVariable& g : module.globals()) {
    if (g.hasInitializer()) initialise({}, g.getInitializer());
  }
  for (const llvm::Function& f : module) {
    for (const llvm::Instruction& i : llvm::instructions(f)) look_at(i);
  }
  wanted_.insert(kAnywhere);
  follow();
  spread();
}

// From a field on whose address is handed on a record may lie that is known by another name, or be
// copied to. What a pointer to the record within leads to is known by that record's.
void Fields::look_for_escapes(const llvm::Instruction& i) {
  for (const llvm::Use& use : i.operands()) {
    const auto* step = llvm::dyn_cast<llvm::GEPOperator>(use.get());
    const bool accessed = llvm::isa<llvm::LoadInst, llvm::ICmpInst, llvm::GetElementPtrInst>(i) ||
                          (llvm::isa<llvm::StoreInst>(i) &&
                           use.getOperandNo() == llvm::StoreInst::getPointerOperandIndex());
    if (step != nullptr && !accessed) escape(*step, llvm::dyn_cast<llvm::MemTransferInst>(&i));
  }
}

void Fields::escape(const llvm::GEPOperator& step, const llvm::MemTransferInst* copy) {
  std::uint64_t bytes = 0;
  const llvm::StructType* type = stepped_into(step, layout_, bytes);
  if (type == nullptr || bytes == 0) return;
  llvm::Type* field = step.getResultElementType();
  const bool is_counted = step.getSourceElementType() != type;  // in bytes: it may be any field
  bool more = is_counted || has_pointer(*field);
  if (copy != nullptr) {
    const auto* length = llvm::dyn_cast<llvm::ConstantInt>(copy->getLength());
    more |= length == nullptr || length->getZExtValue() > layout_.getTypeAllocSize(field);
  }
  if (!more) return;
  const auto [from, added] = escaped_.try_emplace(plain(*type).str(), bytes);
  if (!added) from->second = std::min(from->second, bytes);
}

bool Fields::is_escaped(const llvm::Value* address) const {
  while (const auto* step = llvm::dyn_cast<llvm::GEPOperator>(address)) {
    std::uint64_t bytes = 0;
    const llvm::StructType* type = stepped_into(*step, layout_, bytes);
    const auto from = type != nullptr ? escaped_.find(plain(*type).str()) : escaped_.end();
    if (from != escaped_.end() && bytes >= from->second) return true;
    address = step->getPointerOperand();
  }
  return false;
}

void Fields::put(const Path& path, const llvm::Value* value) {
  for (const Field& field : path) puts_[field.offset].emplace_back(field, value);
  if (path.empty()) puts_[kAnywhere].emplace_back(Field{}, value);
}

void Fields::look_at(const llvm::Instruction& i) {
  if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i)) {
    const llvm::Value* value = store->getValueOperand();
    if (!value->getType()->isPointerTy()) return;
    put(path_of(i), value);
    if (is_escaped(store->getPointerOperand())) put({}, value);
  } else if (const auto* call = llvm::dyn_cast<llvm::CallBase>(&i)) {
    if (const llvm::LoadInst* read = read_for(*call)) {
      for (const Field& field : path_of(*read)) {
        wanted_.insert(field.offset);
        called_.insert(field);
      }
    }
  } else if (llvm::isa<llvm::AtomicCmpXchgInst, llvm::AtomicRMWInst, llvm::InsertValueInst,
                       llvm::PtrToIntInst>(i)) {
    for (const llvm::Value* operand : i.operands()) put({}, operand);
  }
}

// A record without a name may be laid out otherwise than the one it stands for.
void Fields::initialise(const Path& path, const llvm::Constant* value) {
  if (value->getType()->isPointerTy()) {
    put(path, value);
    return;
  }
  const auto* type = llvm::dyn_cast<llvm::StructType>(value->getType());
  const auto* record = llvm::dyn_cast<llvm::ConstantStruct>(value);
  for (unsigned part = 0; record != nullptr && part < record->getNumOperands(); ++part) {
    Path inner = type->hasName() ? path : Path{};
    const std::uint64_t at = layout_.getStructLayout(record->getType())->getElementOffset(part);
    for (Field& field : inner) field.offset += at;
    if (type->hasName()) inner.push_back({plain(*type).str(), at});
    const auto from = escaped_.find(plain(*type).str());
    if (from != escaped_.end() && at >= from->second) initialise({}, record->getOperand(part));
    initialise(inner, record->getOperand(part));
  }
  if (llvm::isa<llvm::ConstantArray, llvm::ConstantExpr>(value)) {
    for (const llvm::Use& part : value->operands())
      initialise({}, llvm::cast<llvm::Constant>(part.get()));
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
        const Path path = path_of(*load);
        held.open |= path.empty() || is_escaped(load->getPointerOperand());
        for (const Field& from : path) {
          if (held.from.insert(from).second) wanted_.insert(from.offset);
        }
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

// A record may be cast to another that begins alike: what is put into any is in all at that offset,
// and what is not known as well, if the field holds functions.
void Fields::spread() {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto& [field, held] : held_) {
      Held& there = by_offset_[field.offset];
      const auto take = [&](Held& into, const Held& other, bool open) {
        const std::size_t before = into.functions.size();
        into.functions.insert(other.functions.begin(), other.functions.end());
        changed |= into.functions.size() != before || (open && !into.open);
        into.open |= open;
      };
      for (const Field& from : held.from) {
        const auto exact = held_.find(from);
        const Held& other = by_offset_[from.offset];
        take(held, other, other.open || (exact != held_.end() && exact->second.open));
      }
      if (!held.from.empty()) take(held, by_offset_[kAnywhere], false);
      const bool is_function = !held.functions.empty() || called_.contains(field);
      take(there, held, held.open && is_function && field.offset != kAnywhere);
    }
  }
}

bool Fields::may_hold(const llvm::CallBase& call, const llvm::Function& f) const {
  const llvm::LoadInst* read = read_for(call);
  const Path path = read != nullptr ? path_of(*read) : Path{};
  const auto may = [&](std::uint64_t offset) {
    const auto there = by_offset_.find(offset);
    return there != by_offset_.end() &&
           (there->second.open || there->second.functions.contains(&f));
  };
  return path.empty() || is_escaped(read->getPointerOperand()) || may(kAnywhere) ||
         llvm::any_of(path, [&](const Field& field) { return may(field.offset); });
}

}  // namespace lint
