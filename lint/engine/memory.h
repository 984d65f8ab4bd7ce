// The points-to sets of the program's values, who calls whom, and what each function can write:
// the constraints of points_to.h taken from a module, with a model of what libc does to pointers.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "points_to.h"
#include "program.h"

namespace lint {

// Where an address lies: a value without casts and constant steps, and the bytes to it.
struct Address {
  const llvm::Value* root = nullptr;
  std::int64_t offset = 0;
};
constexpr std::int64_t kAnyOffset = INT64_MIN;

// Steps with an index are values of their own, or, if `through_index`, of any offset.
Address address_of(const llvm::Value* v, const llvm::DataLayout& layout,
                   bool through_index = false);

// Where a store or an atomic operation writes; null if the instruction is none.
const llvm::Value* written_by(const llvm::Instruction& i);

// The first argument of a call that returns it; null if it is none.
const llvm::Value* returned_as_it_is(const llvm::Value* v);

using Functions = std::vector<llvm::Function*>;

// A set of locations that Memory has once: two that are equal are one, so that what was asked of it
// need not be worked out again.
class Cells {
 public:
  operator const Bits&() const { return *set_; }
  bool empty() const { return set_->empty(); }
  bool test(Node n) const { return set_->test(n); }
  std::size_t count() const { return set_->count(); }
  bool intersects(const Bits& other) const { return set_->intersects(other); }
  template <typename Visit>
  void each(Visit visit) const {
    set_->each(visit);
  }
  bool operator==(const Cells&) const = default;

 private:
  friend class Memory;
  explicit Cells(const Bits* set) : set_(set) {}
  const Bits* set_;
};

class Memory {
 public:
  Memory(Program& program, const Progress& progress);

  Cells points(const llvm::Value* v) const;
  // The locations that [root + offset] may be.
  Cells cells(const llvm::Value* root, std::int64_t offset) const;
  Cells cells_of(const llvm::Value* address) const { return points(address); }
  // Whether the two can have a location in common. Of two that are not known it is likely.
  bool meet(const Bits& a, const Bits& b) const {
    if (&a == &b) return true;
    if (a.empty() || b.empty()) return a.empty() && b.empty();
    if (a.intersects(b)) return true;
    return (a.test(kAnywhere) && !is_hidden(b)) || (b.test(kAnywhere) && !is_hidden(a));
  }
  // Whether the two, what they point to, can be in one object.
  bool share_object(Cells a, Cells b) const {
    if (a.empty() || b.empty()) return a.empty() && b.empty();
    return a.test(kAnywhere) || b.test(kAnywhere) || objects(a).intersects(objects(b));
  }
  // The locations that are pointed to from those, `bytes` further.
  Cells follow(Cells cells, std::int64_t bytes) const;
  Bits objects(const Bits& locations) const;
  // Whether one of the locations is not where an object begins.
  bool lead_inside(const Bits& locations) const;

  // Defined functions that a call can reach; those that are passed to a function without a body
  // too.
  const Functions& callees(const llvm::CallBase& call) const;
  // Functions without a body that a call through a pointer can reach.
  const Functions& externals(const llvm::CallBase& call) const;
  const std::vector<const llvm::CallBase*>& callers(const llvm::Function* f) const;
  // What the call can write, itself or by what it calls.
  bool may_write(const llvm::CallBase& call, Cells cells) const;
  // Whether it leads to a local variable of its function: each call has another, also of a function
  // that calls itself. What is written there changes none that was there before the call.
  bool is_anew(const llvm::Value* address) const;
  // Whether the function or one it calls speaks of the global.
  bool mentions(const llvm::Function* f, const llvm::Value* global) const;
  // Whether what is called is passed on: pthread_create(_, _, f, x) calls f(x).
  static int argument_for(const llvm::CallBase& call, const llvm::Function* callee, int parameter);
  const llvm::DataLayout& layout() const { return layout_; }
  // Whether there were too many pointers to tell where each leads.
  bool is_coarse() const { return graph_.is_coarse(); }

 private:
  friend class Constraints;
  void sum_up(const Progress& progress);
  void find_hidden();
  bool is_hidden(const Bits& cells) const {
    return cells.intersects(hidden_) && cells.count() == 1;
  }

  Program& program_;
  const llvm::DataLayout& layout_;
  PointsTo graph_;
  Bits hidden_;  // variables to which no pointer leads
  llvm::DenseMap<const llvm::Value*, Node> nodes_;
  llvm::DenseMap<const llvm::Function*, Node> returns_;
  llvm::DenseMap<const llvm::Function*, Object> extras_;  // what is passed for `...`
  std::map<Node, llvm::Function*> functions_;             // by location
  llvm::DenseMap<const llvm::CallBase*, Functions> callees_;
  llvm::DenseMap<const llvm::CallBase*, Functions> externals_;
  llvm::DenseMap<const llvm::Function*, std::vector<const llvm::CallBase*>> callers_;
  struct Effects {
    Bits writes;
    Bits globals;
    bool writes_unknown = false;  // through a pointer that leads nowhere that is known
  };
  void add_own(const llvm::Function& f, Effects& own) const;
  bool may_jump(const llvm::Function& f) const;
  const Effects* effects(const llvm::Function* f) const;
  const Bits* kept(const Bits& set) const;
  void add_shifted(Bits& out, const Bits& from, std::int64_t bytes) const;
  bool writes(const llvm::CallBase& call, const Bits& cells) const;

  // Functions that call each other, as one: which, and what they do.
  llvm::DenseMap<const llvm::Function*, std::uint32_t> circle_of_;
  std::vector<Effects> effects_;
  llvm::DenseMap<const llvm::Value*, std::uint32_t> global_ids_;

  // Answers, which no longer change.
  static constexpr std::size_t kMostAnswers = 8'000'000;
  struct Hash {
    std::size_t operator()(const Bits& set) const { return set.hash(); }
  };
  using Steps = llvm::DenseMap<std::pair<const Bits*, std::int64_t>, const Bits*>;
  mutable std::unordered_set<Bits, Hash> sets_;
  mutable llvm::DenseMap<const llvm::Value*, const Bits*> points_;
  mutable Steps shifted_, followed_;
  mutable llvm::DenseMap<std::pair<const llvm::CallBase*, const Bits*>, bool> may_write_;
};

}  // namespace lint
