// The table with fine-grained locks as a Store; compiled by itself.
#include "index/pugh_table.h"

#include "stores/makers.h"
#include "stores/store_of.h"

namespace crest {

std::unique_ptr<Store> MakePughTable(const StoreOptions& o) { return MakeStore<PughTable>(o); }

}  // namespace crest
