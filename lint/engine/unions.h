// Where records have unions, by the names of their types and what they hold. Read from each part of
// a program before it is linked: the linker takes one type for another that looks alike.
#pragma once

#include <llvm/IR/Module.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lint {

class Unions {
 public:
  void note(const llvm::Module& part);
  // Whether a union lies at that place of the type, as clang names it.
  bool has_at(llvm::Type* type, std::uint64_t offset, const llvm::DataLayout& layout) const;

 private:
  using Places = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // from, to
  bool knows(llvm::StructType& record, std::uint64_t offset, const llvm::DataLayout& layout) const;
  // By a record's name and what lies where in it: two of one name may be two records. Of two that
  // look alike, what both have.
  std::map<std::pair<std::string, std::string>, Places> places_;
};

}  // namespace lint
