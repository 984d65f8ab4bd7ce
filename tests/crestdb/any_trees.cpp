// The trees of CrestDB, for the tests of every structure (any_index.h).
#include <algorithm>
#include <array>

#include "any_index_of.h"
#include "index/art.h"
#include "index/coarse_btree.h"
#include "index/masstree.h"
#include "index/occ_btree.h"

namespace crest {
namespace {

constexpr IndexKind kPlain[] = {
    {"CoarseBTree", AnyIndexOf<CoarseBTree, PlainValues>::Make},
    {"OccBTree", AnyIndexOf<OccBTree, PlainValues>::Make},
    {"Masstree", AnyIndexOf<Masstree, PlainValues>::Make},
    {"Art", AnyIndexOf<Art, PlainValues>::Make},
};
constexpr IndexKind kMoving[] = {
    {"CoarseBTreeMoving", AnyIndexOf<CoarseBTree, GuidedValues>::Make},
    {"OccBTreeMoving", AnyIndexOf<OccBTree, GuidedValues>::Make},
    {"MasstreeMoving", AnyIndexOf<Masstree, GuidedValues>::Make},
    {"ArtMoving", AnyIndexOf<Art, GuidedValues>::Make},
};
constexpr auto kAll = [] {
  std::array<IndexKind, std::size(kPlain) + std::size(kMoving)> all{};
  std::ranges::copy(kMoving, std::ranges::copy(kPlain, all.begin()).out);
  return all;
}();

}  // namespace

std::span<const IndexKind> Trees() { return kAll; }
std::span<const IndexKind> PlainTrees() { return kPlain; }

}  // namespace crest
