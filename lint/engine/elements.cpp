// Elements of arrays that loops go along. What a loop does to each of them it does to the first, in
// its first round: by that one the array is known behind the loop, and found again where another
// loop begins (solver.h).
#include <llvm/IR/CFG.h>
#include <llvm/IR/Operator.h>

#include "conditions.h"
#include "solver.h"

namespace lint {
namespace {

const llvm::Value* without_casts(const llvm::Value* v) {
  while (const auto* cast = llvm::dyn_cast<llvm::CastInst>(v)) v = cast->getOperand(0);
  return v;
}

// The number that counts a loop's rounds has in the first of them.
std::optional<std::int64_t> first_number(const llvm::Value& index, const llvm::Loop& loop) {
  const auto* count = llvm::dyn_cast<llvm::PHINode>(without_casts(&index));
  if (count == nullptr || count->getParent() != loop.getHeader()) return std::nullopt;
  std::optional<std::int64_t> first;
  for (unsigned in = 0; in < count->getNumIncomingValues(); ++in) {
    if (loop.contains(count->getIncomingBlock(in))) continue;
    const auto* number = llvm::dyn_cast<llvm::ConstantInt>(count->getIncomingValue(in));
    if (number == nullptr || (first && *first != number->getSExtValue())) return std::nullopt;
    first = number->getSExtValue();
  }
  return first;
}

// Whether each whole round of the loop comes by the call.
bool is_in_each_round(const llvm::CallBase& call, const llvm::Loop& loop,
                      const llvm::DominatorTree& tree) {
  const llvm::BasicBlock* block = call.getParent();
  const llvm::BasicBlock* before = block->getSinglePredecessor();
  const auto always = [&](const llvm::BasicBlock* one) {
    return llvm::all_of(llvm::predecessors(loop.getHeader()), [&](const llvm::BasicBlock* latch) {
      return !loop.contains(latch) || tree.dominates(one, latch);
    });
  };
  return always(block) ||
         (before != nullptr && asks_for_null(*before->getTerminator(), call) && always(before));
}

}  // namespace

// The address with the numbers that its indices are; nothing if one is not known.
std::optional<Address> Solver::at_index(Address a, Number number) const {
  bool indexed = false;
  while (const auto* gep = llvm::dyn_cast<llvm::GEPOperator>(a.root)) {
    llvm::MapVector<llvm::Value*, llvm::APInt> indices;
    llvm::APInt rest(64, 0);
    if (!gep->collectOffset(memory_.layout(), 64, indices, rest)) return std::nullopt;
    const Address base = address_of(gep->getPointerOperand(), memory_.layout());
    if (a.offset == kAnyOffset || base.offset == kAnyOffset) return std::nullopt;
    a = {base.root, a.offset + base.offset + rest.getSExtValue()};
    for (const auto& [index, scale] : indices) {
      const auto n = number(*index);
      if (!n) return std::nullopt;
      a.offset += *n * scale.getSExtValue();
    }
    indexed = true;
  }
  return indexed ? std::optional(a) : std::nullopt;
}

// Of an element that each round of a loop gives to the call: the place of the first.
std::optional<Address> Solver::first_element(Address element, const llvm::Instruction& at) {
  const auto* call = llvm::dyn_cast<llvm::CallBase>(&at);
  if (call == nullptr || !llvm::isa<llvm::GEPOperator>(element.root)) return std::nullopt;
  const llvm::Function& f = *at.getFunction();
  const llvm::Loop* loop = loops(f).getLoopFor(at.getParent());
  if (loop == nullptr || !is_in_each_round(*call, *loop, dominators(f))) return std::nullopt;
  return at_index(element, [&](const llvm::Value& index) { return first_number(index, *loop); });
}

// The others that are spoken of by their numbers, where the loop's rounds are counted: each begins
// by itself.
void Solver::begin_elements(const Fact& fact, const llvm::CallBase& call, TraceId trace) {
  const llvm::Loop* loop = goes_along(&call);
  if (loop == nullptr) return;
  const auto* br = llvm::dyn_cast<llvm::BranchInst>(loop->getHeader()->getTerminator());
  const auto* cmp = br != nullptr && br->isConditional()
                        ? llvm::dyn_cast<llvm::ICmpInst>(br->getCondition())
                        : nullptr;
  const auto* end =
      cmp != nullptr ? llvm::dyn_cast<llvm::ConstantInt>(cmp->getOperand(1)) : nullptr;
  const auto* counter =
      cmp != nullptr ? llvm::dyn_cast<llvm::PHINode>(cmp->getOperand(0)) : nullptr;
  if (end == nullptr || counter == nullptr || !llvm::ICmpInst::isLT(cmp->getPredicate()) ||
      !loop->contains(br->getSuccessor(0)) || loop->getExitingBlock() != loop->getHeader() ||
      !counts_by_one(*counter, *loop)) {
    return;
  }
  for (const llvm::Use& use : call.args()) {
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(use.get());
    if (load == nullptr) continue;
    const Address element = address(load->getPointerOperand(), fact);
    for (std::int64_t round = 1; round < std::min<std::int64_t>(end->getSExtValue(), 16); ++round) {
      const auto place = at_index(element, [&](const llvm::Value& index) {
        const auto first = first_number(index, *loop);
        return first == 0 && without_casts(&index) == counter ? std::optional(round) : std::nullopt;
      });
      if (!place || !is_read(*place)) continue;
      Fact one = fact;
      one.names.clear();
      one.add({place->root, {place->offset}, 1, Name::Kind::kObject});
      begin(&call, true, std::move(one), {}, trace, &call, kNone);
    }
  }
}

// Where the first element stands for the array: that there was one.
// `for (i = 0; i < v->n; ++i) free(v->at[i]);`
void Solver::know_first_round(Known& known, const llvm::CallBase& call) {
  const llvm::Loop* loop = goes_along(&call);
  const auto* br = loop != nullptr
                       ? llvm::dyn_cast<llvm::BranchInst>(loop->getHeader()->getTerminator())
                       : nullptr;
  const auto* cmp = br != nullptr && br->isConditional()
                        ? llvm::dyn_cast<llvm::ICmpInst>(br->getCondition())
                        : nullptr;
  const auto* most = cmp != nullptr ? llvm::dyn_cast<llvm::LoadInst>(cmp->getOperand(1)) : nullptr;
  const auto first = most != nullptr ? first_number(*cmp->getOperand(0), *loop) : std::nullopt;
  if (!first || !most->getType()->isIntegerTy() || !loop->contains(br->getSuccessor(0)) ||
      loop->contains(br->getSuccessor(1)))
    return;
  const llvm::APInt number(most->getType()->getIntegerBitWidth(),
                           static_cast<std::uint64_t>(*first), true);
  known.set(most, Range::makeAllowedICmpRegion(cmp->getSwappedPredicate(), Range(number)));
  const Address from = address_of(most->getPointerOperand(), memory_.layout());
  const Cells cells = memory_.cells_of(most->getPointerOperand());
  if (untouched(*most, call, cells, from) && !writes(call, cells)) known.set_cell(from, most);
}

// Whether something is read from the place by this very address.
bool Solver::is_read(Address place) const {
  if (place.root->hasNUsesOrMore(kMostUsers)) return false;
  return llvm::any_of(place.root->users(), [&](const llvm::User* user) {
    const auto* gep = llvm::dyn_cast<llvm::GetElementPtrInst>(user);
    const Address a = gep != nullptr ? address_of(gep, memory_.layout()) : Address{};
    return a.root == place.root && a.offset == place.offset &&
           llvm::any_of(gep->users(), llvm::IsaPred<llvm::LoadInst>);
  });
}

// The loop that gives the call the elements of an array, one in each round.
const llvm::Loop* Solver::goes_along(const llvm::Instruction* at) {
  const auto* call = llvm::dyn_cast_or_null<llvm::CallBase>(at);
  if (call == nullptr) return nullptr;
  const bool along = llvm::any_of(call->args(), [&](const llvm::Use& use) {
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(use.get());
    return load != nullptr && load->getFunction() == at->getFunction() &&
           first_element(address_of(load->getPointerOperand(), memory_.layout()), *at);
  });
  return along ? loops(*at->getFunction()).getLoopFor(at->getParent()) : nullptr;
}

// The names of an element that is read in a round whose number is known.
void Solver::load_element(State& state, const llvm::LoadInst& load, Address from) const {
  if (property(state.fact).track != Track::kObject || !llvm::isa<llvm::GEPOperator>(from.root))
    return;
  const Reasoning reasoning(state.known, state.fact, Track::kObject);
  const auto exact = at_index(from, [&](const llvm::Value& index) -> std::optional<std::int64_t> {
    const auto range = reasoning.range(&index);
    if (!range || !range->isSingleElement()) return std::nullopt;
    return range->getSingleElement()->getSExtValue();
  });
  if (!exact) return;
  const std::vector<Name> names = state.fact.names;
  for (const Name& n : names) {
    Name more;
    if (derived(n, *exact, &load, more)) state.fact.add(more);
  }
}

}  // namespace lint
