// The B+tree under one lock as a Store; compiled by itself.
#include "index/coarse_btree.h"

#include "stores/makers.h"
#include "stores/store_of.h"

namespace crest {

std::unique_ptr<Store> MakeCoarseBtree(const StoreOptions& o) { return MakeStore<CoarseBTree>(o); }

}  // namespace crest
