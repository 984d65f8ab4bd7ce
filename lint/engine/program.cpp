// Loads, links and prepares (program.h).
#include "program.h"

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/JumpThreading.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Utils/BuildLibCalls.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>

#include <array>
#include <map>

#include "library.h"
#include "returns.h"

namespace lint {
namespace {

constexpr std::size_t kMostAccessor = 40;  // instructions of a function that is small
constexpr std::size_t kMostCaller = 5000;  // of one that takes in others

std::string in_one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

// What a bitcode file says of itself cannot be changed by a note on it.
class Quiet : public llvm::DiagnosticHandler {
 public:
  explicit Quiet(std::string& error) : error_(error) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream out(error_);
      llvm::DiagnosticPrinterRawOStream printer(out);
      info.print(printer);
    }
    return true;
  }

 private:
  std::string& error_;
};

bool is_allocator(const llvm::Function* f) {
  static const std::set<std::string> names{"malloc", "calloc", "realloc", "aligned_alloc",
                                           "_Znwm",  "_Znam",  "strdup",  "fopen"};
  return f != nullptr && names.count(f->getName().str()) != 0;
}

// A small function that returns what an allocator gave it.
bool wraps_allocator(const llvm::Function& f) {
  if (f.isDeclaration() || f.isVarArg() || !f.getReturnType()->isPointerTy() ||
      f.getInstructionCount() > 60) {
    return false;
  }
  bool allocates = false;
  for (const llvm::Instruction& i : llvm::instructions(f)) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    if (call == nullptr) continue;
    if (call->getCalledFunction() == &f) return false;
    if (!is_allocator(call->getCalledFunction())) continue;
    for (const llvm::User* user : call->users()) {
      allocates |= llvm::isa<llvm::ReturnInst>(user) || llvm::isa<llvm::PHINode>(user);
    }
  }
  return allocates;
}

// Of C++'s library: streams and strings that are written to and returned.
bool returns_first(const llvm::Function& f) {
  const llvm::StringRef name = f.getName();
  if (!name.starts_with("_ZNS") && !name.starts_with("_ZSt")) return false;
  if (!f.getReturnType()->isPointerTy() || f.arg_size() < 2) return false;
  static constexpr const char* kOut = "std::operator<<";
  // insert may return a place in the text instead, as a pointer.
  static constexpr std::array<const char*, 5> kString{"operator=", "operator+=", "append", "assign",
                                                      "replace"};
  const std::string plain = plain_name(f);
  if (plain.find(kOut) != std::string::npos) return true;
  const std::size_t last = plain.rfind("::");
  if (last == std::string::npos) return false;
  const std::string_view member = std::string_view(plain).substr(last + 2);
  if (plain.find("ostream") != std::string::npos) return member == "operator<<";
  return plain.find("basic_string<char") != std::string::npos &&
         std::any_of(kString.begin(), kString.end(),
                     [&](const char* name_) { return member.starts_with(name_); });
}

// A C++ function that a header defines.
bool is_header(const llvm::Function& f) {
  const bool header = f.hasLinkOnceLinkage() || f.hasAvailableExternallyLinkage() ||
                      (f.hasInternalLinkage() && f.hasFnAttribute(llvm::Attribute::InlineHint));
  return header && !f.isDeclaration() && !f.isVarArg() && f.getName().starts_with("_Z");
}

// A small one: what it does is seen best where it is called.
bool is_accessor(const llvm::Function& f) {
  std::size_t count = 0;
  for (const llvm::Instruction& i : llvm::instructions(f)) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    if (call != nullptr && call->getCalledFunction() == &f) return false;
    if (!i.isDebugOrPseudoInst() && ++count > kMostAccessor) return false;
  }
  return true;
}

// Says what is wrong with it. LLVM's reader and verifier fail on some damaged files by a crash.
std::string read_part(llvm::MemoryBufferRef buffer, llvm::LLVMContext& context,
                      std::unique_ptr<llvm::Module>& part) {
  std::string wrong;
  const auto read = [&] {
    auto parsed = llvm::parseBitcodeFile(buffer, context);
    if (!parsed) {
      wrong = llvm::toString(parsed.takeError());
      return;
    }
    bool debug_info = false;  // whether it is broken: if it alone is, it is left out
    llvm::raw_string_ostream out(wrong);
    if (llvm::verifyModule(**parsed, &out, &debug_info)) {
      if (wrong.empty()) wrong = "it is damaged";
      return;
    }
    wrong.clear();
    if (debug_info) llvm::StripDebugInfo(**parsed);
    part = std::move(*parsed);
  };
  llvm::CrashRecoveryContext recovery;
  return recovery.RunSafely(read) ? wrong : "it is damaged";
}

}  // namespace

std::string Program::load(const std::vector<std::string>& files, const Progress& progress) {
  std::string complaint;
  context_.setDiagnosticHandler(std::make_unique<Quiet>(complaint));
  module_ = std::make_unique<llvm::Module>("program", context_);
  llvm::Linker linker(*module_);
  std::size_t done = 0;
  llvm::CrashRecoveryContext::Enable();
  for (const std::string& file : files) {
    progress("link", done++, files.size());
    auto buffer = llvm::MemoryBuffer::getFile(file);
    if (!buffer) return file + ": " + buffer.getError().message();
    std::unique_ptr<llvm::Module> part;
    if (std::string wrong = read_part(**buffer, context_, part); !wrong.empty()) {
      return file + ": no bitcode that LLVM 19 reads: " + in_one_line(std::move(wrong));
    }
    unions_.note(*part);
    if (module_->getDataLayoutStr().empty()) {
      module_->setDataLayout(part->getDataLayout());
      module_->setTargetTriple(part->getTargetTriple());
    }
    // Two parts that define a name are two variants of one program; the first is taken.
    const bool failed = linker.linkInModule(std::move(part), llvm::Linker::OverrideFromSrc);
    if (failed) return file + ": cannot be linked: " + in_one_line(complaint);
  }
  llvm::CrashRecoveryContext::Disable();
  return {};
}

std::string plain_name(const llvm::Function& f) {
  const std::string name = f.getName().str();
  std::string plain = llvm::demangle(name);
  if (plain == name) return plain;
  int depth = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] == '<') ++depth;
    if (plain[i] == '>') --depth;
    if (plain[i] == '(' && depth == 0) plain.resize(i);
  }
  return plain;
}

void Program::prepare(const std::function<bool(const llvm::Function&)>& is_known,
                      const Progress& progress) {
  count_lines();
  llvm::TargetLibraryInfoImpl library(llvm::Triple(module_->getTargetTriple()));
  llvm::TargetLibraryInfo info(library);
  for (llvm::Function& f : *module_) {
    f.removeFnAttr(llvm::Attribute::OptimizeNone);
    if (f.isDeclaration()) llvm::inferNonMandatoryLibFuncAttrs(f, info);
    if (returns_first(f)) f.addFnAttr(kReturnsFirst);
  }
  note_library(*module_);
  inline_allocators();
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  inline_accessors(is_known, functions);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  // Ways out of a scope meet in one block and part again by a number; each is a path of its own.
  passes.addPass(llvm::JumpThreadingPass());
  passes.addPass(llvm::EarlyCSEPass(true));
  std::size_t done = 0;
  const std::size_t all = module_->size();  // it counts them one by one
  for (llvm::Function& f : *module_) {
    progress("prepare", done++, all);
    if (f.isDeclaration()) continue;
    passes.run(f, functions);
    llvm::removeUnreachableBlocks(f);
    functions.clear();
  }
  note_variables(*module_);
  find_no_return();
  if (note_returns(*this, progress)) find_no_return();
}

void Program::inline_allocators() {
  for (int round = 0; round < 3; ++round) {
    std::vector<llvm::CallBase*> calls;
    for (llvm::Function& f : *module_) {
      if (!wraps_allocator(f)) continue;
      for (llvm::User* user : f.users()) {
        auto* call = llvm::dyn_cast<llvm::CallInst>(user);
        if (call != nullptr && call->getCalledFunction() == &f && call->getFunction() != &f) {
          calls.push_back(call);
        }
      }
    }
    for (llvm::CallBase* call : calls) {
      llvm::InlineFunctionInfo info;
      llvm::InlineFunction(*call, info);
    }
    if (calls.empty()) return;
  }
}

void Program::inline_accessors(const std::function<bool(const llvm::Function&)>& is_known,
                               llvm::FunctionAnalysisManager& analyses) {
  llvm::SROAPass registers(llvm::SROAOptions::PreserveCFG);  // so that a chain of them stays small
  std::map<const llvm::Function*, bool> known;
  for (int round = 0; round < 4; ++round) {
    std::vector<llvm::CallBase*> calls;
    for (llvm::Function& f : *module_) {
      if (!is_header(f)) continue;
      registers.run(f, analyses);
      analyses.clear(f, f.getName());
      if (!is_accessor(f)) continue;
      const auto [at, added] = known.try_emplace(&f, false);
      if (added) at->second = is_known(f);
      if (at->second) continue;
      for (llvm::User* user : f.users()) {
        auto* call = llvm::dyn_cast<llvm::CallBase>(user);
        if (call != nullptr && call->getCalledFunction() == &f && call->getFunction() != &f)
          calls.push_back(call);
      }
    }
    if (calls.empty()) break;
    std::map<const llvm::Function*, unsigned> sizes;  // of callers, as they grow
    for (llvm::CallBase* call : calls) {
      const llvm::Function* into = call->getFunction();
      const auto [size, added] = sizes.try_emplace(into, 0);
      if (added) size->second = into->getInstructionCount();
      if (size->second >= kMostCaller) continue;
      size->second += call->getCalledFunction()->getInstructionCount();
      llvm::InlineFunctionInfo info;
      llvm::InlineFunction(*call, info);
    }
  }
  for (bool gone = true; gone;) {
    gone = false;
    for (llvm::Function& f : llvm::make_early_inc_range(*module_)) {
      f.removeDeadConstantUsers();
      if (!f.use_empty() || !known.contains(&f)) continue;
      known.erase(&f);
      f.eraseFromParent();
      gone = true;
    }
  }
}

bool Program::ends(const llvm::CallBase& call) const {
  return call.doesNotReturn() ||
         (call.getCalledFunction() != nullptr && ends(call.getCalledFunction()));
}

// Until nothing is added: without the calls that do not come back, is a return reached?
void Program::find_no_return() {
  for (bool changed = true; changed;) {
    changed = false;
    for (const llvm::Function& f : *module_) {
      if (f.isDeclaration() || ends(&f)) continue;
      std::set<const llvm::BasicBlock*> seen{&f.getEntryBlock()};
      std::vector<const llvm::BasicBlock*> work{&f.getEntryBlock()};
      bool returns = false;
      while (!work.empty() && !returns) {
        const llvm::BasicBlock* block = work.back();
        work.pop_back();
        bool cut = false;
        for (const llvm::Instruction& i : *block) {
          const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
          if (call != nullptr && ends(*call)) cut = true;
          if (llvm::isa<llvm::ReturnInst>(i) || llvm::isa<llvm::ResumeInst>(i)) returns = !cut;
        }
        if (cut) continue;
        for (const llvm::BasicBlock* next : llvm::successors(block)) {
          if (seen.insert(next).second) work.push_back(next);
        }
      }
      if (!returns) {
        no_return_.insert(&f);
        changed = true;
      }
    }
  }
}

// The lines of code that the debug information knows.
void Program::count_lines() {
  std::set<std::pair<const void*, unsigned>> seen;
  for (const llvm::Function& f : *module_) {
    for (const llvm::Instruction& i : llvm::instructions(f)) {
      if (const llvm::DebugLoc& at = i.getDebugLoc()) {
        seen.emplace(llvm::cast<llvm::DIScope>(at.getScope())->getFile(), at.getLine());
      }
    }
  }
  lines_ = seen.size();
}

}  // namespace lint
