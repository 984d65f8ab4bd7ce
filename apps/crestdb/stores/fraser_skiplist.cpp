// The lock-free skip list as a Store; compiled by itself.
#include "index/fraser_skiplist.h"

#include "stores/makers.h"
#include "stores/store_of.h"

namespace crest {

std::unique_ptr<Store> MakeFraserSkiplist(const StoreOptions& o) {
  return MakeStore<FraserSkiplist>(o);
}

}  // namespace crest
