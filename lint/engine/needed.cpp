// By the symbol tables that bitcode carries (needed.h).
#include "needed.h"

#include <llvm/Object/IRObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>

#include <unordered_map>

namespace lint {
namespace {

struct Unit {
  std::vector<std::string> defines, refers;
  bool taken = false;
};

// What cannot be read is taken: that it is bad is said when it is linked.
Unit read(const std::string& file, bool is_shared) {
  Unit unit;
  unit.taken = !is_shared;
  auto buffer = llvm::MemoryBuffer::getFile(file);
  if (!buffer) return unit;
  auto table = llvm::object::readIRSymtab(**buffer);
  if (!table) {
    llvm::consumeError(table.takeError());
    unit.taken = true;
    return unit;
  }
  for (const llvm::irsymtab::Reader::SymbolRef& symbol : table->TheReader.symbols()) {
    if (!symbol.isGlobal()) continue;
    const std::string name = symbol.getName().str();
    unit.taken |= !symbol.isUndefined() && name == "main";
    (symbol.isUndefined() ? unit.refers : unit.defines).push_back(name);
  }
  return unit;
}

}  // namespace

std::vector<std::string> needed(const std::vector<std::string>& files,
                                const std::set<std::string>& shared) {
  if (shared.empty()) return files;
  std::vector<Unit> units;
  units.reserve(files.size());
  for (const std::string& file : files) units.push_back(read(file, shared.count(file) != 0));
  std::unordered_map<std::string, Unit*> definers;
  std::vector<Unit*> work;
  for (Unit& unit : units) {
    if (unit.taken) work.push_back(&unit);
    for (const std::string& name : unit.defines) {
      Unit*& definer = definers.try_emplace(name, &unit).first->second;
      if (unit.taken) definer = &unit;
    }
  }
  while (!work.empty()) {
    const Unit& unit = *work.back();
    work.pop_back();
    for (const std::string& name : unit.refers) {
      const auto at = definers.find(name);
      if (at == definers.end() || at->second->taken) continue;
      at->second->taken = true;
      work.push_back(at->second);
    }
  }
  std::vector<std::string> out;
  for (std::size_t f = 0; f < files.size(); ++f) {
    if (units[f].taken) out.push_back(files[f]);
  }
  return out;
}

}  // namespace lint
