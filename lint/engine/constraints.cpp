// What each instruction, initialiser and library function does to pointers (constraints.h).
#include "constraints.h"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace lint {
namespace {

// The argument that a library function returns, or a pointer into it; -1: something fresh.
int returned_argument(llvm::StringRef name) {
  static const std::map<std::string, int, std::less<>> known{
      {"strcpy", 0},       {"strncpy", 0},   {"strcat", 0},     {"strncat", 0},  {"memcpy", 0},
      {"memmove", 0},      {"memset", 0},    {"stpcpy", 0},     {"mempcpy", 0},  {"fgets", 0},
      {"gets", 0},         {"strchr", 0},    {"strrchr", 0},    {"strstr", 0},   {"strpbrk", 0},
      {"memchr", 0},       {"strtok", 0},    {"realloc", 0},    {"bsearch", 1},  {"strtok_r", 0},
      {"strchrnul", 0},    {"memmem", 0},    {"strcasestr", 0}, {"index", 0},    {"rindex", 0},
      {"reallocarray", 0}, {"inet_ntop", 2}, {"getcwd", 0},     {"realpath", 1}, {"memrchr", 0}};
  const auto found = known.find(name.str());
  return found == known.end() ? -1 : found->second;
}

bool holds_pointers(const llvm::Type* type) {
  if (type->isPointerTy()) return true;
  if (const auto* array = llvm::dyn_cast<llvm::ArrayType>(type))
    return holds_pointers(array->getElementType());
  for (const llvm::Type* part : type->subtypes()) {
    if (holds_pointers(part)) return true;
  }
  return false;
}

bool circles(const llvm::Value* from, const llvm::Value* to, int depth) {
  if (from == to) return true;
  if (depth == 0) return false;
  if (const auto* phi = llvm::dyn_cast<llvm::PHINode>(from)) {
    for (const llvm::Value* in : phi->incoming_values()) {
      if (circles(in, to, depth - 1)) return true;
    }
  } else if (const auto* gep = llvm::dyn_cast<llvm::GEPOperator>(from)) {
    return circles(gep->getPointerOperand(), to, depth - 1);
  }
  return false;
}

}  // namespace

Node Constraints::node(const llvm::Value* v) {
  if (const auto* c = llvm::dyn_cast<llvm::Constant>(v)) return constant(c);
  const auto [at, added] = m_.nodes_.try_emplace(v, kNoNode);
  if (added) at->second = graph_.add_variable();
  return at->second;
}

Node Constraints::constant(const llvm::Constant* c) {
  if (const auto found = m_.nodes_.find(c); found != m_.nodes_.end()) return found->second;
  const Node n = graph_.add_variable();
  m_.nodes_[c] = n;
  if (const auto* f = llvm::dyn_cast<llvm::Function>(c)) {
    const Node location = graph_.location(graph_.add_object(), 0);
    m_.functions_[location] = const_cast<llvm::Function*>(f);
    graph_.address(n, location);
  } else if (const auto* g = llvm::dyn_cast<llvm::GlobalVariable>(c)) {
    const Object object = object_of(g->getValueType());
    graph_.address(n, graph_.location(object, 0));
    if (g->hasInitializer()) {
      initialise(object, 0, g->getInitializer(), g->getName().starts_with("_ZTV"));
    }
  } else if (const auto* alias = llvm::dyn_cast<llvm::GlobalAlias>(c)) {
    graph_.copy(n, constant(alias->getAliasee()));
  } else if (const auto* gep = llvm::dyn_cast<llvm::GEPOperator>(c)) {
    llvm::APInt bytes(64, 0);
    const bool known = gep->accumulateConstantOffset(m_.layout_, bytes);
    graph_.offset(n, node(gep->getPointerOperand()), known ? bytes.getSExtValue() : 0);
  } else if (const auto* e = llvm::dyn_cast<llvm::ConstantExpr>(c)) {
    for (const llvm::Value* operand : e->operands()) graph_.copy(n, node(operand));
  }
  return n;
}

void Constraints::initialise(Object object, std::int64_t at, const llvm::Constant* c, bool apart) {
  llvm::Type* type = c->getType();
  if (type->isPointerTy()) {
    if (!llvm::isa<llvm::ConstantPointerNull>(c) && !llvm::isa<llvm::UndefValue>(c)) {
      const Node place = graph_.location(object, at);
      if (place != kNoNode) graph_.copy(place, constant(c));
    }
  } else if (auto* s = llvm::dyn_cast<llvm::StructType>(type)) {
    const llvm::StructLayout* layout = m_.layout_.getStructLayout(s);
    for (unsigned i = 0; i < s->getNumElements(); ++i) {
      if (const llvm::Constant* part = c->getAggregateElement(i)) {
        initialise(object, at + static_cast<std::int64_t>(layout->getElementOffset(i)), part,
                   apart);
      }
    }
  } else if (llvm::isa<llvm::ConstantArray>(c)) {
    // The elements of an array are one, save in a table of virtual functions.
    const auto size = static_cast<std::int64_t>(
        m_.layout_.getTypeAllocSize(type->getArrayElementType()).getFixedValue());
    for (unsigned i = 0; i < c->getNumOperands(); ++i) {
      initialise(object, apart ? at + i * size : at, llvm::cast<llvm::Constant>(c->getOperand(i)),
                 apart);
    }
  }
}

Node Constraints::fresh(const llvm::Value* site) {
  const Node n = node(site);
  const auto* local = llvm::dyn_cast<llvm::AllocaInst>(site);
  const bool fixed = local != nullptr && !local->isArrayAllocation();
  const Object object = fixed ? object_of(local->getAllocatedType()) : graph_.add_object();
  graph_.address(n, graph_.location(object, 0));
  return n;
}

// A variable of the type: one without pointers is one location.
Object Constraints::object_of(llvm::Type* type) {
  if (!type->isSized()) return graph_.add_object();
  const auto size = static_cast<std::int64_t>(m_.layout_.getTypeAllocSize(type).getFixedValue());
  const Object object = graph_.add_object(std::max<std::int64_t>(size, 1));
  if (!holds_pointers(type)) graph_.collapse(object);
  return object;
}

Object Constraints::extras(const llvm::Function* f) {
  const auto [at, added] = m_.extras_.try_emplace(f, 0);
  if (added) {
    at->second = graph_.add_object();
    graph_.collapse(at->second);
  }
  return at->second;
}

void Constraints::step(llvm::GEPOperator& gep) {
  llvm::APInt bytes(64, 0);
  std::int64_t constant_part = 0;
  if (gep.accumulateConstantOffset(m_.layout_, bytes)) {
    constant_part = bytes.getSExtValue();
    if (circles(gep.getPointerOperand(), &gep, 4)) constant_part = 0;
  } else {
    // An index stays in its array; fields beneath it are told apart.
    llvm::MapVector<llvm::Value*, llvm::APInt> indices;
    llvm::APInt rest(64, 0);
    if (gep.collectOffset(m_.layout_, 64, indices, rest)) constant_part = rest.getSExtValue();
    if (circles(gep.getPointerOperand(), &gep, 4)) constant_part = 0;
  }
  graph_.offset(node(&gep), node(gep.getPointerOperand()), constant_part);
}

void Constraints::instruction(llvm::Instruction& i) {
  if (auto* a = llvm::dyn_cast<llvm::AllocaInst>(&i)) {
    fresh(a);
  } else if (auto* l = llvm::dyn_cast<llvm::LoadInst>(&i)) {
    if (l->getType()->isPointerTy()) {
      graph_.load(node(l), node(l->getPointerOperand()));
    }
  } else if (auto* s = llvm::dyn_cast<llvm::StoreInst>(&i)) {
    llvm::Type* type = s->getValueOperand()->getType();
    if (type->isPointerTy()) {
      graph_.store(node(s->getPointerOperand()), node(s->getValueOperand()));
    }
  } else if (auto* gep = llvm::dyn_cast<llvm::GEPOperator>(&i)) {
    step(*gep);
  } else if (auto* c = llvm::dyn_cast<llvm::CallBase>(&i)) {
    call(*c);
  } else if (auto* r = llvm::dyn_cast<llvm::ReturnInst>(&i)) {
    if (r->getReturnValue() != nullptr) {
      graph_.copy(m_.returns_[r->getFunction()], node(r->getReturnValue()));
    }
  } else if (llvm::isa<llvm::PHINode, llvm::SelectInst, llvm::CastInst, llvm::ExtractValueInst,
                       llvm::InsertValueInst, llvm::FreezeInst>(i)) {
    if (i.getType()->isIntegerTy() && !i.getType()->isIntegerTy(64)) return;
    for (llvm::Value* operand : i.operands()) {
      if (!operand->getType()->isIntegerTy(1)) graph_.copy(node(&i), node(operand));
    }
  } else if (auto* x = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&i)) {
    graph_.store(node(x->getPointerOperand()), node(x->getNewValOperand()));
    graph_.load(node(x), node(x->getPointerOperand()));
  } else if (auto* a = llvm::dyn_cast<llvm::AtomicRMWInst>(&i)) {
    graph_.store(node(a->getPointerOperand()), node(a->getValOperand()));
    graph_.load(node(a), node(a->getPointerOperand()));
  }
}

void Constraints::copy_memory(const llvm::Value* to, const llvm::Value* from,
                              const llvm::Value* size) {
  std::int64_t bytes = 64;
  if (const auto* known = llvm::dyn_cast_or_null<llvm::ConstantInt>(size)) {
    bytes = std::min<std::int64_t>(known->getSExtValue(), 512);
  }
  for (std::int64_t at = 0; at + 8 <= bytes; at += 8) {
    const Node value = graph_.add_variable();
    const Node source = graph_.add_variable();
    const Node target = graph_.add_variable();
    graph_.offset(source, node(from), at);
    graph_.offset(target, node(to), at);
    graph_.load(value, source);
    graph_.store(target, value);
  }
}

void Constraints::library(llvm::CallBase& call, llvm::StringRef name) {
  if (const auto* copy = llvm::dyn_cast<llvm::MemTransferInst>(&call)) {
    copy_memory(copy->getDest(), copy->getSource(), copy->getLength());
    return;
  }
  if (llvm::isa<llvm::VAStartInst>(call)) {
    const Node pack = graph_.add_variable();
    graph_.address(pack, graph_.location(extras(call.getFunction()), 0));
    for (const int at : {8, 16}) {
      const Node field = graph_.add_variable();
      graph_.offset(field, node(call.getArgOperand(0)), at);
      graph_.store(field, pack);
    }
    return;
  }
  if (llvm::isa<llvm::VACopyInst>(call)) {
    const auto* size = llvm::ConstantInt::get(llvm::Type::getInt64Ty(call.getContext()), 24);
    copy_memory(call.getArgOperand(0), call.getArgOperand(1), size);
    return;
  }
  if (name == "memcpy" || name == "memmove") {
    if (call.arg_size() > 2) {
      copy_memory(call.getArgOperand(0), call.getArgOperand(1), call.getArgOperand(2));
    }
  }
  if (!call.getType()->isPointerTy()) return;
  fresh(&call);
  const int argument = returned_argument(name);
  if (argument >= 0 && static_cast<unsigned>(argument) < call.arg_size()) {
    graph_.copy(node(&call), node(call.getArgOperand(static_cast<unsigned>(argument))));
    if (name.starts_with("realloc")) copy_memory(&call, call.getArgOperand(0), nullptr);
  }
}

// The body is taken as called with what it gets from the call.
void Constraints::connect(llvm::CallBase& call, llvm::Function& callee) {
  Functions& known = m_.callees_[&call];
  if (std::find(known.begin(), known.end(), &callee) != known.end()) return;
  known.push_back(&callee);
  m_.callers_[&callee].push_back(&call);
  for (llvm::Argument& parameter : callee.args()) {
    const int at = Memory::argument_for(call, &callee, static_cast<int>(parameter.getArgNo()));
    if (at >= 0 && at < static_cast<int>(call.arg_size())) {
      graph_.copy(node(&parameter), node(call.getArgOperand(static_cast<unsigned>(at))));
    }
  }
  if (callee.isVarArg()) {
    const Node pack = graph_.location(extras(&callee), 0);
    for (unsigned a = static_cast<unsigned>(callee.arg_size()); a < call.arg_size(); ++a) {
      graph_.copy(pack, node(call.getArgOperand(a)));
    }
  }
  const bool direct = call.getCalledFunction() == &callee || call.isIndirectCall();
  if (direct && !call.getType()->isVoidTy()) graph_.copy(node(&call), m_.returns_[&callee]);
}

// A function without a body calls the functions it is given, with what else it is given: a `void *`
// that it keeps for them.
void Constraints::pass_function(llvm::CallBase& call) {
  if (call.getCalledFunction() != nullptr && call.getCalledFunction()->isIntrinsic()) return;
  for (llvm::Value* argument : call.args()) {
    if (!argument->getType()->isPointerTy()) continue;
    auto* f = llvm::dyn_cast<llvm::Function>(argument->stripPointerCasts());
    if (f == nullptr || f->isDeclaration()) continue;
    connect(call, *f);
    for (llvm::Argument& parameter : f->args()) {
      if (!parameter.getType()->isPointerTy() ||
          Memory::argument_for(call, f, static_cast<int>(parameter.getArgNo())) >= 0) {
        continue;
      }
      for (llvm::Value* given : call.args()) {
        if (given != argument && given->getType()->isPointerTy())
          graph_.copy(node(&parameter), node(given));
      }
    }
  }
}

// Whether a call through a pointer can mean the function: one of another type only looks alike.
bool Constraints::fits(const llvm::CallBase& call, const llvm::Function& f) {
  if (f.getFunctionType() == call.getFunctionType()) return true;
  if (f.isVarArg() || call.getFunctionType()->isVarArg()) return f.arg_size() <= call.arg_size();
  if (f.arg_size() != call.arg_size()) return false;
  if (!call.use_empty() && f.getReturnType() != call.getType()) return false;
  for (const llvm::Argument& parameter : f.args()) {
    if (parameter.getType() != call.getArgOperand(parameter.getArgNo())->getType()) return false;
  }
  return true;
}

void Constraints::call(llvm::CallBase& call) {
  if (llvm::isa<llvm::DbgInfoIntrinsic>(call) || call.isInlineAsm()) return;
  llvm::Value* target = call.getCalledOperand()->stripPointerCasts();
  if (auto* alias = llvm::dyn_cast<llvm::GlobalAlias>(target)) target = alias->getAliaseeObject();
  if (auto* f = llvm::dyn_cast<llvm::Function>(target)) {
    if (!f->isDeclaration()) {
      connect(call, *f);
    } else {
      library(call, f->getName());
      pass_function(call);
    }
    return;
  }
  graph_.watch(node(target), [this, &call](Node location) {
    const auto found = m_.functions_.find(location);
    if (found == m_.functions_.end()) return;
    llvm::Function& f = *found->second;
    if (f.isDeclaration()) {
      library(call, f.getName());
      m_.externals_[&call].push_back(&f);
    } else if (fits(call, f) && fields_.may_hold(call, f)) {
      connect(call, f);
    }
  });
}

void Constraints::add_program() {
  llvm::Module& module = m_.program_.module();
  for (llvm::Function& f : module) m_.returns_[&f] = graph_.add_variable();
  for (llvm::GlobalVariable& g : module.globals()) {
    node(&g);
    m_.global_ids_.try_emplace(&g, static_cast<std::uint32_t>(m_.global_ids_.size()));
  }
  for (llvm::Function& f : module) {
    if (f.isDeclaration()) continue;
    for (llvm::Argument& a : f.args()) {
      node(&a);
      // Who calls a library's function is not seen; what he gives is something of his own.
      if (f.use_empty() && f.getName() != "main" && a.getType()->isPointerTy()) fresh(&a);
      if (f.getName() == "main" && a.getType()->isPointerTy()) {
        const Node strings = graph_.add_variable();
        fresh(&a);
        graph_.address(strings, graph_.location(graph_.add_object(), 0));
        graph_.store(node(&a), strings);
      }
    }
    for (llvm::Instruction& i : llvm::instructions(f)) instruction(i);
  }
}

}  // namespace lint
