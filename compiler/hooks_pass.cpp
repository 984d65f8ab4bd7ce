// The LLVM half of the plugin: loads and stores of guided fields, `operator delete` and operations
// become calls of include/strata/guided.h. Runs before all optimization, and at -O0. Sits in
// compiler. The scheme is that of HADES (Banakar et al., DIMES 2025).
#include <vector>

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Transforms/Utils/EscapeEnumerator.h"

using namespace llvm;
using PatternMatch::m_Zero;
using PatternMatch::match;

namespace {

bool Says(Value* text, StringRef what) {
  auto* global = dyn_cast<GlobalVariable>(text->stripPointerCasts());
  if (global == nullptr || !global->hasInitializer()) return false;
  auto* data = dyn_cast<ConstantDataSequential>(global->getInitializer());
  return data != nullptr && data->isCString() && data->getAsCString() == what;
}

bool IsAnnotation(const User* user) {
  const auto* call = dyn_cast<IntrinsicInst>(user);
  return call != nullptr && call->getIntrinsicID() == Intrinsic::ptr_annotation;
}

class Hooks {
 public:
  explicit Hooks(Module& m) : m_(m) {
    Type* nothing = Type::getVoidTy(m.getContext());
    Type* pointer = PointerType::getUnqual(m.getContext());
    load_ = m.getOrInsertFunction("strata_guided_load", pointer, pointer);
    store_ = m.getOrInsertFunction("strata_guided_store", nothing, pointer, pointer);
    delete_ = m.getOrInsertFunction("strata_guided_delete", nothing, pointer);
    enter_ = m.getOrInsertFunction("strata_guided_enter", nothing);
    leave_ = m.getOrInsertFunction("strata_guided_leave", nothing);
  }

  void Run() {
    for (Function& f : m_)
      if (!f.isDeclaration() && !f.getName().starts_with("strata_guided_")) Uses(f);
    if (GlobalVariable* notes = m_.getNamedGlobal("llvm.global.annotations")) {
      for (Value* note : cast<ConstantArray>(notes->getInitializer())->operands()) {
        auto* entry = cast<ConstantStruct>(note);
        auto* f = dyn_cast<Function>(entry->getOperand(0)->stripPointerCasts());
        if (f != nullptr && !f->isDeclaration() && Says(entry->getOperand(1), "strata::operation"))
          Operation(*f);
      }
    }
  }

 private:
  void Uses(Function& f) {
    std::vector<IntrinsicInst*> marks;
    std::vector<CallBase*> deletes;
    for (Instruction& i : instructions(f)) {
      if (auto* call = dyn_cast<IntrinsicInst>(&i)) {
        if (IsAnnotation(call) && Says(call->getArgOperand(1), "strata::guided"))
          marks.push_back(call);
      } else if (auto* base = dyn_cast<CallBase>(&i)) {
        Function* callee = base->getCalledFunction();
        if (callee != nullptr && callee->getName().starts_with("_ZdlPv")) deletes.push_back(base);
      }
    }
    for (IntrinsicInst* mark : marks) {
      seen_.clear();
      Accesses(mark);
      mark->replaceAllUsesWith(mark->getArgOperand(0));
      mark->eraseFromParent();
    }
    for (CallBase* call : deletes) {
      IRBuilder<> at(call);
      at.CreateCall(delete_, {call->getArgOperand(0)});
      if (auto* invoke = dyn_cast<InvokeInst>(call)) {
        at.CreateBr(invoke->getNormalDest());
        invoke->getUnwindDest()->removePredecessor(invoke->getParent());
      }
      call->eraseFromParent();
    }
  }

  // An array's element lies behind a GEP, and where many are filled behind a PHI of these. The
  // other half has refused everything else that a program can say.
  void Accesses(Value* field) {
    if (!seen_.insert(field).second) return;
    for (User* user : make_early_inc_range(field->users())) {
      if (auto* load = dyn_cast<LoadInst>(user)) {
        IRBuilder<> at(load);
        load->replaceAllUsesWith(at.CreateCall(load_, {field}));
        load->eraseFromParent();
      } else if (auto* store = dyn_cast<StoreInst>(user);
                 store && store->getPointerOperand() == field) {
        IRBuilder<> at(store);
        at.CreateCall(store_, {field, store->getValueOperand()});
        store->eraseFromParent();
      } else if (isa<GetElementPtrInst>(user) || isa<PHINode>(user) || IsAnnotation(user)) {
        Accesses(user);
      } else if (!OnlyLooks(user) && !Initializes(user)) {  // would take the tag for an address
        auto* i = cast<Instruction>(user);
        m_.getContext().diagnose(DiagnosticInfoUnsupported(
            *i->getFunction(), "strata: a use of a guided field that has no hook",
            i->getDebugLoc()));
      }
    }
  }

  // A loop's end, or a sanitizer: nothing is read.
  static bool OnlyLooks(const User* user) {
    return isa<ICmpInst>(user) || isa<PtrToIntInst>(user) ||
           (isa<IntrinsicInst>(user) &&
            cast<IntrinsicInst>(user)->getIntrinsicID() == Intrinsic::objectsize);
  }
  // A whole array at once, to null or to addresses of what never moves.
  static bool Initializes(const User* user) {
    if (const auto* set = dyn_cast<MemSetInst>(user)) return match(set->getValue(), m_Zero());
    const auto* copy = dyn_cast<MemCpyInst>(user);
    const auto* from = copy == nullptr ? nullptr : dyn_cast<GlobalVariable>(copy->getSource());
    return from != nullptr && from->isConstant();
  }

  // A call that may be inlined needs a place where its caller has one.
  void Call(IRBuilder<>& at, FunctionCallee callee, Function& f) {
    CallInst* call = at.CreateCall(callee);
    if (DISubprogram* in = f.getSubprogram())
      call->setDebugLoc(DILocation::get(f.getContext(), in->getLine(), 0, in));
  }

  void Operation(Function& f) {
    EscapeEnumerator exits(f, "strata.leave");
    while (IRBuilder<>* exit = exits.Next()) Call(*exit, leave_, f);
    IRBuilder<> at(&*f.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    Call(at, enter_, f);
  }

  Module& m_;
  SmallPtrSet<Value*, 8> seen_;
  FunctionCallee load_, store_, delete_, enter_, leave_;
};

struct HooksPass : PassInfoMixin<HooksPass> {
  PreservedAnalyses run(Module& m, ModuleAnalysisManager&) {
    Hooks(m).Run();
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "strata-guided", "1", [](PassBuilder& builder) {
            builder.registerPipelineStartEPCallback(
                [](ModulePassManager& passes, OptimizationLevel) { passes.addPass(HooksPass()); });
          }};
}
