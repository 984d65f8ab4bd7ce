// The handler. It asks for a type without a lock, then steps aside so that the access faults again.
#include "regions/stale_use.h"

#include <signal.h>

#include <atomic>
#include <cstdint>

#include "base/message.h"
#include "regions/hot_domains.h"

namespace strata {
namespace {

struct sigaction g_before;

// Takes no lock: the list of domains only grows, at its head.
void Handle(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (const char* type = StaleTypeAt(address)) {
    Message()
        .Text("an object was used after its operation (hot_scope) or its life had ended: ")
        .Hex(address)
        .Text(type[0] == '\0' ? "" : ", ")
        .Text(type)
        .Send();
    struct sigaction by_default{};
    by_default.sa_handler = SIG_DFL;
    sigaction(signal, &by_default, nullptr);
    return;  // the access faults again
  }
  if ((g_before.sa_flags & SA_SIGINFO) != 0) {
    g_before.sa_sigaction(signal, info, context);
  } else if (g_before.sa_handler != SIG_DFL && g_before.sa_handler != SIG_IGN) {
    g_before.sa_handler(signal);
  } else {
    sigaction(signal, &g_before, nullptr);
  }
}

}  // namespace

void InstallStaleUseHandler() {
  static std::atomic<bool> installed{false};
  if (installed.exchange(true)) return;
  struct sigaction ours{};
  ours.sa_sigaction = Handle;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, nullptr, &g_before);
  sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace strata
