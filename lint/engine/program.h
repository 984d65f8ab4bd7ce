// The program under analysis: bitcode files linked to one module and brought into a form in which
// values are named: registers instead of stack slots, allocation wrappers inlined.
#pragma once

#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "unions.h"

namespace lint {

using Progress = std::function<void(const char* phase, std::size_t done, std::size_t total)>;

// On a function that returns its first argument.
constexpr const char* kReturnsFirst = "strata-returns-first";

// The name of a C++ function without its parameters; any other name as it is.
std::string plain_name(const llvm::Function& f);

class Program {
 public:
  // One line that says why not, or nothing.
  std::string load(const std::vector<std::string>& files, const Progress& progress);
  // `is_known` says whether a property has a rule for the function: then its calls stay calls.
  void prepare(const std::function<bool(const llvm::Function&)>& is_known,
               const Progress& progress);

  llvm::Module& module() { return *module_; }
  const llvm::Module& module() const { return *module_; }
  // Functions that never come back.
  bool ends(const llvm::Function* function) const { return no_return_.count(function) != 0; }
  // Whether control stops at the call.
  bool ends(const llvm::CallBase& call) const;
  std::size_t lines() const { return lines_; }
  // A whole program, not a library.
  bool has_main() const {
    const llvm::Function* main = module_->getFunction("main");
    return main != nullptr && !main->isDeclaration();
  }
  const Unions& unions() const { return unions_; }

 private:
  void inline_allocators();
  void inline_accessors(const std::function<bool(const llvm::Function&)>& is_known,
                        llvm::FunctionAnalysisManager& analyses);
  void find_no_return();
  void count_lines();

  llvm::LLVMContext context_;
  std::unique_ptr<llvm::Module> module_;
  std::set<const llvm::Function*> no_return_;
  Unions unions_;
  std::size_t lines_ = 0;
};

}  // namespace lint
