// The adaptive radix tree as a Store; compiled by itself.
#include "index/art.h"

#include "stores/makers.h"
#include "stores/store_of.h"

namespace crest {

std::unique_ptr<Store> MakeArt(const StoreOptions& o) { return MakeStore<Art>(o); }

}  // namespace crest
