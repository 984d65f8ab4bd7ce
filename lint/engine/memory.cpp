// Answers from the solved points-to graph (memory.h).
#include "memory.h"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

#include "circles.h"
#include "constraints.h"

namespace lint {

// What a call of C++'s library returns as it was given: `out << x` is `out`.
const llvm::Value* returned_as_it_is(const llvm::Value* v) {
  const auto* call = llvm::dyn_cast<llvm::CallBase>(v);
  const llvm::Function* f = call != nullptr ? call->getCalledFunction() : nullptr;
  if (f == nullptr || !f->hasFnAttribute(kReturnsFirst)) return nullptr;
  return call->arg_empty() ? nullptr : call->getArgOperand(0);
}

Address address_of(const llvm::Value* v, const llvm::DataLayout& layout, bool through_index) {
  Address a{v, 0};
  for (;;) {
    if (const auto* gep = llvm::dyn_cast<llvm::GEPOperator>(a.root)) {
      llvm::APInt bytes(64, 0);
      if (gep->accumulateConstantOffset(layout, bytes)) {
        if (a.offset != kAnyOffset) a.offset += bytes.getSExtValue();
      } else if (through_index) {
        a.offset = kAnyOffset;
      } else {
        return a;
      }
      a.root = gep->getPointerOperand();
    } else if (const auto* cast = llvm::dyn_cast<llvm::CastInst>(a.root);
               cast != nullptr && !cast->getSrcTy()->isFloatingPointTy() &&
               !cast->getSrcTy()->isIntegerTy(1)) {
      a.root = cast->getOperand(0);
    } else if (const llvm::Value* same = returned_as_it_is(a.root); same != nullptr) {
      a.root = same;
    } else if (const auto* freeze = llvm::dyn_cast<llvm::FreezeInst>(a.root)) {
      a.root = freeze->getOperand(0);
    } else if (const auto* e = llvm::dyn_cast<llvm::ConstantExpr>(a.root);
               e != nullptr && e->isCast()) {
      a.root = e->getOperand(0);
    } else {
      return a;
    }
  }
}

// Gives memory back and writes to none that is still there.
static bool only_frees(const llvm::Function* f) {
  static const std::set<llvm::StringRef> names{"free",    "cfree",  "realloc", "reallocarray",
                                               "_ZdlPv",  "_ZdaPv", "fclose",  "closedir",
                                               "_ZdlPvm", "_ZdaPvm"};
  return f != nullptr && f->isDeclaration() && names.count(f->getName()) != 0;
}

// Ends the process: nobody sees what was written before. Other functions that do not come back jump
// to where a longjmp, a handler or another thread goes on, or may: those that are not known.
static bool ends_process(const llvm::Function& f) {
  static const std::set<llvm::StringRef> names{
      "exit",       "_exit",          "_Exit",           "quick_exit",
      "abort",      "__assert_fail",  "__assert",        "__assert_perror_fail",
      "__chk_fail", "__fortify_fail", "__libc_fatal",    "__stack_chk_fail",
      "err",        "error",          "error_at_line",   "errx",
      "verr",       "verrx",          "_ZSt9terminatev", "__cxa_pure_virtual"};
  return f.isIntrinsic() || names.count(f.getName()) != 0;
}

Memory::Memory(Program& program, const Progress& progress)
    : program_(program), layout_(program.module().getDataLayout()) {
  progress("pointers", 0, 1);
  Constraints constraints(*this);
  constraints.add_program();
  graph_.solve([&](std::size_t done, std::size_t all) { progress("pointers", done, all); });
  find_hidden();
  sum_up(progress);
}

// Variables that are only read and written by name, in the one part of the program that knows it.
void Memory::find_hidden() {
  for (const llvm::GlobalVariable& g : program_.module().globals()) {
    const bool hidden = g.hasLocalLinkage() && llvm::all_of(g.uses(), [](const llvm::Use& use) {
                          const auto* store = llvm::dyn_cast<llvm::StoreInst>(use.getUser());
                          return llvm::isa<llvm::LoadInst>(use.getUser()) ||
                                 (store != nullptr &&
                                  use.getOperandNo() == llvm::StoreInst::getPointerOperandIndex());
                        });
    if (hidden) hidden_.merge(points(&g));
  }
}

const Bits* Memory::kept(const Bits& set) const { return &*sets_.insert(set).first; }

Cells Memory::points(const llvm::Value* v) const {
  const auto [at, added] = points_.try_emplace(v, nullptr);
  if (added) {
    const auto found = nodes_.find(v);
    at->second = kept(found == nodes_.end() ? Bits() : graph_.set(found->second));
  }
  return Cells(at->second);
}

void Memory::add_shifted(Bits& out, const Bits& from, std::int64_t bytes) const {
  auto& graph = const_cast<PointsTo&>(graph_);
  from.each([&](Node l) {
    if (l == kAnywhere) return;
    const Node at =
        graph.location(graph.object_of(l), bytes == kAnyOffset ? 0 : graph.offset_of(l) + bytes);
    if (at != kNoNode) out.set(graph.canonical(at));
  });
}

Cells Memory::cells(const llvm::Value* root, std::int64_t offset) const {
  const Cells known = points(root);
  if (known.test(kAnywhere)) return known;
  const auto [at, added] = shifted_.try_emplace({known.set_, offset}, nullptr);
  if (added) {
    Bits out;
    add_shifted(out, known, offset);
    at->second = kept(out);
  }
  return Cells(at->second);
}

Cells Memory::follow(Cells cells, std::int64_t bytes) const {
  if (cells.test(kAnywhere)) return cells;
  const auto [at, added] = followed_.try_emplace({cells.set_, bytes}, nullptr);
  if (added) {
    Bits out;
    cells.each([&](Node cell) {
      const Bits targets = graph_.set(cell);  // a copy: to ask for locations may make new ones
      if (targets.test(kAnywhere)) out.set(kAnywhere);
      add_shifted(out, targets, bytes);
    });
    at->second = kept(out);
  }
  return Cells(at->second);
}

Bits Memory::objects(const Bits& locations) const {
  Bits out;
  locations.each([&](Node l) { out.set(graph_.object_of(l)); });
  return out;
}

bool Memory::lead_inside(const Bits& locations) const {
  bool inside = false;
  locations.each([&](Node l) { inside |= l != kAnywhere && graph_.offset_of(l) != 0; });
  return inside;
}

const llvm::Value* written_by(const llvm::Instruction& i) {
  if (const auto* atomic = llvm::dyn_cast<llvm::AtomicRMWInst>(&i))
    return atomic->getPointerOperand();
  if (const auto* atomic = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&i))
    return atomic->getPointerOperand();
  const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
  return store != nullptr ? store->getPointerOperand() : nullptr;
}

const Functions& Memory::callees(const llvm::CallBase& call) const {
  static const Functions none;
  const auto found = callees_.find(&call);
  return found == callees_.end() ? none : found->second;
}

const Functions& Memory::externals(const llvm::CallBase& call) const {
  static const Functions none;
  const auto found = externals_.find(&call);
  return found == externals_.end() ? none : found->second;
}

const std::vector<const llvm::CallBase*>& Memory::callers(const llvm::Function* f) const {
  static const std::vector<const llvm::CallBase*> none;
  const auto found = callers_.find(f);
  return found == callers_.end() ? none : found->second;
}

int Memory::argument_for(const llvm::CallBase& call, const llvm::Function* callee, int parameter) {
  const llvm::Function* called = call.getCalledFunction();
  if (called == callee || call.isIndirectCall()) return parameter;
  if (called == nullptr) return parameter;
  if (called->getName() == "pthread_create") return parameter == 0 ? 3 : -1;
  if (called->getName() == "qsort") return parameter < 2 ? 0 : -1;
  if (called->getName() == "bsearch") return parameter == 0 ? 0 : parameter == 1 ? 1 : -1;
  return called->isDeclaration() ? -1 : parameter;
}

bool Memory::may_write(const llvm::CallBase& call, Cells cells) const {
  if (may_write_.size() > kMostAnswers) may_write_.clear();
  const auto [at, added] = may_write_.try_emplace({&call, cells.set_}, false);
  if (added) at->second = writes(call, cells);
  return at->second;
}

bool Memory::writes(const llvm::CallBase& call, const Bits& cells) const {
  const Functions& targets = callees(call);
  for (const llvm::Function* f : targets) {
    const Effects* e = effects(f);
    if (e == nullptr) continue;
    if (cells.empty() ? e->writes_unknown : !e->writes.empty() && meet(e->writes, cells))
      return true;
  }
  const llvm::Function* called = call.getCalledFunction();
  if (called != nullptr && !called->isDeclaration()) return false;
  if ((called == nullptr && !targets.empty()) || only_frees(called)) return false;
  for (unsigned a = 0; a < call.arg_size(); ++a) {
    if (!call.getArgOperand(a)->getType()->isPointerTy() || call.onlyReadsMemory(a) ||
        call.onlyReadsMemory()) {
      continue;
    }
    if (!cells.empty() && meet(points(call.getArgOperand(a)), cells)) return true;
  }
  return false;
}

bool Memory::mentions(const llvm::Function* f, const llvm::Value* global) const {
  const Effects* e = effects(f);
  const auto id = global_ids_.find(global);
  return e == nullptr || id == global_ids_.end() || e->globals.test(id->second);
}

// What each function writes and mentions, with what it calls; functions that call each other share
// it.
void Memory::sum_up(const Progress& progress) {
  std::vector<const llvm::Function*> functions;
  llvm::DenseMap<const llvm::Function*, std::uint32_t> ids;
  for (const llvm::Function& f : program_.module()) {
    if (f.isDeclaration()) continue;
    ids[&f] = static_cast<std::uint32_t>(functions.size());
    functions.push_back(&f);
  }
  Graph callers_of;
  std::vector<bool> comes_back;  // by edge
  for (const llvm::Function* f : functions) {
    for (const llvm::CallBase* site : callers(f)) {
      callers_of.targets.push_back(ids.lookup(site->getFunction()));
      comes_back.push_back(!program_.ends(*site));
    }
    callers_of.end_node();
  }
  // What is written on the way to the process's end nobody sees.
  std::vector<bool> jumps(functions.size(), false);
  std::vector<std::uint32_t> jumping;
  for (std::uint32_t f = 0; f < functions.size(); ++f) {
    if (may_jump(*functions[f])) jumping.push_back(f);
  }
  while (!jumping.empty()) {
    const std::uint32_t f = jumping.back();
    jumping.pop_back();
    if (jumps[f]) continue;
    jumps[f] = true;
    for (std::uint32_t t = callers_of.begin[f]; t != callers_of.begin[f + 1]; ++t)
      jumping.push_back(callers_of.targets[t]);
  }
  const Components found = components(callers_of);
  effects_.resize(found.count);
  std::vector<std::vector<std::uint32_t>> members(found.count);
  for (std::uint32_t f = 0; f < functions.size(); ++f) {
    circle_of_[functions[f]] = found.of[f];
    members[found.of[f]].push_back(f);
    add_own(*functions[f], effects_[found.of[f]]);
  }
  // Callers come before what they call.
  std::vector<std::uint32_t> merged(found.count, ~std::uint32_t{0});
  for (std::uint32_t c = found.count; c-- > 0;) {
    if ((c & 255) == 0) progress("effects", found.count - c, found.count);
    for (const std::uint32_t f : members[c]) {
      for (std::uint32_t t = callers_of.begin[f]; t != callers_of.begin[f + 1]; ++t) {
        const std::uint32_t above = found.of[callers_of.targets[t]];
        if (above == c || merged[above] == c) continue;
        effects_[above].globals.merge(effects_[c].globals);
        if (!comes_back[t] && !jumps[f]) continue;
        merged[above] = c;
        effects_[above].writes.merge(effects_[c].writes);
        effects_[above].writes_unknown |= effects_[c].writes_unknown;
      }
    }
  }
}

// Whether a call in it, which does not come back, may go on elsewhere in the program.
bool Memory::may_jump(const llvm::Function& f) const {
  return llvm::any_of(llvm::instructions(f), [this](const llvm::Instruction& i) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    if (call == nullptr || !program_.ends(*call) || call->isInlineAsm()) return false;
    if (const llvm::Function* called = call->getCalledFunction())
      return called->isDeclaration() && !ends_process(*called);
    const Functions& others = externals(*call);
    if (others.empty()) return callees(*call).empty();
    return llvm::any_of(others, [](const llvm::Function* o) { return !ends_process(*o); });
  });
}

bool Memory::is_anew(const llvm::Value* address) const {
  return llvm::isa<llvm::AllocaInst>(address_of(address, layout_, true).root);
}

void Memory::add_own(const llvm::Function& f, Effects& own) const {
  for (const llvm::Instruction& i : llvm::instructions(f)) {
    if (const llvm::Value* written = written_by(i)) {
      const Cells to = points(written);
      if (!is_anew(written)) {
        own.writes.merge(to);
        own.writes_unknown |= to.empty();
      }
    } else if (const auto* c = llvm::dyn_cast<llvm::CallBase>(&i)) {
      const llvm::Function* called = c->getCalledFunction();
      if (called != nullptr && called->isDeclaration() && !c->onlyReadsMemory() &&
          !only_frees(called)) {
        for (unsigned a = 0; a < c->arg_size(); ++a) {
          if (c->getArgOperand(a)->getType()->isPointerTy() && !c->onlyReadsMemory(a) &&
              !is_anew(c->getArgOperand(a))) {
            own.writes.merge(points(c->getArgOperand(a)));
          }
        }
      }
    }
    for (const llvm::Value* operand : i.operands()) {
      const auto id = global_ids_.find(address_of(operand, layout_, true).root);
      if (id != global_ids_.end()) own.globals.set(id->second);
    }
  }
}

const Memory::Effects* Memory::effects(const llvm::Function* f) const {
  const auto found = circle_of_.find(f);
  return found == circle_of_.end() ? nullptr : &effects_[found->second];
}

}  // namespace lint
