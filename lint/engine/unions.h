// Where records have unions, by the names of their types. Read from each part of a program before
// it is linked: the linker takes one type for another that looks alike.
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
  void note(const std::string& record, llvm::Type* part, std::uint64_t offset,
            const llvm::DataLayout& layout);
  bool knows(const llvm::StructType& record, std::uint64_t offset) const;
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::uint64_t>>> places_;
};

}  // namespace lint
