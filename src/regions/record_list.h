// The records of reaps and of scopes: blocks of the process heap that never go back to it, so that
// what a stale handle says can still be read. Under g_tree. Sits in regions.
#pragma once

#include <new>

#include "base/lock.h"
#include "malloc/blocks.h"
#include "regions/reaps.h"
#include "regions/scopes.h"

namespace strata {

template <class Record>
class RecordList {
 public:
  // A new record, or an old one as it was when it ended; null with ENOMEM.
  Record* Take() STRATA_EXCLUDES(g_tree) {
    {
      LockHolder hold(g_tree);
      if (Record* record = free_) {
        free_ = record->next;
        return record;
      }
    }
    // Without the lock: a miss may start the background thread, and the program's pthread_create
    // may be one that makes reaps.
    const OutOfScope out;
    // Aligned by name: where Strata stands down, another malloc serves this.
    void* raw = AllocateAligned(sizeof(Record), alignof(Record));
    return raw == nullptr ? nullptr : ::new (raw) Record();
  }

  void Give(Record* record) STRATA_REQUIRES(g_tree) {
    record->next = free_;
    free_ = record;
  }

 private:
  Record* free_ STRATA_GUARDED_BY(g_tree) = nullptr;
};

}  // namespace strata
