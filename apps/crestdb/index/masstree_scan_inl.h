// Scans of MassTree (masstree.h): one border at a time, each reached by its own way down from the
// root to a cursor, the least key that the scan has not passed. So a scan holds nothing that a
// split or a new layer could make stale. Each border is seen as it was at one moment.
#pragma once

#include "index/masstree.h"

namespace crest {

namespace masstree_scan {

// The first `size` bytes of `prefix`, then the least string whose slice this is: without the zeros
// at its end.
inline void Join(std::string_view prefix, size_t size, uint64_t slice, KeyBuffer& key) {
  key.Assign(prefix.substr(0, size));
  for (; slice != 0; slice <<= 8) key.Append(static_cast<char>(slice >> 56));
}

}  // namespace masstree_scan

// Takes the records of one border that do not lie before the cursor, and sets this behind them.
// False: there are no more.
template <class Values>
bool Masstree<Values>::NextBatch(KeyBuffer& cursor, Batch& batch) {
  for (Backoff backoff;; backoff.Wait()) {
    const Path path = Descend(cursor.view());
    KeyBuffer next;
    batch.Clear();
    const bool more = Collect(path, cursor.view(), batch, next);
    if (!path.node->version.Unchanged(path.version)) continue;
    if (more) cursor = next;
    return more;
  }
}

template <class Values>
bool Masstree<Values>::Collect(const Path& path, std::string_view from, Batch& batch,
                               KeyBuffer& next) {
  const Border* border = path.border();
  const Permutation places = border->Order();
  const Part part(from, path.offset);
  const auto found = border->Find(places, part);
  for (size_t i = found.index; i < places.size(); ++i) {
    // The border's range may have grown since the bound was read: the next batch begins there.
    if (path.bound && border->Slice(places[i]) >= *path.bound) break;
    const Link link = border->At(places[i]);
    if (link.node() != nullptr) {
      // On into the layer: its keys have at least one more byte.
      next.Assign(from.substr(0, path.offset));
      const uint64_t slice = __builtin_bswap64(border->Slice(places[i]));
      next.Append({reinterpret_cast<const char*>(&slice), kWord});
      next.Append('\0');
      return true;
    }
    // Only one that goes on behind the same slice can still lie before `from`.
    if (i > found.index || !(link.record()->key() < from)) batch.Add(link.record());
  }
  if (!path.bound) return Above(from, path.offset, next);
  masstree_scan::Join(from, path.offset, *path.bound, next);
  return true;
}

// The layer at `offset` has come to its end: on behind the slice that led here.
template <class Values>
bool Masstree<Values>::Above(std::string_view from, size_t offset, KeyBuffer& next) {
  while (offset != 0) {
    offset -= kWord;
    const uint64_t slice = WordAt(from, offset);
    if (slice == ~uint64_t{0}) continue;
    masstree_scan::Join(from, offset, slice + 1, next);
    return true;
  }
  return false;
}

}  // namespace crest
