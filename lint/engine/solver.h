// Follows facts through the whole program. A fact enters a function once for each of its callers'
// views of it; what comes out at the function's end is a summary that all calls share: Reps,
// Horwitz and Sagiv, "Precise interprocedural dataflow analysis via graph reachability", POPL 1995.
// A fact that outlives the function it began in goes on in every caller.
#pragma once

#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "conditions.h"
#include "fact.h"
#include "memory.h"
#include "program.h"
#include "property.h"
#include "ranges.h"

namespace lint {

using TraceId = std::uint32_t;
using ContextId = std::uint32_t;
constexpr std::uint32_t kNone = ~std::uint32_t{0};
constexpr std::size_t kMostWork = 100'000;  // steps of one beginning
// Steps of all beginnings together, for each line of code: about a minute for 20,000 lines. Once
// they are spent, each beginning has the few.
constexpr std::size_t kMostWorkPerLine = 2'000;
constexpr std::size_t kFewWork = 1'000;
constexpr std::size_t kFewViews = 8;    // of one fact at one place that are kept apart
constexpr std::size_t kManyViews = 64;  // the same, before an error is told

struct Step {
  const llvm::Instruction* at;
  std::string note;
};

struct Finding {
  const Property* property;
  std::string message;
  std::vector<Step> steps;  // from where the state arose to where it is wrong
  bool possible = false;    // unless something that is not followed forbids it
};

class Solver {
 public:
  Solver(Program& program, Memory& memory, const std::vector<Property>& properties,
         std::size_t work_per_line = kMostWorkPerLine);
  std::vector<Finding> run(const Progress& progress);
  // Beginnings that took too long to follow to their end.
  std::size_t given_up() const { return given_up_; }

 private:
  struct Note {  // what happened and by whom: few are ever told
    llvm::StringRef what, link;
    const llvm::Value* who;
    std::string text() const;
  };
  struct Trace {
    TraceId parent;
    const llvm::Instruction* at;
    Note note;
    ContextId entered;  // of the function that a call went into; else kNone
  };
  // A fact on its way, before an instruction.
  struct State {
    ContextId context;
    const llvm::Instruction* at;
    Fact fact;
    Known known;
    TraceId trace;
  };
  struct Waiting {
    ContextId context;
    const llvm::CallBase* call;
    Fact fact;
    Known known;
    TraceId trace;
  };
  // A cell that holds a number, a flag, a count, a kind, or no pointer.
  struct Flag {
    Address at;
    const llvm::Constant* value;
    bool operator==(const Flag& o) const {
      return at.root == o.at.root && at.offset == o.at.offset && value == o.value;
    }
  };
  using Ranges = std::vector<std::pair<unsigned, Range>>;  // of parameters
  struct Question {
    const llvm::Instruction* at;
    const llvm::Value* condition;
    bool answer;
  };
  struct Asked {  // what a question reads
    const llvm::LoadInst* load;
    Cells cells;
    std::uint64_t bits;  // of it that count
  };
  struct Exit {
    Fact fact;
    std::optional<Range> returned;
    TraceId trace;
    const llvm::Instruction* at;
    Ranges parameters;        // what they were on this way
    std::vector<Flag> flags;  // below parameters and globals
  };
  struct Error {
    const Rule* rule;
    const llvm::Instruction* sink;  // as this function sees it
    const llvm::Instruction* deepest;
    TraceId trace;
    int lift;            // the parameter that is at fault, if the fault is the caller's; -1
    int given = -1;      // the parameter that is what the rule speaks of; -1
    int depth = 0;       // calls below the function where the state began
    bool guess = false;  // as of the fact
    const llvm::BasicBlock* skipped = nullptr;
  };
  struct Context {
    const llvm::Function* function = nullptr;
    bool is_root = false;  // begins with a state, not with a call
    const llvm::Instruction* start = nullptr;
    const llvm::Instruction* origin = nullptr;
    Fact entry;
    ContextId below = kNone;        // of a root: the one that it went on from
    std::vector<ContextId> belows;  // all of those
    int depth = 0;
    bool released = false;
    std::vector<Waiting> callers;
    std::vector<Exit> exits;
    std::vector<Error> errors;
  };
  struct Place_ {
    ContextId context;
    const llvm::Instruction* at;
    FactId fact;
    bool operator==(const Place_&) const = default;
  };
  struct PlaceHash {
    std::size_t operator()(const Place_& p) const {
      return (p.context * 1000003u + p.fact) * 1000003u + reinterpret_cast<std::size_t>(p.at) / 8;
    }
  };
  struct Seen {
    std::vector<Known> known;
    int joins = 0;
  };
  using States = std::vector<State>;
  using Blocks = llvm::DenseSet<const llvm::BasicBlock*>;

  // solver.cpp: contexts and paths
  void arrive(State&& state);
  bool drain();
  void walk(State&& state);
  bool pass(State& state, const llvm::Instruction& i);
  void leave(State& state, const llvm::ReturnInst& end);
  void add_exit(ContextId context, Exit exit);
  void resume(const Waiting& waiting, ContextId callee, const Exit& exit);
  bool learn_result(State& state, const llvm::CallBase& call, const llvm::Function* callee,
                    const Exit& exit);
  // branches.cpp: from block to block
  bool branch(State& state, const llvm::Instruction& end);
  bool jump(State& state, const llvm::BranchInst& end);
  bool enter_block(State& state, const llvm::BasicBlock* from, const llvm::BasicBlock* to);
  void know_by_number(State& state, const llvm::Instruction& end, const llvm::BasicBlock* to) const;
  // Whether a rule forbids the state at its end.
  bool matters_at_end(const Fact& fact) const {
    return ((at_end_[fact.property] >> fact.state) & 1) != 0;
  }
  bool drop_null(State& state) const;
  bool is_alive(const State& state);
  const Blocks& users_ahead(const llvm::Instruction& root);
  // loops.cpp
  const llvm::LoopInfo& loops(const llvm::Function& f);
  void note_loop(State& state, const llvm::BasicBlock* from, const llvm::BasicBlock* to);
  bool may_end_in(const Fact& fact, const llvm::Loop& loop) const;
  // callers.cpp: beyond the function where it began
  void rise();
  void ascend(ContextId root, const Exit& exit);
  bool is_the_callers(const Context& root, const Exit& exit);
  bool is_one_of_mains(const llvm::Function& f);
  const std::vector<const llvm::CallBase*>& calls_about(std::size_t property, std::uint32_t cell);
  Error error_at(const State& state, const Rule& rule, const llvm::Instruction& i);
  bool is_given(const State& state);
  static bool is_noted(const Context& context, const Error& error);
  void add_error(ContextId context, Error error);
  void bubble(const Waiting& waiting, ContextId callee, const Error& error);
  bool is_named_behind(const Waiting& waiting);
  void begin(const llvm::Instruction* start, bool after, Fact fact, Known known, TraceId trace,
             const llvm::Instruction* origin, ContextId below);
  void mark_released(ContextId context);
  TraceId event(TraceId parent, const llvm::Instruction* at, Note note, ContextId entered = kNone);
  TraceId graft(TraceId base, TraceId inner);
  void judge_ends(ContextId first);
  bool may_be_released(const Error& error) const;
  // close_all.cpp
  bool is_many(const llvm::Value* most, int depth) const;
  bool runs_to_the_end(const llvm::Loop& loop, const llvm::PHINode& counter) const;
  const llvm::Instruction* loop_that_closes(const llvm::CallBase& call);
  const llvm::Instruction* closes_all(const llvm::CallBase& call, int depth);
  bool is_closed_with_all(const llvm::Instruction& begin, const llvm::Instruction& end);

  // transfer.cpp, aliases.cpp: single instructions; false if the fact goes no further
  bool step(State& state, const llvm::Instruction& i, States& forks);
  bool load(State& state, const llvm::LoadInst& load, States& forks);
  void read_cell(State& state, const llvm::LoadInst& load, Address from) const;
  void write_cell(State& state, const llvm::StoreInst& store, Address to) const;
  bool store(State& state, const llvm::StoreInst& store, States& forks);
  bool change(State& state, const llvm::Instruction& i, const llvm::Value& written);
  bool select(State& state, const llvm::SelectInst& select, States& forks);
  bool reached(State& state, const llvm::Value* pointer) const;
  void scalar(State& state, const llvm::Instruction& i);
  void is_index(State& state, const llvm::GetElementPtrInst& place) const;
  void is_handle(State& state, const llvm::IntToPtrInst& handle) const;
  void is_packed(State& state, const llvm::BinaryOperator& shift) const;
  bool redefine(State& state, const llvm::Instruction& i);
  bool used(State& state, const llvm::Instruction& i, const llvm::Value* address);
  bool lost(State& state, const llvm::Instruction& i);
  void overwrite(State& state, Cells cells, Address must);
  Cells name_cells(const Name& name, int step) const;
  void widen(Fact& fact, const llvm::Instruction& at);
  void recall(Fact& fact, const Name& name, const llvm::Instruction& at, bool before = false);
  const llvm::Value* returns(const Fact& fact, const llvm::CallBase& call) const;
  void made_from(Fact& fact, const Name& name, const llvm::Instruction& at) const;
  bool leads_into(const Fact& fact, const llvm::Value* v, int depth) const;
  void made_into(Fact& fact, const Name& name, const llvm::Instruction& at);
  void original(Fact& fact, const Name& name, const llvm::Instruction& at);
  bool untouched(const llvm::Instruction& from, const llvm::Instruction& to, Cells cells,
                 Address place) const;
  Address address(const llvm::Value* v, const Fact& fact) const;
  std::int64_t extent(const llvm::Value* v) const;

  // kept.cpp
  void begin_kept(const Fact& fact, const Name& name, const llvm::CallBase& call, TraceId trace,
                  const llvm::Instruction& origin, int depth);
  const llvm::CallBase* joined(const llvm::CallBase& create);
  void jump_back(const State& state, const llvm::CallBase& call);
  // elements.cpp
  using Number = llvm::function_ref<std::optional<std::int64_t>(const llvm::Value&)>;
  std::optional<Address> at_index(Address a, Number number) const;
  std::optional<Address> first_element(Address element, const llvm::Instruction& at);
  void begin_elements(const Fact& fact, const llvm::CallBase& call, TraceId trace);
  bool is_read(Address place) const;
  const llvm::Loop* goes_along(const llvm::Instruction* at);
  void know_first_round(Known& known, const llvm::CallBase& call);
  void load_element(State& state, const llvm::LoadInst& load, Address from) const;

  // calls.cpp: what calls mean
  bool call(State& state, const llvm::CallBase& call, States& forks);
  bool apply(State& state, const llvm::CallBase& call, const std::vector<const Rule*>& rules,
             States& forks);
  static bool takes_null(const llvm::CallBase& call, const std::vector<const Rule*>& rules,
                         int argument);
  bool foreign(State& state, const llvm::CallBase& call);
  void enter(State& state, const llvm::CallBase& call, const llvm::Function* callee, bool& entered);
  void after_call(State& state, const llvm::CallBase& call);
  std::vector<Name> copied(const State& state, const llvm::CallBase& call) const;
  void overwrite_by(State& state, const llvm::CallBase& call) const;
  std::vector<Flag> flags(const State& state) const;
  bool start_pack(State& state, const llvm::CallBase& call);
  const std::vector<const Rule*>& rules_for(std::size_t property, const llvm::CallBase& call) const;
  bool is_at(const Fact& fact, const Place& place, const llvm::CallBase& call,
             const llvm::Value** which = nullptr) const;
  std::vector<std::pair<Name, std::int64_t>> names_at(const Property& property, const Place& place,
                                                      const llvm::CallBase& call) const;
  bool holds(const Rule& rule, const llvm::CallBase& call, const State& state) const;
  static Range allowed(const Condition& condition, unsigned width);
  Fact into(const Fact& fact, const llvm::CallBase& call, const llvm::Function* callee) const;
  Fact back(const Fact& exit, const llvm::CallBase& call, const llvm::Function* callee) const;
  int lifted(const Rule& rule, const llvm::CallBase& call, const llvm::Value* argument) const;

  Bits find_recursive() const;  // recursive.cpp
  bool changes(std::size_t property, const llvm::Function& f);
  std::int64_t mark_of(const llvm::Value* value, const llvm::Instruction& at,
                       const Known& known);  // marks.cpp
  bool is_marked(const llvm::Value* value, const llvm::Instruction& at, const Known& known) {
    return mark_of(value, at, known) != kAnyOffset;
  }
  bool are_members(const llvm::Instruction* begin, const llvm::Instruction* end);
  std::optional<Range> first_held(const Fact& fact, const llvm::LoadInst& load, Address from) const;
  static int parameter(const llvm::Value* value);
  // questions.cpp
  bool is_asked_again(const llvm::Instruction& begin, const llvm::Instruction& end);
  bool may_answer_anew(const llvm::Function& asked, const llvm::Instruction& from,
                       const llvm::Instruction& to);
  bool is_answered_otherwise(const State& state);
  bool is_first_use(const llvm::Instruction& lock);
  bool is_looked_through(const llvm::CallBase& call, const llvm::Value* format);
  bool is_unchanged(const Question& first, const Question& then, const llvm::CallBase* to,
                    const State& state);
  bool is_passed_by(const State& state, const llvm::Instruction& there, const llvm::Loop* round);
  bool may_change(const llvm::Function& f, const Asked& asked,
                  llvm::function_ref<bool(const llvm::Instruction&)> lies_there);
  bool may_change(const llvm::Instruction& i, const Asked& asked);
  bool may_change(const llvm::CallBase& call, const Asked& asked);
  bool may_be_changed_by(const llvm::CallBase& foreign, const Asked& asked, bool anew) const;

  // seeds.cpp: where states begin
  void seed(std::size_t property, const Progress& progress);
  void seed_call(std::size_t property, const Rule& rule, const llvm::CallBase& call);
  void know_others(Known& known, const Property& property, const Rule& rule, const Name& name,
                   const llvm::CallBase& call) const;
  void seed_place(std::size_t property, const Rule& rule, const llvm::Value* v);
  void begin_place(std::size_t property, const Rule& rule, const llvm::Value* v,
                   const llvm::Instruction& at, const char* what);
  Bits wanted_objects(std::size_t property, StateId state, bool& everything) const;
  bool takes_number(std::size_t property, const llvm::CallBase& call) const;
  bool takes_numbers(const Place& place, const llvm::CallBase& call);
  bool may_pass_by(const Context& root, const Exit& exit, const Ranges& given, const Known& held);
  bool leads_to(const llvm::CallBase& call, Known passed, const Context& root, int depth);
  bool asks_memory(const Context& root);
  Known held_for(const State& state, const llvm::CallBase& call,
                 const llvm::Function* callee) const;
  bool gives(State& state, const llvm::CallBase& call, const llvm::Function* callee,
             const Ranges& wanted) const;

  // conditions.cpp: what is known there
  const llvm::DominatorTree& dominators(const llvm::Function& f);
  Known conditions_at(const llvm::Instruction& at);
  void note_numbers(Known& known, const llvm::Instruction& at, bool before = false);
  void note_left(Known& known, const llvm::CallBase& call, const llvm::Instruction& at,
                 bool before);
  struct Left {
    int parameter;  // where it lies; -1: in what is returned
    std::int64_t offset;
    const llvm::ConstantInt* number;
  };
  const std::vector<Left>& numbers_left(const llvm::Function& f);
  std::vector<Known> views_at(const llvm::Instruction& at, Known known);
  std::vector<Known> views_by_way(const llvm::BasicBlock& meeting, const llvm::Instruction& at,
                                  const Known& known);
  bool learn_edge(Known& view, const llvm::Instruction& end, const llvm::BasicBlock& to,
                  const llvm::Instruction& at) const;
  bool writes(const llvm::Instruction& at, Cells cells) const;
  void note_cells(Known& known, const llvm::Value& condition,
                  llvm::function_ref<bool(const llvm::LoadInst&, Cells, Address)> holds) const;

  // Follows what begins there to its end and tells what was found.
  void follow(llvm::function_ref<void()> begins);
  bool finish(ContextId first);
  bool has_sure_error(ContextId first);
  void look_again(ContextId first, llvm::function_ref<void()> begins);
  void forget();

  void report(ContextId first);
  void tell(const Context& context, const Error& error);
  bool is_possible(const Context& context, const Error& error);
  const Property& property(const Fact& f) const { return properties_[f.property]; }

  Program& program_;
  Memory& memory_;
  const std::vector<Property>& properties_;
  // By property: the rules for a function's name.
  std::vector<std::unordered_map<const llvm::Function*, std::vector<const Rule*>>> rules_;
  std::vector<std::uint64_t> at_end_;  // by property: the states that a rule forbids there
  // By property: the calls that rules speak of, by what their first argument may be.
  std::map<std::size_t, std::unordered_map<std::uint32_t, std::vector<const llvm::CallBase*>>>
      takers_;
  Bits recursive_;                   // the locks that may be taken again
  const llvm::Argument descriptor_;  // stands for one that is there, in cells
  // By property: the functions that may change a state, once somebody has asked.
  std::map<std::size_t, std::set<const llvm::Function*>> changing_;
  Facts facts_;
  std::deque<Context> contexts_;
  std::map<std::tuple<const llvm::Function*, FactId, std::vector<std::int64_t>>, ContextId>
      callees_;
  std::map<std::tuple<const llvm::Instruction*, FactId, const llvm::Instruction*>, ContextId>
      roots_;
  std::unordered_map<Place_, Seen, PlaceHash> seen_;
  std::size_t views_ = 0;  // in all that was seen
  std::size_t most_views_ = kFewViews;
  bool joined_ = false;  // whether any of it was more than that
  std::deque<State> work_;
  std::vector<std::pair<ContextId, std::size_t>> rising_;  // ways out of roots, to be gone on from
  std::unordered_map<const llvm::Instruction*, Blocks> ahead_;
  std::vector<Trace> traces_;
  std::unordered_map<const llvm::Function*, std::unique_ptr<llvm::DominatorTree>> trees_;
  std::unordered_map<const llvm::Function*, std::unique_ptr<llvm::LoopInfo>> loops_;
  std::unordered_map<const llvm::Function*, bool> mains_;
  std::unordered_map<const llvm::Function*, std::vector<Left>> left_;
  mutable std::unordered_map<const llvm::Value*, bool> tested_;  // pointers
  // Loops that what began somewhere went round.
  std::set<std::pair<const llvm::BasicBlock*, const llvm::Instruction*>> gone_round_;
  mutable std::size_t steps_ = 0;
  std::size_t most_work_ = kMostWork;
  std::size_t most_in_all_;    // for all beginnings
  std::size_t all_steps_ = 0;  // of beginnings that are done with
  std::size_t given_up_ = 0;
  std::vector<Finding> findings_;
  // Which finding.
  std::map<std::tuple<const Property*, const void*, const void*>, std::size_t> told_;
  // Of two reads of one place, or a store and a read: whether what is written between them may
  // change those bits.
  std::map<std::tuple<const llvm::Instruction*, const llvm::LoadInst*, std::uint64_t>, bool>
      changed_;
};

}  // namespace lint
