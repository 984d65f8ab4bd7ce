// Walks a module and adds to the points-to graph what each instruction means (memory.h).
#pragma once

#include <llvm/IR/Instructions.h>
#include <llvm/IR/Operator.h>

#include "fields.h"
#include "memory.h"

namespace lint {

class Constraints {
 public:
  explicit Constraints(Memory& memory)
      : m_(memory), graph_(memory.graph_), fields_(memory.program_.module()) {}
  void add_program();

 private:
  Node node(const llvm::Value* v);
  Node constant(const llvm::Constant* c);
  Node fresh(const llvm::Value* site);
  Object object_of(llvm::Type* type);
  void initialise(Object object, std::int64_t at, const llvm::Constant* c, bool apart);
  void instruction(llvm::Instruction& i);
  void step(llvm::GEPOperator& gep);
  void call(llvm::CallBase& call);
  void connect(llvm::CallBase& call, llvm::Function& callee);
  void pass_function(llvm::CallBase& call);
  static bool fits(const llvm::CallBase& call, const llvm::Function& f);
  void library(llvm::CallBase& call, llvm::StringRef name);
  void copy_memory(const llvm::Value* to, const llvm::Value* from, const llvm::Value* size);
  Object extras(const llvm::Function* f);

  Memory& m_;
  PointsTo& graph_;
  Fields fields_;
  llvm::DenseMap<const llvm::Value*, Node> constants_;
};

}  // namespace lint
