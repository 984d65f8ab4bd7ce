// The hash tables and skip lists of CrestDB, for the tests of every structure (any_index.h).
#include "any_index_of.h"
#include "index/chm_table.h"
#include "index/coarse_skiplist.h"
#include "index/fraser_skiplist.h"
#include "index/harris_table.h"
#include "index/herlihy_skiplist.h"
#include "index/pugh_table.h"

namespace crest {

std::span<const IndexKind> Tables() {
  static constexpr IndexKind kKinds[] = {
      {"HarrisTable", AnyIndexOf<HarrisTable, PlainValues>::Make},
      {"PughTable", AnyIndexOf<PughTable, PlainValues>::Make},
      {"ChmTable", AnyIndexOf<ChmTable, PlainValues>::Make},
      {"CoarseSkiplist", AnyIndexOf<CoarseSkiplist, PlainValues>::Make},
      {"FraserSkiplist", AnyIndexOf<FraserSkiplist, PlainValues>::Make},
      {"HerlihySkiplist", AnyIndexOf<HerlihySkiplist, PlainValues>::Make},
      {"HarrisTableMoving", AnyIndexOf<HarrisTable, GuidedValues>::Make},
      {"PughTableMoving", AnyIndexOf<PughTable, GuidedValues>::Make},
      {"ChmTableMoving", AnyIndexOf<ChmTable, GuidedValues>::Make},
      {"CoarseSkiplistMoving", AnyIndexOf<CoarseSkiplist, GuidedValues>::Make},
      {"FraserSkiplistMoving", AnyIndexOf<FraserSkiplist, GuidedValues>::Make},
      {"HerlihySkiplistMoving", AnyIndexOf<HerlihySkiplist, GuidedValues>::Make},
  };
  return kKinds;
}

}  // namespace crest
