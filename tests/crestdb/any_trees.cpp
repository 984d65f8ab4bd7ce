// The trees of CrestDB, for the tests of every structure (any_index.h).
#include "any_index_of.h"
#include "index/art.h"
#include "index/coarse_btree.h"
#include "index/masstree.h"
#include "index/occ_btree.h"

namespace crest {

std::span<const IndexKind> Trees() {
  static constexpr IndexKind kKinds[] = {
      {"CoarseBTree", AnyIndexOf<CoarseBTree, PlainValues>::Make},
      {"OccBTree", AnyIndexOf<OccBTree, PlainValues>::Make},
      {"Masstree", AnyIndexOf<Masstree, PlainValues>::Make},
      {"Art", AnyIndexOf<Art, PlainValues>::Make},
      {"CoarseBTreeMoving", AnyIndexOf<CoarseBTree, GuidedValues>::Make},
      {"OccBTreeMoving", AnyIndexOf<OccBTree, GuidedValues>::Make},
      {"MasstreeMoving", AnyIndexOf<Masstree, GuidedValues>::Make},
      {"ArtMoving", AnyIndexOf<Art, GuidedValues>::Make},
  };
  return kKinds;
}
std::span<const IndexKind> PlainTrees() { return Trees().first(4); }

}  // namespace crest
