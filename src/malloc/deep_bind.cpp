// What this library says to a load with RTLD_DEEPBIND (heaps/preload/deep_bind.h): without it, save
// where every call goes to the next allocator anyway. Sits in malloc.
#include <atomic>

#include "base/message.h"
#include "heaps/preload/deep_bind.h"
#include "malloc/runtime.h"

namespace strata {

namespace {
std::atomic<bool> g_said{false};
}

bool MayBindDeep() {
  const RunState state = EnsureStarted();
  if (state == RunState::kStoodDown) return true;
  if (state == RunState::kReady && TheRuntime().options.verbose &&
      !g_said.exchange(true, std::memory_order_relaxed)) {
    Message()
        .Text("RTLD_DEEPBIND is left out of a load: the library would give our blocks to libc's ")
        .Text("free")
        .Send();
  }
  return false;
}

}  // namespace strata
