// The handler of SIGSEGV for guarded blocks. A fault in the pool is explained on stderr; then the
// access is let fault again, by default or in the program's own handler, so that a core dump or a
// debugger shows it as it was. Any other fault is handed to whoever had the signal before. A
// program that sets a handler later keeps it: nothing is said then. Sits in malloc.
//
// The handler is set with the first guarded block, with the flags and the mask of the one that was
// there: it runs where, and interrupted by what, the program expects.
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "base/errno_keeper.h"
#include "malloc/fault_kind.h"
#include "malloc/guard.h"
#include "malloc/runtime.h"

namespace strata {
namespace {

// What was there when we asked, and what ours then replaced.
struct sigaction g_asked, g_replaced;
std::atomic<const struct sigaction*> g_before{nullptr};  // one of them, whole
std::atomic<bool> g_installed{false};

bool HandlesItself(const struct sigaction& a) {
  if ((a.sa_flags & SA_SIGINFO) != 0) return a.sa_sigaction != nullptr;
  return a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN;
}

void StepAside(int signal) {
  struct sigaction by_default{};
  by_default.sa_handler = SIG_DFL;
  sigaction(signal, &by_default, nullptr);
}

void HandOn(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = *g_before.load(std::memory_order_acquire);
  if (HandlesItself(before)) {
    if ((before.sa_flags & SA_SIGINFO) != 0) {
      before.sa_sigaction(signal, info, context);
    } else {
      before.sa_handler(signal);
    }
    return;
  }
  // The access faults again; a signal that somebody sent does not come again by itself. Synchronous
  // ones end a program that ignores them, those sent do not.
  const bool sent = info->si_code <= 0;
  if (sent && before.sa_handler == SIG_IGN && (before.sa_flags & SA_SIGINFO) == 0) return;
  StepAside(signal);
  if (sent) raise(signal);
}

void Handle(int signal, siginfo_t* info, void* context) {
  const ErrnoKeeper keep;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  // Whatever was sent has no address.
  if (info->si_code == SEGV_ACCERR) {
    const Noticed access = WasWrite(context) ? Noticed::kWrite : Noticed::kRead;
    if (SayGuardFault(at, access, FaultingInstruction(context)) &&
        TheRuntime().options.on_error == OnError::kIgnore) {
      ForgiveGuardFault(at);
      return;
    }
  }
  HandOn(signal, info, context);
}

}  // namespace

// Asks before it sets, as ours takes the flags and the mask of the one before, and a fault at that
// moment is handed on to it. A handler that another thread sets in between is the one before, but
// ours keeps what it took: to set ours again could put it over one that chains to us by then, and
// the two would call each other for ever.
void InstallGuardHandler() {
  // Ours must not become the one before.
  if (g_installed.exchange(true, std::memory_order_relaxed)) return;
  if (sigaction(SIGSEGV, nullptr, &g_asked) != 0) return;
  g_before.store(&g_asked, std::memory_order_release);
  struct sigaction ours{};
  ours.sa_sigaction = Handle;
  ours.sa_mask = g_asked.sa_mask;
  ours.sa_flags = HandlesItself(g_asked) ? g_asked.sa_flags | SA_SIGINFO : SA_SIGINFO | SA_ONSTACK;
  if (sigaction(SIGSEGV, &ours, &g_replaced) == 0)
    g_before.store(&g_replaced, std::memory_order_release);
}

}  // namespace strata
