// The lock-free table as a Store; compiled by itself.
#include "index/harris_table.h"

#include "stores/makers.h"
#include "stores/store_of.h"

namespace crest {

std::unique_ptr<Store> MakeHarrisTable(const StoreOptions& o) { return MakeStore<HarrisTable>(o); }

}  // namespace crest
