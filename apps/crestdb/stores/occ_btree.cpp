// The optimistic B+tree as a Store; compiled by itself.
#include "index/occ_btree.h"

#include "stores/makers.h"
#include "stores/store_of.h"

namespace crest {

std::unique_ptr<Store> MakeOccBtree(const StoreOptions& o) { return MakeStore<OccBTree>(o); }

}  // namespace crest
