// Which functions the fields of records hold, by what the program puts there: after Lu and Hu,
// "Where does it go? Refining indirect-call targets with multi-layer type analysis", CCS 2019.
// Pointers alone mix up records that come from one allocator.
#pragma once

#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lint {

class Fields {
 public:
  explicit Fields(const llvm::Module& module);
  // Whether the call, if it is through a field, can mean the function. A record may be cast to
  // another that begins alike: what is put into any at that offset can be meant.
  bool may_hold(const llvm::CallBase& call, const llvm::Function& f) const;

 private:
  static constexpr std::uint64_t kAnywhere = UINT64_MAX;
  struct Field {
    std::string record;
    std::uint64_t offset = kAnywhere;  // where no record is known
    auto operator<=>(const Field&) const = default;
  };
  using Functions = std::set<const llvm::Function*>;
  using Put = std::pair<Field, const llvm::Value*>;
  struct Held {
    Functions functions;
    bool open = false;  // what is put there is not known
    std::set<Field> from;
  };

  using Path = std::vector<Field>;  // empty: anywhere

  static Path path_of(const llvm::Instruction& access);
  void look_for_escapes(const llvm::Instruction& i);
  void escape(const llvm::GEPOperator& step, const llvm::MemTransferInst* copy);
  bool is_escaped(const llvm::Value* address) const;
  void put(const Path& path, const llvm::Value* value);
  void look_at(const llvm::Instruction& i);
  void initialise(const Path& path, const llvm::Constant* value);
  void follow();
  void follow(const Field& field, const llvm::Argument& argument);
  void add(const Field& field, const llvm::Value* value);
  void spread();

  const llvm::DataLayout& layout_;
  std::map<std::string, std::uint64_t> escaped_;  // of a record, from the offset on
  std::set<Field> called_;
  std::map<std::uint64_t, std::vector<Put>> puts_;
  std::set<std::uint64_t> wanted_;  // offsets that calls go through
  std::vector<Put> work_;
  std::set<Put> seen_;
  std::map<Field, Held> held_;
  std::map<std::uint64_t, Held> by_offset_;
};

}  // namespace lint
