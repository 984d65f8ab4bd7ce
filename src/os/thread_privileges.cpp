// Dropping what one thread has. See thread_privileges.h.
#include "os/thread_privileges.h"

#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "strata/raw_io.h"

namespace strata {

// By system calls, not by libc's functions: those may be somebody else's, or ours, which watch what
// the program does.
void DropThreadPrivileges(KeepIds ids) {
  raw::Call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1);
  const sched_param normal{};
  if (raw::Call(SYS_sched_getscheduler, 0) != SCHED_OTHER)
    raw::Call(SYS_sched_setscheduler, 0, SCHED_OTHER, raw::Word(&normal));
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct kept[_LINUX_CAPABILITY_U32S_3] = {};
  if (ids == KeepIds::kYes && raw::Call(SYS_capget, raw::Word(&header), raw::Word(kept)) == 0) {
    constexpr uint32_t kIds = 1U << CAP_SETUID | 1U << CAP_SETGID;
    const uint32_t both = kept[0].permitted & kIds;
    kept[0] = {both, both, 0};
    kept[1] = {};
  }
  raw::Call(SYS_capset, raw::Word(&header), raw::Word(kept));
}

// Whole words of as many CPUs as a kernel can have.
void RunWhereProcessRuns() {
  constexpr long kBytes = 8192 / 8;
  uint64_t own[kBytes / 8] = {}, leaders[kBytes / 8] = {};
  const long pid = raw::Call(SYS_getpid);
  const long n = raw::Call(SYS_sched_getaffinity, pid, kBytes, raw::Word(leaders));
  if (n <= 0 || raw::Call(SYS_sched_getaffinity, 0, kBytes, raw::Word(own)) != n) return;
  // Wider alone: a leader that spins on a CPU of its own would keep the thread from running.
  for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); ++i) leaders[i] |= own[i];
  if (memcmp(own, leaders, static_cast<size_t>(n)) != 0)
    raw::Call(SYS_sched_setaffinity, 0, n, raw::Word(leaders));
}

}  // namespace strata
