// libc's functions for giving something up, with the library's thread out of the way. See
// watched_calls.h. In the shared library only: a program that is linked with the archive keeps its
// libc's. Each does what libc's does; prctl and syscall are the system calls themselves.
#include "malloc/watched_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "malloc/background_thread.h"
#include "malloc/fork_handlers.h"
#include "malloc/own_process.h"
#include "malloc/runtime.h"
#include "os/confinement.h"
#include "os/readable.h"
#include "os/side_stack.h"
#include "strata/raw_io.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata {

namespace {

std::atomic<bool> g_calls_pass{false};

}  // namespace

bool SeesWhatTheProgramGivesUp() { return g_calls_pass.load(std::memory_order_relaxed); }

namespace {

struct Arguments {
  long a[6];
};

// What libc's function answers.
long Call(long number, const Arguments& arguments) {
  const long* a = arguments.a;
  return raw::Call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// What a call means to us.
enum class Kind : uint8_t {
  kOther,
  kConfines,  // NO_NEW_PRIVS, or a filter
  kGivesUp,   // an identity, capabilities, a namespace
  kForks,     // a copy of the process, by which no fork handler runs
};

bool IsConfiningPrctl(long option, long value) {
  return (option == PR_SET_NO_NEW_PRIVS && value == 1) || option == PR_SET_SECCOMP;
}

// With CLONE_VFORK the parent would wait for the child with the heap's locks held.
bool CopiesProcess(uint64_t flags) {
  return (flags & (CLONE_VM | CLONE_THREAD | CLONE_VFORK)) == 0;
}

bool CopiesProcess(const clone_args* how, long bytes) {
  constexpr long kFirstVersion = 64;
  const auto at = reinterpret_cast<uintptr_t>(how);
  return bytes >= kFirstVersion && IsReadable(at) && IsReadable(at + kFirstVersion - 8) &&
         CopiesProcess(how->flags) && how->stack == 0;
}

Kind KindOf(long number, const Arguments& arguments) {
  const long* a = arguments.a;
  switch (number) {
    case SYS_prctl:
      return IsConfiningPrctl(a[0], a[1]) ? Kind::kConfines : Kind::kOther;
    case SYS_seccomp:
      return a[0] == SECCOMP_SET_MODE_STRICT || a[0] == SECCOMP_SET_MODE_FILTER ? Kind::kConfines
                                                                                : Kind::kOther;
    case SYS_unshare:
    case SYS_setns:
    case SYS_capset:
    case SYS_setuid:
    case SYS_setgid:
    case SYS_setreuid:
    case SYS_setregid:
    case SYS_setresuid:
    case SYS_setresgid:
    case SYS_setgroups:
#ifdef SYS_landlock_restrict_self
    case SYS_landlock_restrict_self:
#endif
      return Kind::kGivesUp;
#ifdef SYS_fork
    case SYS_fork:
      return Kind::kForks;
#endif
    case SYS_clone:  // with a stack of its own the child does not come back here
      return CopiesProcess(static_cast<uint64_t>(a[0])) && a[1] == 0 ? Kind::kForks : Kind::kOther;
    case SYS_clone3:
      return CopiesProcess(reinterpret_cast<const clone_args*>(a[0]), a[1]) ? Kind::kForks
                                                                            : Kind::kOther;
    default:
      return Kind::kOther;
  }
}

bool IsWatching() { return CurrentState() == RunState::kReady; }

std::atomic<uint32_t> g_pending{0};  // calls under way that confine
std::atomic<Confinement> g_confirmed{Confinement::kNone};

void Confirm(Confinement level) {
  Confinement now = g_confirmed.load(std::memory_order_relaxed);
  while (now < level && !g_confirmed.compare_exchange_weak(now, level)) {
  }
}

// A filter, or NO_NEW_PRIVS, of which nothing is left if the call fails. In a process that has
// confined itself before there is no thread to end.
long CallThatConfines(long number, const Arguments& arguments) {
  const bool filters = number == SYS_seccomp || arguments.a[0] == PR_SET_SECCOMP;
  const Confinement own = filters ? Confinement::kOwnFilter : Confinement::kNoNewPrivs;
  const Confinement before = CurrentConfinement();
  if (!IsWatching() || before >= own || (MayOpenFiles() && BorrowsMemory()))
    return raw::Answer(Call(number, arguments));
  if (g_pending.fetch_add(1) == 0) g_confirmed.store(before);
  long result;
  if (before == Confinement::kNoNewPrivs) {
    NoteOwnConfinement(own);
    AwaitSideStacks();  // one may ask for statistics
    result = Call(number, arguments);
  } else {
    const BackgroundThreadAway away;
    NoteOwnConfinement(own);
    AwaitSideStacks();
    result = Call(number, arguments);
  }
  if (result >= 0) Confirm(own);
  if (g_pending.fetch_sub(1) == 1) UndoOwnConfinement(g_confirmed.load());
  return raw::Answer(result);
}

long CallThatGivesUp(long number, const Arguments& arguments) {
  if (!IsWatching()) return raw::Answer(Call(number, arguments));
  const BackgroundThreadAway away;
  return raw::Answer(Call(number, arguments));
}

long CallThatForks(long number, const Arguments& arguments) {
  if (!IsWatching() || BorrowsMemory()) return raw::Answer(Call(number, arguments));
  BeforeFork();
  const long result = Call(number, arguments);
  if (result == 0) {
    AfterForkInChild();
    ForgetProcessNumber();
  } else {
    AfterForkInParent();
  }
  return raw::Answer(result);
}

// The definition after ours, looked up before there is a thread, or when it is first needed.
template <class F>
F Next(F& cached, const char* name) {
  F found = __atomic_load_n(&cached, __ATOMIC_RELAXED);
  if (found == nullptr) {
    found = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
    __atomic_store_n(&cached, found, __ATOMIC_RELAXED);
  }
  return found;
}

// libc's own, because it changes all threads of the process: it ends one of which a thread with
// fewer privileges cannot follow. Rather than that it fails.
template <class F, class... Args>
int ChangeIds(F& cached, const char* name, Args... args) {
  F next = Next(cached, name);
  if (next == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  if (!IsWatching()) return next(args...);
  const BackgroundThreadAway away(Patience::kLong);
  if (away.gone()) return next(args...);
  errno = EAGAIN;
  return -1;
}

}  // namespace
}  // namespace strata

using strata::Arguments;
using strata::Kind;

STRATA_EXPORT long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  Arguments arguments;
  for (long& a : arguments.a) a = va_arg(list, long);
  va_end(list);
  switch (strata::KindOf(number, arguments)) {
    case Kind::kConfines:
      return strata::CallThatConfines(number, arguments);
    case Kind::kGivesUp:
      return strata::CallThatGivesUp(number, arguments);
    case Kind::kForks:
      return strata::CallThatForks(number, arguments);
    case Kind::kOther:
      break;
  }
  return strata::raw::Answer(strata::Call(number, arguments));
}

STRATA_EXPORT int prctl(int option, ...) noexcept {
  va_list list;
  va_start(list, option);
  Arguments arguments{{option}};
  for (int i = 1; i < 5; ++i) arguments.a[i] = va_arg(list, long);
  va_end(list);
  if (strata::IsConfiningPrctl(option, arguments.a[1]))
    return static_cast<int>(strata::CallThatConfines(SYS_prctl, arguments));
  return static_cast<int>(strata::raw::Answer(strata::Call(SYS_prctl, arguments)));
}

STRATA_EXPORT int unshare(int flags) noexcept {
  return static_cast<int>(strata::CallThatGivesUp(SYS_unshare, Arguments{{flags}}));
}

STRATA_EXPORT int setns(int fd, int type) noexcept {
  return static_cast<int>(strata::CallThatGivesUp(SYS_setns, Arguments{{fd, type}}));
}

STRATA_EXPORT int capset(void* header, const void* data) noexcept {
  return static_cast<int>(strata::CallThatGivesUp(
      SYS_capset, Arguments{{reinterpret_cast<long>(header), reinterpret_cast<long>(data)}}));
}

#define STRATA_CHANGE_IDS(name, parameters, specifier, ...)      \
  static int(*g_next_##name) parameters = nullptr;               \
  STRATA_EXPORT int name parameters specifier {                  \
    return strata::ChangeIds(g_next_##name, #name, __VA_ARGS__); \
  }

STRATA_CHANGE_IDS(setuid, (uid_t id), noexcept, id)
STRATA_CHANGE_IDS(setgid, (gid_t id), noexcept, id)
STRATA_CHANGE_IDS(seteuid, (uid_t id), noexcept, id)
STRATA_CHANGE_IDS(setegid, (gid_t id), noexcept, id)
STRATA_CHANGE_IDS(setreuid, (uid_t real, uid_t effective), noexcept, real, effective)
STRATA_CHANGE_IDS(setregid, (gid_t real, gid_t effective), noexcept, real, effective)
STRATA_CHANGE_IDS(setresuid, (uid_t real, uid_t effective, uid_t saved), noexcept, real, effective,
                  saved)
STRATA_CHANGE_IDS(setresgid, (gid_t real, gid_t effective, gid_t saved), noexcept, real, effective,
                  saved)
STRATA_CHANGE_IDS(setgroups, (size_t n, const gid_t* groups), noexcept, n, groups)
STRATA_CHANGE_IDS(initgroups, (const char* user, gid_t group), , user, group)

// Ours, whoever comes first: the plain names mean the first.
extern "C" {
__attribute__((visibility("hidden"), alias("setuid"))) int strata_own_setuid(uid_t) noexcept;
__attribute__((visibility("hidden"), alias("prctl"))) int strata_own_prctl(int, ...) noexcept;
__attribute__((visibility("hidden"), alias("syscall"))) long strata_own_syscall(long, ...) noexcept;
}

namespace strata {
namespace {

template <class F>
bool ComesFirst(const char* name, F* ours) {
  return dlsym(RTLD_DEFAULT, name) == reinterpret_cast<void*>(ours);
}

}  // namespace

void FindWhetherCallsPass() {
  const bool pass = ComesFirst("setuid", strata_own_setuid) &&
                    ComesFirst("prctl", strata_own_prctl) &&
                    ComesFirst("syscall", strata_own_syscall);
  g_calls_pass.store(pass, std::memory_order_relaxed);
  if (pass) NoteFiltersAreSeen();
}

void PrepareWatchedCalls() {
  Next(g_next_setuid, "setuid");
  Next(g_next_setgid, "setgid");
  Next(g_next_seteuid, "seteuid");
  Next(g_next_setegid, "setegid");
  Next(g_next_setreuid, "setreuid");
  Next(g_next_setregid, "setregid");
  Next(g_next_setresuid, "setresuid");
  Next(g_next_setresgid, "setresgid");
  Next(g_next_setgroups, "setgroups");
  Next(g_next_initgroups, "initgroups");
}

}  // namespace strata
