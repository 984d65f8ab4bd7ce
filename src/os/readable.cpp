// Asking the kernel whether memory can be read. See readable.h. mincore would not do: it knows
// mappings, not their protection, so that a guard page passes.
#include "os/readable.h"

#include <errno.h>
#include <sys/syscall.h>

#include "os/confinement.h"
#include "strata/raw_io.h"

namespace strata {

// rt_sigprocmask copies the new mask in before it looks at what to do with it, and refuses this
// one. Any other answer, as from a seccomp filter, says nothing of the memory.
bool IsReadable(uintptr_t address) {
  if (address == 0 || !MaySetSignalMask()) return false;  // 0 stands for no mask
  constexpr long kNoSuchAction = -1;
  const long result =
      raw::Call(SYS_rt_sigprocmask, kNoSuchAction, static_cast<long>(address), 0, sizeof(uint64_t));
  return result == -EINVAL;
}

}  // namespace strata
