// MassTree as a Store; compiled by itself.
#include "index/masstree.h"

#include "stores/makers.h"
#include "stores/store_of.h"

namespace crest {

std::unique_ptr<Store> MakeMasstree(const StoreOptions& o) { return MakeStore<Masstree>(o); }

}  // namespace crest
