// vfork. Its child runs on the parent's memory and TLS, but the kernel does not know it as a user
// of restartable sequences: nothing it begins on a slab would be aborted, and the vCPU it reads is
// the parent's of long ago. So the thread keeps off the slabs from the call until the
// parent returns from it; both sides then allocate by the slow path, under locks, and the fast path
// pays nothing. glibc's posix_spawn, system and popen need nothing: their children do not allocate.
// The function itself is the architecture's (x86_64/vfork_entry.cpp). Sits in malloc.
#include <dlfcn.h>
#include <errno.h>
#include <sys/types.h>

#include <cstdint>

#include "base/errno_keeper.h"
#include "malloc/runtime.h"
#include "malloc/stand_down.h"

namespace strata {

// In the two registers of a result.
struct BeforeVfork {
  void* next;        // the vfork to call in place of ours, where the library stands down
  uintptr_t nested;  // whether the caller is such a child itself
};

}  // namespace strata

extern "C" {

__attribute__((used)) strata::BeforeVfork strata_before_vfork() {
  using namespace strata;
  const ErrnoKeeper keep;
  const RunState state = EnsureStarted();
  if (state == RunState::kStoodDown) return {dlsym(RTLD_NEXT, "vfork"), 0};
  ThreadState& t = t_state;
  const uintptr_t nested = t.vforked;
  t.vforked = 1;
  t.slabs = nullptr;
  t.countdown.Pause();
  return {nullptr, nested};
}

__attribute__((used)) pid_t strata_after_vfork(long result, uintptr_t nested) {
  strata::t_state.vforked = nested != 0;
  if (result >= 0) return static_cast<pid_t>(result);
  errno = static_cast<int>(-result);
  return -1;
}

}  // extern "C"
