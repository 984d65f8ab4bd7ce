// Unions in records (unions.h).
#include "unions.h"

#include <llvm/IR/DataLayout.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/Support/raw_ostream.h>

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

// What lies where in the type, by whatever records and unions that is said.
void describe(llvm::Type* type, std::uint64_t offset, const llvm::DataLayout& layout,
              llvm::raw_ostream& out) {
  if (auto* array = llvm::dyn_cast<llvm::ArrayType>(type)) {
    out << array->getNumElements() << '[';
    describe(array->getElementType(), offset, layout, out);
    out << ']';
  } else if (auto* record = llvm::dyn_cast<llvm::StructType>(type)) {
    const llvm::StructLayout* fields = layout.getStructLayout(record);
    for (unsigned e = 0; e < record->getNumElements(); ++e) {
      describe(record->getElementType(e), offset + fields->getElementOffset(e).getFixedValue(),
               layout, out);
    }
  } else {
    out << offset << ':' << *type << ' ';
  }
}

std::string described(llvm::StructType& type, const llvm::DataLayout& layout) {
  std::string text;
  llvm::raw_string_ostream out(text);
  describe(&type, 0, layout, out);
  return text;
}

void find_unions(llvm::Type* part, std::uint64_t offset, const llvm::DataLayout& layout,
                 std::vector<std::pair<std::uint64_t, std::uint64_t>>& places) {
  auto* type = llvm::dyn_cast<llvm::StructType>(part);
  if (type == nullptr) return;
  if (is_union(*type)) {
    places.emplace_back(offset, offset + layout.getTypeAllocSize(type).getFixedValue());
    return;
  }
  const llvm::StructLayout* fields = layout.getStructLayout(type);
  for (unsigned e = 0; e < type->getNumElements(); ++e) {
    find_unions(type->getElementType(e), offset + fields->getElementOffset(e).getFixedValue(),
                layout, places);
  }
}

}  // namespace

void Unions::note(const llvm::Module& part) {
  const llvm::DataLayout& layout = part.getDataLayout();
  for (llvm::StructType* type : part.getIdentifiedStructTypes()) {
    const std::string name = plain(*type);
    if (name.empty() || !type->isSized() || is_union(*type)) continue;
    Places places;
    find_unions(type, 0, layout, places);
    const auto [at, added] = places_.try_emplace({name, described(*type, layout)}, places);
    if (added) continue;
    std::erase_if(at->second, [&](const auto& place) {
      return std::find(places.begin(), places.end(), place) == places.end();
    });
  }
}

bool Unions::knows(llvm::StructType& record, std::uint64_t offset,
                   const llvm::DataLayout& layout) const {
  const auto at = places_.find({plain(record), described(record, layout)});
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
    if (!record->isSized()) return false;
    if (is_union(*record) || knows(*record, offset, layout)) return true;
    if (offset >= layout.getTypeAllocSize(record).getFixedValue()) return false;
    const llvm::StructLayout* places = layout.getStructLayout(record);
    const unsigned element = places->getElementContainingOffset(offset);
    offset -= places->getElementOffset(element).getFixedValue();
    type = record->getElementType(element);
  }
}

}  // namespace lint
