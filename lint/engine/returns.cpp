// What calls return (returns.h).
#include "returns.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

#include <map>
#include <memory>
#include <set>

#include "conditions.h"

namespace lint {
namespace {

constexpr int kMostCalls = 4;            // one in the other, whose constants are followed
constexpr int kMostMerges = 6;           // of values, one in the other
constexpr int kMostValues = 256;         // of one function
constexpr std::size_t kLargest = 4'000;  // instructions, of a function that is looked at

// Nothing: it does not return. Full: it may return anything, or nothing that is a number.
using Result = std::optional<Range>;
using Given = std::vector<std::pair<unsigned, std::int64_t>>;  // parameters that
                                                               // are one number
const Range kAny = Range::getFull(64);

class Returns {
 public:
  explicit Returns(const Program& program) : program_(program) {}

  Result of(const llvm::CallBase& call, const Known& known, int depth);
  // Functions before those that call them, so that what is called is known.
  void begin(const llvm::Function& f);

 private:
  struct Facts_ {
    llvm::DominatorTree tree;
    std::vector<char> asked;  // by parameter: whether the result can hang on it
    std::vector<const llvm::CallBase*> calls;
    bool large = false;
  };
  struct View {  // of a function that is given something
    Known known;
    std::set<const llvm::BasicBlock*> reached,
        left;  // left: its end is reached, too
  };
  const Facts_& facts(const llvm::Function& f);
  Result compute(const llvm::Function& f, const Given& given, int depth);
  void look(const llvm::Function& f, View& view) const;
  Range at(const llvm::Value* v, const llvm::Instruction& place, const llvm::BasicBlock* to,
           const View& view, const Facts_& facts, int depth);

  const Program& program_;
  int values_left_ = 0;
  std::map<const llvm::Function*, Facts_> facts_;
  std::map<std::pair<const llvm::Function*, Given>, Result> known_;
  std::set<std::pair<const llvm::Function*, Given>> open_;
};

const Returns::Facts_& Returns::facts(const llvm::Function& f) {
  const auto [at, added] = facts_.try_emplace(&f);
  Facts_& facts = at->second;
  if (!added) return facts;
  facts.large = f.getInstructionCount() > kLargest;
  facts.asked.resize(f.arg_size(), 0);
  if (facts.large) return facts;
  facts.tree.recalculate(const_cast<llvm::Function&>(f));
  for (const llvm::Argument& a : f.args()) {
    facts.asked[a.getArgNo()] = llvm::any_of(a.users(), [](const llvm::User* user) {
      return !llvm::isa<llvm::StoreInst, llvm::GetElementPtrInst, llvm::LoadInst>(user);
    });
  }
  for (const llvm::Instruction& i : llvm::instructions(f)) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    const llvm::Function* callee = call != nullptr ? call->getCalledFunction() : nullptr;
    if (callee != nullptr && !callee->isDeclaration()) facts.calls.push_back(call);
  }
  return facts;
}

void Returns::begin(const llvm::Function& f) {
  std::vector<std::pair<const llvm::Function*, std::size_t>> work{{&f, 0}};
  while (!work.empty()) {
    auto& [one, next] = work.back();
    const Facts_& all = facts(*one);
    if (next == 0 && known_.contains({one, {}})) {
      work.pop_back();
      continue;
    }
    if (next < all.calls.size()) {
      const llvm::Function* callee = all.calls[next++]->getCalledFunction();
      const bool waits = llvm::any_of(work, [&](const auto& w) { return w.first == callee; });
      if (!waits && !known_.contains({callee, {}})) work.emplace_back(callee, 0);
      continue;
    }
    const llvm::Function* done = one;
    work.pop_back();
    known_.emplace(std::pair{done, Given{}}, compute(*done, {}, 0));
  }
}

Result Returns::of(const llvm::CallBase& call, const Known& known, int depth) {
  const llvm::Function* f = call.getCalledFunction();
  if (program_.ends(call)) return std::nullopt;
  if (f == nullptr || f->isDeclaration() || f->isInterposable()) return kAny;
  const Facts_& all = facts(*f);
  if (all.large) return kAny;
  Given given;
  Known copy = known;
  const Fact none;
  const Reasoning reasoning(copy, none, Track::kAddress);
  for (unsigned a = 0; a < f->arg_size() && a < call.arg_size() && depth < kMostCalls; ++a) {
    const auto range = all.asked[a] != 0 ? reasoning.range(call.getArgOperand(a)) : std::nullopt;
    if (range && range->isSingleElement() &&
        call.getArgOperand(a)->getType() == f->getArg(a)->getType())
      given.emplace_back(a, range->getSingleElement()->getSExtValue());
  }
  if (const auto found = known_.find({f, given}); found != known_.end()) return found->second;
  if (depth >= kMostCalls || !open_.emplace(f, given).second) return kAny;
  const Result result = compute(*f, given, depth + 1);
  open_.erase({f, given});
  known_.emplace(std::pair{f, given}, result);
  return result;
}

// Which blocks are reached.
void Returns::look(const llvm::Function& f, View& view) const {
  std::vector<const llvm::BasicBlock*> work{&f.getEntryBlock()};
  view.reached.insert(work[0]);
  const Fact none;
  while (!work.empty()) {
    const llvm::BasicBlock* block = work.back();
    work.pop_back();
    const bool cut = llvm::any_of(*block, [&](const llvm::Instruction& i) {
      const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
      const Range* result = call != nullptr ? view.known.find(call) : nullptr;
      return call != nullptr && (program_.ends(*call) || (result && result->isEmptySet()));
    });
    if (cut) continue;
    view.left.insert(block);
    for (const llvm::BasicBlock* next : llvm::successors(block)) {
      Known known = view.known;
      Reasoning reasoning(known, none, Track::kAddress);
      if (assume_edge(reasoning, *block->getTerminator(), *next) &&
          view.reached.insert(next).second)
        work.push_back(next);
    }
  }
}

// What the value can be at a place, or on the edge from it to a block.
Range Returns::at(const llvm::Value* v, const llvm::Instruction& place, const llvm::BasicBlock* to,
                  const View& view, const Facts_& facts, int depth) {
  const Range any = *full_range(v->getType());
  const Range none(any.getBitWidth(), false);
  Known known = view.known;
  const Fact nothing;
  Reasoning reasoning(known, nothing, Track::kAddress);
  const Edges edges = edges_above(facts.tree, place);
  for (auto e = edges.rbegin(); e != edges.rend(); ++e) {
    if (!assume_edge(reasoning, *e->first, *e->second)) return none;
  }
  if (to != nullptr && !assume_edge(reasoning, place, *to)) return none;
  Range all = reasoning.range(v).value_or(any);
  const auto* phi = llvm::dyn_cast<llvm::PHINode>(v);
  if (phi == nullptr || depth == 0 || --values_left_ < 0) return all;
  Range merged = none;
  for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i) {
    const llvm::BasicBlock* from = phi->getIncomingBlock(i);
    const llvm::Value* in = phi->getIncomingValue(i);
    if (in == phi || !view.left.contains(from)) continue;
    merged =
        merged.unionWith(at(in, *from->getTerminator(), phi->getParent(), view, facts, depth - 1));
  }
  return all.intersectWith(merged);
}

Result Returns::compute(const llvm::Function& f, const Given& given, int depth) {
  const Facts_& all = facts(f);
  if (all.large) return kAny;
  View view;
  const auto give = [&] {
    for (const auto& [parameter, number] : given) {
      const llvm::Argument* a = f.getArg(parameter);
      const unsigned width = full_range(a->getType())->getBitWidth();
      view.known.set(a, Range(llvm::APInt(width, static_cast<std::uint64_t>(number), true)));
    }
  };
  give();
  for (const llvm::CallBase* call : all.calls) {
    const Result result = of(*call, view.known, depth);
    const auto full = full_range(call->getType());
    if (!result)
      view.known.set(call, Range(full ? full->getBitWidth() : 1, false));
    else if (full && full->getBitWidth() == result->getBitWidth() && !result->isFullSet())
      view.known.set(call, *result);
  }
  give();  // once more: what is known is bounded, and the oldest goes first
  look(f, view);
  Result result;
  values_left_ = kMostValues;
  for (const llvm::BasicBlock* block : view.left) {
    if (llvm::isa<llvm::ResumeInst>(block->getTerminator())) return kAny;
    const auto* end = llvm::dyn_cast<llvm::ReturnInst>(block->getTerminator());
    if (end == nullptr) continue;
    const llvm::Value* value = end->getReturnValue();
    if (value == nullptr || !full_range(value->getType())) return kAny;
    const Range one = at(value, *end, nullptr, view, all, kMostMerges);
    result = result ? result->unionWith(one) : one;
  }
  if (result && result->isEmptySet()) return std::nullopt;
  return result;
}

}  // namespace

bool note_returns(Program& program, const Progress& progress) {
  Returns returns(program);
  const std::size_t functions = program.module().size();
  std::size_t done = 0;
  for (const llvm::Function& f : program.module()) {
    progress("returns", done++, 2 * functions);
    if (!f.isDeclaration()) returns.begin(f);
  }
  std::vector<std::pair<llvm::CallBase*, Result>> found;
  for (llvm::Function& f : program.module()) {
    progress("returns", done++, 2 * functions);
    for (llvm::Instruction& i : llvm::instructions(f)) {
      auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
      if (call == nullptr || call->getCalledFunction() == nullptr ||
          call->getCalledFunction()->isDeclaration() || program.ends(*call)) {
        continue;
      }
      const Result result = returns.of(*call, {}, 0);
      if (!result || !result->isFullSet()) found.emplace_back(call, result);
    }
  }
  bool ends = false;
  for (const auto& [call, result] : found) {
    const auto full = full_range(call->getType());
    if (!result) {
      call->setDoesNotReturn();
      ends = true;
    } else if (full && call->getType()->isPointerTy()) {
      if (!result->contains(llvm::APInt(64, 0))) call->addRetAttr(llvm::Attribute::NonNull);
    } else if (full && full->getBitWidth() == result->getBitWidth()) {
      call->addRetAttr(llvm::Attribute::get(call->getContext(), llvm::Attribute::Range, *result));
    }
  }
  return ends;
}

}  // namespace lint
