// The crate builds tcmalloc without the malloc API; this compiles the same file with it, so that
// the entry points are tcmalloc's own. Its background actions (cache reclaim and release) need a
// thread that an application would start: one runs here if PEER_TCMALLOC_RELEASE_RATE gives the
// bytes a second to release. Without it nothing is ever given back, which is the default.
#include "tcmalloc/tcmalloc.cc"

#include <pthread.h>
#include <stdlib.h>

#include "tcmalloc/malloc_extension.h"

namespace {

void* RunBackground(void*) {
  tcmalloc::MallocExtension::ProcessBackgroundActions();
  return nullptr;
}

[[gnu::constructor]] void StartBackground() {
  const char* rate = getenv("PEER_TCMALLOC_RELEASE_RATE");
  if (rate == nullptr) return;
  tcmalloc::MallocExtension::SetBackgroundReleaseRate(
      tcmalloc::MallocExtension::BytesPerSecond{strtoull(rate, nullptr, 10)});
  pthread_t thread;
  if (pthread_create(&thread, nullptr, RunBackground, nullptr) == 0) pthread_detach(thread);
}

}  // namespace
