// What the paths of malloc and free, and a fork, ask of scopes and reaps. Those stand on malloc and
// lie in src/regions; malloc asks them through this header alone, which they define, so that no
// include points up. Sits in malloc.
#pragma once

#include <cstddef>

#include "base/check.h"
#include "malloc/runtime.h"
#include "profile/hotness_stats.h"

struct strata_reap;

namespace strata {

STRATA_ALWAYS_INLINE bool InScope() { return STRATA_UNLIKELY(t_state.scope != nullptr); }

// From the scope that the thread is in. Null with ENOMEM.
void* AllocateInScope(size_t size, size_t align = 16);

// The reap whose live or freed block begins at p, which may be anything; null: none.
strata_reap* ReapOfBlock(void* p);
// 0: p is no live block of the reap.
size_t LiveSizeInReap(strata_reap* reap, void* p);
// realloc() of a block of this reap: null with an errno, the block as it was.
void* ReallocateInReap(strata_reap* reap, void* p, size_t size);
// free() of what is no other live block: false if it is no block of a reap's.
bool FreeReapBlock(void* p);
// free() where p's page is kDividedPage: by one look at the page map, or by FreeSmallOther.
void FreeDivided(void* p);

// Whether the thread, in a signal handler, has a lock of shared reaps, or their tree's.
bool HoldsReapLock();
// What a fork does about a lock that it can't have in a moment: give up, or go on without.
enum class AtHeldLock : bool { kStop, kPassBy };
// Around a fork; before the heap's locks. False: some could not be had.
bool LockReaps(AtHeldLock at);
void UnlockReaps();
void UnlockReapsInForkedChild();
// The same for domains of moving objects: before reaps. In the child, whose collector and whose
// other threads' operations are not there.
bool HoldsDomainLock();
bool HoldsListOfDomains();  // which CollectHotness takes, and no other of theirs
bool LockHotDomains(AtHeldLock at);
void UnlockHotDomains();
void UnlockHotDomainsInForkedChild();
void RenewHotDomainsInChild();
void CollectHotness(HotnessStats& out);

}  // namespace strata
