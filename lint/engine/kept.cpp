// What a caller read from a place before it called what gives that back, and speaks of behind the
// call: a setter frees the old text, its caller has it still. And what a thread gave back, where it
// has ended (solver.h).
#include <llvm/IR/InstIterator.h>

#include "conditions.h"
#include "solver.h"

namespace lint {
namespace {

// Whether the function comes by the call before it ends, or finds null there.
bool is_on_each_way(const llvm::CallBase& call, const llvm::DominatorTree& tree) {
  const llvm::BasicBlock* before = call.getParent()->getSinglePredecessor();
  const bool asked = before != nullptr && asks_for_null(*before->getTerminator(), call);
  const llvm::BasicBlock* block = asked ? before : call.getParent();
  return llvm::all_of(llvm::instructions(*call.getFunction()), [&](const llvm::Instruction& i) {
    return !llvm::isa<llvm::ReturnInst>(i) || tree.dominates(block, i.getParent());
  });
}

const llvm::Function* called(const llvm::User* user) {
  const auto* call = llvm::dyn_cast<llvm::CallBase>(user);
  return call != nullptr ? call->getCalledFunction() : nullptr;
}

}  // namespace

// Begins in the callers, where what the name leads to at the function's start is given back by the
// call: there it has the names that they read from the place.
void Solver::begin_kept(const Fact& fact, const Name& name, const llvm::CallBase& call,
                        TraceId trace, const llvm::Instruction& origin, int depth) {
  const llvm::Function& f = *call.getFunction();
  const llvm::Instruction& start = f.getEntryBlock().front();
  const Cells cells = name_cells(name, 0);
  if (name.steps != 1 || name.offsets[0] == kAnyOffset ||
      !llvm::isa<llvm::Argument, llvm::GlobalVariable>(name.root) || writes(start, cells) ||
      llvm::isa<llvm::StoreInst>(start) || !is_on_each_way(call, dominators(f)) ||
      (&call != &start && !untouched(start, call, cells, {name.root, name.offsets[0]}))) {
    return;
  }
  for (const llvm::CallBase* site : memory_.callers(&f)) {
    if (site->getCalledFunction() != &f || program_.ends(*site) ||
        !rules_for(fact.property, *site).empty()) {
      continue;
    }
    if ((steps_ += 30) > most_work_) return;
    Name outer = name;
    if (const auto* parameter = llvm::dyn_cast<llvm::Argument>(name.root)) {
      const Address a = address(site->getArgOperand(parameter->getArgNo()), fact);
      if (a.offset == kAnyOffset || llvm::isa<llvm::ConstantData>(a.root)) continue;
      outer.root = a.root;
      outer.offsets[0] += a.offset;
    }
    Fact kept = fact;
    kept.names.clear();
    recall(kept, outer, *site, true);
    const TraceId back = event(trace, site, {"", "comes back from ", &f});
    if (!kept.names.empty()) begin(site, true, kept, conditions_at(*site), back, &origin, kNone);
    if (depth > 0) begin_kept(fact, outer, *site, back, origin, depth - 1);
  }
}

// Where the thread that the call makes has ended; null if nobody waits for it there.
const llvm::CallBase* Solver::joined(const llvm::CallBase& create) {
  const llvm::Function* made = called(&create);
  if (made == nullptr || made->getName() != "pthread_create") return nullptr;
  const llvm::CallBase* join = nullptr;
  for (const llvm::User* user : create.getArgOperand(0)->users()) {
    const auto* id = llvm::dyn_cast<llvm::LoadInst>(user);
    if (id == nullptr) continue;
    for (const llvm::User* other : id->users()) {
      const llvm::Function* waits = called(other);
      if (waits == nullptr || waits->getName() != "pthread_join") continue;
      const auto* call = llvm::cast<llvm::CallBase>(other);
      if (join != nullptr || !dominators(*create.getFunction()).dominates(&create, call))
        return nullptr;
      join = call;
    }
  }
  return join;
}

// A longjmp goes on where setjmp comes back for the second time, and what variables lead to is
// known there.
void Solver::jump_back(const State& state, const llvm::CallBase& call) {
  const llvm::Function* f = called(&call);
  if (f == nullptr || !f->getName().ends_with("longjmp") || call.arg_empty() ||
      property(state.fact).track != Track::kObject || !contexts_[state.context].is_root) {
    return;
  }
  Fact fact = state.fact;
  std::erase_if(fact.names, [](const Name& n) { return !llvm::isa<llvm::GlobalVariable>(n.root); });
  if (!fact.has_object()) return;
  const llvm::CallBase* set = nullptr;
  for (const char* name : {"_setjmp", "setjmp", "__sigsetjmp", "sigsetjmp"}) {
    const llvm::Function* sets = program_.module().getFunction(name);
    if (sets == nullptr) continue;
    for (const llvm::User* user : sets->users()) {
      const auto* site = llvm::dyn_cast<llvm::CallBase>(user);
      if (called(user) != sets || !memory_.meet(memory_.cells_of(site->getArgOperand(0)),
                                                memory_.cells_of(call.getArgOperand(0)))) {
        continue;
      }
      if (set != nullptr) return;  // which of the two is not known
      set = site;
    }
  }
  if (set == nullptr) return;
  Known known;
  const Range any = Range(llvm::APInt(32, 0)).inverse();
  Known here = state.known;
  const auto given = call.arg_size() > 1
                         ? Reasoning(here, state.fact, Track::kObject).range(call.getArgOperand(1))
                         : std::nullopt;
  if (given && given->getBitWidth() == 32) {
    const bool null = given->isSingleElement() && given->getSingleElement()->isZero();
    known.set(set, null ? Range(llvm::APInt(32, 1)) : given->intersectWith(any));
  } else {
    known.set(set, any);
  }
  for (const Flag& flag : flags(state)) {
    if (llvm::isa<llvm::GlobalVariable>(flag.at.root)) known.set_cell(flag.at, flag.value);
  }
  // What the function keeps in its own variables for the way back is not followed.
  fact.guess |= llvm::any_of(llvm::instructions(*set->getFunction()), [](const auto& i) {
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(&i);
    return load != nullptr && load->isVolatile();
  });
  const TraceId trace = event(state.trace, set, {"", "comes back by ", f});
  begin(set, true, std::move(fact), std::move(known), trace, &call, kNone);
}

}  // namespace lint
