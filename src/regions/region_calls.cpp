// What free and realloc do with a block of a reap's. See malloc/region_calls.h.
#include "malloc/region_calls.h"

#include <errno.h>

#include "malloc/blocks.h"
#include "regions/reaps.h"

namespace strata {
namespace {

// What free and realloc may be given is a shared reap's. False, with the misuse reported: that of a
// reap for one thread, for the caller may be another.
bool ExpectShared(const strata_reap* reap, const void* p) {
  if (reap->shared) return true;
  ReportMisuse("free or realloc of a block of a reap for one thread: ", p);
  errno = EINVAL;
  return false;
}

}  // namespace

bool FreeReapBlock(void* p) {
  strata_reap* reap = ReapOfBlock(p);
  if (reap == nullptr) return false;
  if (ExpectShared(reap, p)) FreeInReap(reap, p);
  return true;
}

void* ReallocateInReap(strata_reap* reap, void* p, size_t size) {
  if (!ExpectShared(reap, p)) return nullptr;
  if (!ExpectBlock(reap, p)) {
    errno = EINVAL;
    return nullptr;
  }
  // A scope's goes where the thread is now.
  const strata_scope* scope = reap->scope;
  const bool stays = scope == nullptr || scope == t_state.scope;
  void* resized = ResizeInReap(reap, p, size, stays ? Resizing::kMayMove : Resizing::kInPlace);
  if (resized != nullptr) return resized;
  return scope == nullptr ? MoveInReap(reap, p, size) : MoveByCopy(p, SizeInReap(reap, p), size);
}

}  // namespace strata
