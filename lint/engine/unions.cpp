// Unions in records (unions.h).
#include "unions.h"

#include <llvm/IR/DataLayout.h>
#include <llvm/IR/DerivedTypes.h>

#include <algorithm>

namespace lint {
namespace {

bool is_union(const llvm::StructType& type) {
  return type.hasName() && type.getName().starts_with("union.");
}

// A type's name without the number that tells it from others of that name; none if it has none of
// its own.
std::string plain(const llvm::StructType& type) {
  if (!type.hasName()) return {};
  llvm::StringRef name = type.getName();
  for (std::size_t dot = name.rfind('.'); dot != llvm::StringRef::npos; dot = name.rfind('.')) {
    const llvm::StringRef number = name.substr(dot + 1);
    if (number.empty() || number.find_first_not_of("0123456789") != llvm::StringRef::npos) break;
    name = name.substr(0, dot);
  }
  return name.ends_with(".anon") ? std::string() : name.str();
}

}  // namespace

void Unions::note(const llvm::Module& part) {
  for (llvm::StructType* type : part.getIdentifiedStructTypes()) {
    const std::string name = plain(*type);
    if (!name.empty() && type->isSized()) note(name, type, 0, part.getDataLayout());
  }
}

void Unions::note(const std::string& record, llvm::Type* part, std::uint64_t offset,
                  const llvm::DataLayout& layout) {
  auto* type = llvm::dyn_cast<llvm::StructType>(part);
  if (type == nullptr) return;
  if (is_union(*type)) {
    const std::pair place(offset, offset + layout.getTypeAllocSize(type).getFixedValue());
    auto& places = places_[record];
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
    return;
  }
  const llvm::StructLayout* fields = layout.getStructLayout(type);
  for (unsigned e = 0; e < type->getNumElements(); ++e) {
    note(record, type->getElementType(e), offset + fields->getElementOffset(e).getFixedValue(),
         layout);
  }
}

bool Unions::knows(const llvm::StructType& record, std::uint64_t offset) const {
  const auto at = places_.find(plain(record));
  return at != places_.end() &&
         std::any_of(at->second.begin(), at->second.end(), [offset](const auto& place) {
           return offset >= place.first && offset < place.second;
         });
}

bool Unions::has_at(llvm::Type* type, std::uint64_t offset, const llvm::DataLayout& layout) const {
  for (;;) {
    if (auto* array = llvm::dyn_cast<llvm::ArrayType>(type)) {
      type = array->getElementType();
      const std::uint64_t size = layout.getTypeAllocSize(type).getFixedValue();
      if (size == 0) return false;
      offset %= size;
      continue;
    }
    auto* record = llvm::dyn_cast<llvm::StructType>(type);
    if (record == nullptr) return false;
    if (is_union(*record) || knows(*record, offset)) return true;
    if (!record->isSized() || offset >= layout.getTypeAllocSize(record).getFixedValue())
      return false;
    const llvm::StructLayout* places = layout.getStructLayout(record);
    const unsigned element = places->getElementContainingOffset(offset);
    offset -= places->getElementOffset(element).getFixedValue();
    type = record->getElementType(element);
  }
}

}  // namespace lint
