// The skip list under one lock as a Store; compiled by itself.
#include "index/coarse_skiplist.h"

#include "stores/makers.h"
#include "stores/store_of.h"

namespace crest {

std::unique_ptr<Store> MakeCoarseSkiplist(const StoreOptions& o) {
  return MakeStore<CoarseSkiplist>(o);
}

}  // namespace crest
