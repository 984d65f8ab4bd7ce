// The structures by name, in the order of table 1 of HADES (Banakar et al., DIMES 2025).
#include "store.h"

#include "stores/makers.h"

namespace crest {
namespace {

constexpr StructureName kStructures[] = {
    {"harris-table", "lock-free", MakeHarrisTable},
    {"pugh-table", "fine-grained read/write locks", MakePughTable},
    {"chm-table", "locks of segments", MakeChmTable},
    {"coarse-skiplist", "one lock", MakeCoarseSkiplist},
    {"fraser-skiplist", "lock-free", MakeFraserSkiplist},
    {"herlihy-skiplist", "optimistic, fine-grained locks", MakeHerlihySkiplist},
    {"coarse-btree", "one lock", MakeCoarseBtree},
    {"occ-btree", "optimistic, versions, epochs", MakeOccBtree},
    {"masstree", "optimistic, versions, read-copy-update", MakeMasstree},
    {"art", "fine-grained read/write locks", MakeArt},
};

}  // namespace

std::span<const StructureName> Structures() { return kStructures; }

const StructureName* FindStructure(std::string_view name) {
  for (const StructureName& s : kStructures) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

}  // namespace crest
