// The optimistic skip list as a Store; compiled by itself.
#include "index/herlihy_skiplist.h"

#include "stores/makers.h"
#include "stores/store_of.h"

namespace crest {

std::unique_ptr<Store> MakeHerlihySkiplist(const StoreOptions& o) {
  return MakeStore<HerlihySkiplist>(o);
}

}  // namespace crest
