// A search through shards that is as good as a look at one place: null means that there was a
// moment at which no shard had anything. For Hoard's global heap and its spares, each sharded by
// processor.
#pragma once

#include <cstddef>

namespace strata::layers {

// One who looks into one shard after the other could miss what is put into one already searched
// while the rest is taken from those to come. So arrivals are counted, each while its shard is
// locked and after it can be found there; if the count is the same before and after the search,
// nothing arrived between, every shard was seen empty at some moment between, and none has anything
// at the second look. If it has changed, another thread has put something, and the search begins
// anew.
//
// try_one(shard number) gives what it took from that shard, or null when it saw it empty.
template <class Arrivals, class TryOne>
auto SearchShards(const Arrivals& arrivals, size_t shards, size_t first, TryOne try_one)
    -> decltype(try_one(first)) {
  for (;;) {
    const size_t before = arrivals.load();
    for (size_t i = 0; i < shards; ++i) {
      if (auto* found = try_one((first + i) % shards)) return found;
    }
    if (arrivals.load() == before) return nullptr;
  }
}

}  // namespace strata::layers
