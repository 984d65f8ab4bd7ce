// Whether what a question asks for may be changed between two places (solver.h). On a way that
// answers the same question in two ways it must have been; that it was is sure only where it is
// known who writes there. And what an atomic operation does to a fact.
#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Support/KnownBits.h>

#include "solver.h"

namespace lint {
namespace {

constexpr int kMostParts = 6;             // of a value, or a type, one in the other
constexpr std::size_t kMostCalled = 512;  // functions behind a call that may change what is asked
constexpr std::size_t kLooksPerStep = 8;  // instructions that are looked at, for one followed

// Whether the store leaves those bits of its place as they are: `flags |= 1`.
bool keeps(const llvm::StoreInst& store, std::uint64_t bits, const llvm::DataLayout& layout) {
  const llvm::Value* v = store.getValueOperand();
  if (!v->getType()->isIntegerTy() || v->getType()->getIntegerBitWidth() > 64) return false;
  const Address to = address_of(store.getPointerOperand(), layout);
  const auto passes = [&](const llvm::BinaryOperator& op, const llvm::Value* other) {
    const llvm::KnownBits known = llvm::computeKnownBits(other, layout);
    const llvm::APInt wanted = llvm::APInt(64, bits).trunc(known.getBitWidth());
    if (op.getOpcode() == llvm::Instruction::And) return wanted.isSubsetOf(known.One);
    return (op.getOpcode() == llvm::Instruction::Or || op.getOpcode() == llvm::Instruction::Xor) &&
           wanted.isSubsetOf(known.Zero);
  };
  for (int depth = 0; depth < kMostParts; ++depth) {
    if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(v)) {
      const Address from = address_of(load->getPointerOperand(), layout);
      return from.root == to.root && from.offset == to.offset;
    }
    const auto* op = llvm::dyn_cast<llvm::BinaryOperator>(v);
    if (op == nullptr) return false;
    if (passes(*op, op->getOperand(1)))
      v = op->getOperand(0);
    else if (passes(*op, op->getOperand(0)))
      v = op->getOperand(1);
    else
      return false;
  }
  return false;
}

// Whether those bytes lie beside what was loaded, in one record.
bool is_beside(const llvm::Value* to, std::uint64_t bytes, const llvm::LoadInst& load,
               const llvm::DataLayout& layout) {
  const Address a = address_of(to, layout);
  const Address b = address_of(load.getPointerOperand(), layout);
  if (a.root != b.root || a.offset == kAnyOffset || b.offset == kAnyOffset) return false;
  const auto after = [](std::int64_t offset, std::uint64_t size) {
    return offset + static_cast<std::int64_t>(size);
  };
  return after(a.offset, bytes) <= b.offset ||
         after(b.offset, layout.getTypeStoreSize(load.getType())) <= a.offset;
}

// Whether the two reach records of one type, and there fields that are not the same.
bool are_other_fields(const llvm::StoreInst& store, const llvm::LoadInst& load) {
  const llvm::MDNode* a = store.getMetadata(llvm::LLVMContext::MD_tbaa);
  const llvm::MDNode* b = load.getMetadata(llvm::LLVMContext::MD_tbaa);
  return a != nullptr && b != nullptr && a->getNumOperands() >= 3 && b->getNumOperands() >= 3 &&
         a->getOperand(0) == b->getOperand(0) && a->getOperand(2) != b->getOperand(2);
}

// Whether it is not known where one of the two lies.
bool are_unknown(const Bits& a, const Bits& b) {
  return a.empty() || a.test(kAnywhere) || b.test(kAnywhere);
}

// Whether a record of the one type lies in one of the other.
bool lies_in(const llvm::MDNode* type, const llvm::MDNode* other, int depth = kMostParts) {
  if (type == other) return true;
  return depth > 0 && llvm::any_of(other->operands(), [&](const llvm::MDOperand& part) {
           const auto* member = llvm::dyn_cast_or_null<llvm::MDNode>(part.get());
           return member != nullptr && lies_in(type, member, depth - 1);
         });
}

// Whether a store is one to what was loaded though it is not known where one of them lies: by the
// pointer that both go by, or because both are of one field of such records, as far as types say.
bool are_alike(const llvm::StoreInst& store, const llvm::LoadInst& load,
               const llvm::DataLayout& layout) {
  if (address_of(store.getPointerOperand(), layout).root ==
      address_of(load.getPointerOperand(), layout).root) {
    return true;
  }
  const llvm::MDNode* a = store.getMetadata(llvm::LLVMContext::MD_tbaa);
  const llvm::MDNode* b = load.getMetadata(llvm::LLVMContext::MD_tbaa);
  if (a == nullptr || b == nullptr || a->getNumOperands() < 3 || b->getNumOperands() < 3)
    return false;
  const auto* one = llvm::dyn_cast<llvm::MDNode>(a->getOperand(0));
  const auto* other = llvm::dyn_cast<llvm::MDNode>(b->getOperand(0));
  const auto* kind = llvm::dyn_cast<llvm::MDNode>(a->getOperand(1));
  return kind == b->getOperand(1) && one != kind && other != kind && one != nullptr &&
         other != nullptr && (lies_in(one, other) || lies_in(other, one));
}

// A text that is asked for, behind a pointer that its function was given or keeps.
struct Text {
  const llvm::Value* pointer = nullptr;
  const llvm::GlobalVariable* kept = nullptr;
};

const llvm::GlobalVariable* kept_in(const llvm::Value* pointer) {
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(pointer);
  return load != nullptr ? llvm::dyn_cast<llvm::GlobalVariable>(load->getPointerOperand())
                         : nullptr;
}

Text text_of(const llvm::LoadInst& load, const llvm::DataLayout& layout) {
  const llvm::Value* root = address_of(load.getPointerOperand(), layout).root;
  const llvm::GlobalVariable* kept = kept_in(root);
  if (!load.getType()->isIntegerTy(8) || (kept == nullptr && !llvm::isa<llvm::Argument>(root)))
    return {};
  return {root, kept};
}

// Whether it may be the pointer to the text, or one made from it. That two names of a program lead
// to one text is seldom so where pointers are followed to hundreds of them.
bool leads_to_text(const llvm::Value* to, Text text, const llvm::DataLayout& layout) {
  if (!to->getType()->isPointerTy()) return false;
  const llvm::Value* root = address_of(to, layout, true).root;
  if (root == text.pointer || (text.kept != nullptr && kept_in(root) == text.kept)) return true;
  return !llvm::isa<llvm::AllocaInst, llvm::Argument, llvm::LoadInst, llvm::Constant>(root) &&
         !llvm::isNoAliasCall(root);
}

// Whether the function reads where the text is kept.
bool speaks_of(const llvm::Function& f, const llvm::GlobalVariable& kept) {
  return llvm::any_of(kept.users(), [&](const llvm::User* user) {
    const auto* i = llvm::dyn_cast<llvm::Instruction>(user);
    return i == nullptr || i->getFunction() == &f;
  });
}

}  // namespace

// Whether an instruction other than a call may change what is asked for.
bool Solver::may_change(const llvm::Instruction& i, const Asked& asked) {
  const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
  if (store == nullptr) {
    return llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst>(i) &&
           memory_.meet(memory_.points(i.getOperand(0)), asked.cells);
  }
  const llvm::Type* type = store->getValueOperand()->getType();
  const Cells to = memory_.points(store->getPointerOperand());
  if (type->isPointerTy() != asked.load->getType()->isPointerTy() ||
      !memory_.meet(to, asked.cells) ||
      (are_unknown(to, asked.cells) && !are_alike(*store, *asked.load, memory_.layout()))) {
    return false;
  }
  const llvm::DataLayout& layout = memory_.layout();
  const Text text = text_of(*asked.load, layout);
  if (text.pointer != nullptr && store->getFunction() == asked.load->getFunction() &&
      !leads_to_text(store->getPointerOperand(), text, layout)) {
    return false;
  }
  const std::uint64_t bytes = layout.getTypeStoreSize(store->getValueOperand()->getType());
  return !is_beside(store->getPointerOperand(), bytes, *asked.load, layout) &&
         !are_other_fields(*store, *asked.load) &&
         (type != asked.load->getType() || !keeps(*store, asked.bits, layout));
}

// Whether a function without a body may, as far as it is known where its arguments lead. `anew`:
// what its caller has of its own was not there when it was asked.
bool Solver::may_be_changed_by(const llvm::CallBase& foreign, const Asked& asked, bool anew) const {
  const llvm::Value* from = address_of(asked.load->getPointerOperand(), memory_.layout()).root;
  const Text text = text_of(*asked.load, memory_.layout());
  const bool here = foreign.getFunction() == asked.load->getFunction();
  return llvm::any_of(foreign.args(), [&](const llvm::Use& argument) {
    const auto number = foreign.getArgOperandNo(&argument);
    if (!argument->getType()->isPointerTy() || foreign.onlyReadsMemory(number)) return false;
    if (anew && memory_.is_anew(argument.get())) return false;
    if (text.pointer != nullptr && here && !leads_to_text(argument.get(), text, memory_.layout()))
      return false;
    const Cells to = memory_.points(argument.get());
    return memory_.meet(to, asked.cells) &&
           (!are_unknown(to, asked.cells) ||
            address_of(argument.get(), memory_.layout()).root == from);
  });
}

// The same of a call, by the functions that it calls.
bool Solver::may_change(const llvm::CallBase& call, const Asked& asked) {
  const llvm::DataLayout& layout = memory_.layout();
  const Text text = text_of(*asked.load, layout);
  if (text.pointer != nullptr && text.kept == nullptr &&
      call.getFunction() == asked.load->getFunction() &&
      llvm::none_of(call.args(), [&](const llvm::Use& argument) {
        return leads_to_text(argument.get(), text, layout);
      })) {
    return false;
  }
  std::vector<const llvm::Function*> work;
  llvm::DenseSet<const llvm::Function*> seen;
  const auto may_itself = [&](const llvm::CallBase& site) {
    const bool anew = &site != &call;
    if (program_.ends(site) || !memory_.may_write(site, asked.cells)) return false;
    const llvm::Function* called = site.getCalledFunction();
    const Functions& callees = memory_.callees(site);
    if (const auto* block = llvm::dyn_cast<llvm::MemIntrinsic>(&site)) {
      if (!may_be_changed_by(site, asked, anew)) return false;
      const auto* bytes = llvm::dyn_cast<llvm::ConstantInt>(block->getLength());
      return bytes == nullptr ||
             !is_beside(block->getRawDest(), bytes->getZExtValue(), *asked.load, memory_.layout());
    }
    if (callees.empty() || (called != nullptr && called->isDeclaration())) {
      const bool known = called != nullptr || !memory_.externals(site).empty();
      return known && may_be_changed_by(site, asked, anew);
    }
    for (const llvm::Function* f : callees) {
      if (seen.insert(f).second) work.push_back(f);
    }
    return seen.size() > kMostCalled;
  };
  if (may_itself(call)) return true;
  while (!work.empty()) {
    const llvm::Function* f = work.back();
    work.pop_back();
    steps_ += f->getInstructionCount() / kLooksPerStep;
    const bool knows = text.kept == nullptr || speaks_of(*f, *text.kept);
    for (const llvm::Instruction& i : llvm::instructions(*f)) {
      const auto* inner = llvm::dyn_cast<llvm::CallBase>(&i);
      const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
      if (store != nullptr && memory_.is_anew(store->getPointerOperand())) continue;
      const bool may = inner != nullptr ? may_itself(*inner) : may_change(i, asked);
      if (may && knows) return true;
    }
  }
  return false;
}

// Whether anything that lies there may change what is asked for.
bool Solver::may_change(const llvm::Function& f, const Asked& asked,
                        llvm::function_ref<bool(const llvm::Instruction&)> lies_there) {
  steps_ += f.getInstructionCount() / kLooksPerStep;
  return llvm::any_of(llvm::instructions(f), [&](const llvm::Instruction& i) {
    if (!i.mayWriteToMemory() || !lies_there(i)) return false;
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    return call != nullptr ? may_change(*call, asked) : may_change(i, asked);
  });
}

// An atomic operation: what it puts there, or takes out, is another's to end from then on.
bool Solver::change(State& state, const llvm::Instruction& i, const llvm::Value& written) {
  if (used(state, i, &written) || !reached(state, &written)) return false;
  const auto* update = llvm::dyn_cast<llvm::AtomicRMWInst>(&i);
  const auto* exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&i);
  const llvm::Value* put = update != nullptr     ? update->getValOperand()
                           : exchange != nullptr ? exchange->getNewValOperand()
                                                 : nullptr;
  const Address held = put != nullptr ? address(put, state.fact) : Address{};
  const Address to = address(&written, state.fact);
  for (const Name& n : state.fact.names) {
    if (n.root == held.root || n.root == put || (n.root == to.root && n.steps > 0))
      state.fact.escaped = true;
  }
  const Cells cells = memory_.cells_of(&written);
  overwrite(state, cells, to);
  state.known.keep_cells(
      [&](Address a) { return !memory_.meet(memory_.cells(a.root, a.offset), cells); });
  return state.fact.has_object() || lost(state, i);
}

}  // namespace lint
