// What calls return (returns.h).
#include "returns.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

#include <map>
#include <set>

#include "circles.h"
#include "conditions.h"

namespace lint {
namespace {

constexpr int kMostCalls = 4;            // one in the other, whose constants are followed
constexpr int kMostMerges = 6;           // of values, one in the other
constexpr int kMostValues = 256;         // of one function
constexpr std::size_t kLargest = 4'000;  // instructions, of a function that is looked at
// Instructions that are looked at for the constants of one call; of all calls together, for each
// instruction of the program, before each has the few.
constexpr std::size_t kMostForOne = 50'000;
constexpr std::size_t kMostForEach = 40;
constexpr std::size_t kFewWork = 500;

// Nothing: it does not return. Full: it may return anything, or nothing that is a number.
using Result = std::optional<Range>;
using Given = std::vector<std::pair<unsigned, std::int64_t>>;  // parameters that
                                                               // are one number
const Range kAny = Range::getFull(64);

// Whether something that the pointer leads to was read or written before: then it is not null.
bool is_reached_above(const llvm::Value& pointer, const llvm::Instruction& place,
                      const llvm::DominatorTree& tree, int depth = 2) {
  constexpr unsigned kMostUsers = 64;
  if (llvm::isa<llvm::Constant>(pointer) || pointer.hasNUsesOrMore(kMostUsers)) return false;
  return llvm::any_of(pointer.users(), [&](const llvm::User* user) {
    const auto* i = llvm::dyn_cast<llvm::Instruction>(user);
    if (i == nullptr || i->getFunction() != place.getFunction()) return false;
    if (const auto* field = llvm::dyn_cast<llvm::GetElementPtrInst>(i)) {
      return depth > 0 && field->getPointerOperand() == &pointer &&
             is_reached_above(*field, place, tree, depth - 1);
    }
    return llvm::getLoadStorePointerOperand(i) == &pointer && tree.dominates(i, &place);
  });
}

class Returns {
 public:
  explicit Returns(const Program& program) : program_(program) {}

  // What each function returns whatever it is given: functions before those that call them. Of
  // those that call each other nothing is known at first, then what that gave, so that the order
  // in which they come says nothing.
  void note_functions(const Progress& progress, std::size_t all);
  Result of(const llvm::CallBase& call, const Known& known, int depth);

 private:
  struct Facts_ {
    llvm::DominatorTree tree;
    std::vector<char> asked;  // by parameter: whether the result can hang on it
    std::vector<const llvm::CallBase*> calls;
    std::size_t size = 0;
    bool large = false;
  };
  struct View {  // of a function that is given something
    Known known;
    std::set<const llvm::BasicBlock*> reached,
        left;  // left: its end is reached, too
  };
  struct Found {
    Result result;
    std::size_t work;  // that it took
  };
  const Facts_& facts(const llvm::Function& f);
  Result whatever(const llvm::Function& f) const;
  bool spend(std::size_t work);
  Result compute(const llvm::Function& f, const Given& given, int depth);
  void look(const llvm::Function& f, View& view) const;
  Range at(const llvm::Value* v, const llvm::Instruction& place, const llvm::BasicBlock* to,
           const View& view, const Facts_& facts, int depth);

  const Program& program_;
  int values_left_ = 0;
  std::size_t work_left_ = 0;  // for the call that is asked about
  std::size_t work_ = 0;       // that was done for all
  std::size_t most_ = 0;       // before each has the few
  std::map<const llvm::Function*, Facts_> facts_;
  std::map<const llvm::Function*, Result> whatever_;
  // By the depth, too: what is found deeper knows less.
  std::map<const llvm::Function*, std::map<std::pair<int, Given>, Found>> known_;
};

const Returns::Facts_& Returns::facts(const llvm::Function& f) {
  const auto [at, added] = facts_.try_emplace(&f);
  Facts_& facts = at->second;
  if (!added) return facts;
  facts.size = f.getInstructionCount();
  facts.large = facts.size > kLargest;
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

void Returns::note_functions(const Progress& progress, std::size_t all) {
  std::vector<const llvm::Function*> functions;
  std::map<const llvm::Function*, std::uint32_t> ids;
  for (const llvm::Function& f : program_.module()) {
    if (f.isDeclaration()) continue;
    ids.emplace(&f, static_cast<std::uint32_t>(functions.size()));
    functions.push_back(&f);
    most_ += kMostForEach * facts(f).size;
  }
  Graph graph;
  for (const llvm::Function* f : functions) {
    for (const llvm::CallBase* call : facts(*f).calls)
      graph.targets.push_back(ids.at(call->getCalledFunction()));
    graph.end_node();
  }
  const Components found = components(graph);
  std::vector<std::vector<const llvm::Function*>> circles(found.count);
  for (std::uint32_t f = 0; f < functions.size(); ++f) circles[found.of[f]].push_back(functions[f]);
  std::size_t done = 0;
  for (const auto& circle : circles) {
    for (int round = 0; round < (circle.size() > 1 ? 2 : 1); ++round) {
      std::vector<Result> results;
      for (const llvm::Function* f : circle) {
        progress("returns", done, all);
        results.push_back(compute(*f, {}, 0));
      }
      for (std::size_t n = 0; n < circle.size(); ++n) {
        whatever_[circle[n]] = results[n];
        known_.erase(circle[n]);  // it was found by what was known till then
      }
    }
    done += circle.size();
  }
}

Result Returns::whatever(const llvm::Function& f) const {
  const auto found = whatever_.find(&f);
  return found == whatever_.end() ? kAny : found->second;
}

// Whether there is enough left. If not, nothing that was begun for the call is gone on with.
bool Returns::spend(std::size_t work) {
  const bool enough = work < work_left_;
  work_left_ = enough ? work_left_ - work : 0;
  return enough;
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
  if (given.empty()) return whatever(*f);
  if (depth == 0) work_left_ = work_ < most_ ? kMostForOne : kFewWork;
  const auto known_here = known_.find(f);
  if (known_here != known_.end()) {
    const auto found = known_here->second.find({depth, given});
    // It counts as if it were found anew: what came before says nothing.
    if (found != known_here->second.end())
      return spend(found->second.work) ? found->second.result : whatever(*f);
  }
  const std::size_t before = work_left_;
  if (!spend(all.size + 1)) return whatever(*f);
  work_ += all.size + 1;
  const Result result = compute(*f, given, depth + 1);
  if (work_left_ == 0) return whatever(*f);
  known_[f].emplace(std::pair{depth, given}, Found{result, before - work_left_});
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
      const auto result = call != nullptr ? view.known.find(call) : std::nullopt;
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
  if (v->getType()->isPointerTy() && is_reached_above(*v, place, facts.tree))
    all = all.intersectWith(Range(llvm::APInt(64, 0)).inverse());
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
    if (depth > 0 && work_left_ == 0) return kAny;
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
  std::size_t done = functions;
  returns.note_functions(progress, 2 * functions);
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
