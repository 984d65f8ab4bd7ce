// The segmented table as a Store; compiled by itself.
#include "index/chm_table.h"

#include "stores/makers.h"
#include "stores/store_of.h"

namespace crest {

std::unique_ptr<Store> MakeChmTable(const StoreOptions& o) { return MakeStore<ChmTable>(o); }

}  // namespace crest
