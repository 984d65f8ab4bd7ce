// Profiles of the process-wide instance, and the C functions for them. See profile_api.h.
#include "report/profile_api.h"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include <new>

#include "base/errno_keeper.h"
#include "heaps/pinned_at.h"
#include "malloc/guard.h"
#include "malloc/runtime.h"
#include "os/clock.h"
#include "os/confinement.h"
#include "profile/lifetimes.h"
#include "profile/stack_walk.h"
#include "strata/strata.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata {

struct ProfileWindow {
  ProfileKind kind;
  SampleSnapshot begin;
};

namespace {

// 0, or why there can be no profile.
int Check(const char* kind, ProfileKind& out) {
  if (!FindProfileKind(kind, out)) return EINVAL;
  if (EnsureStarted() != RunState::kReady) return ENOTSUP;
  FindInheritedConfinement();  // for the walks of the window
  const SamplerStats s = TheRuntime().sampler.Stats();
  return s.interval == 0 && s.samples == 0 ? ENOTSUP : 0;
}

int Write(ProfileKind kind, const SampleSnapshot* since, int fd) {
  Runtime& r = TheRuntime();
  // Whoever looks at this profile will want the next ones to show what was loaded lately. Always: a
  // file in the place of another is seen by no walk.
  RefreshUnwindTables();
  const ProfileShape shape = ShapeOf(kind);
  const uint64_t now_ns = r.kernel.NowNs();
  PprofHeader header;
  header.time_ns = static_cast<int64_t>(ReadClock(CLOCK_REALTIME));
  header.duration_ns = since == nullptr ? 0 : static_cast<int64_t>(now_ns - since->time_ns);
  header.period_type = {"space", "bytes"};
  header.period = static_cast<int64_t>(r.sampler.rate().interval);
  header.comment = NameOf(kind);
  header.process = program_invocation_short_name;
  header.default_type = shape.default_type;
  header.scripts = &TheScriptFrames();
  PprofWriter writer(fd, shape.types, shape.types_n, header);
  PinnedBytesOf pinned{[](void* heap, uintptr_t address) {
                         if (IsGuarded(reinterpret_cast<void*>(address))) return PinnedBytes{};
                         return PinnedAt(*static_cast<ProcessHeap*>(heap), address);
                       },
                       &r.heap};
  if (kind == ProfileKind::kFragmentation) pinned.most = PinnedInAll(r.heap);
  if (!AddProfileRows(writer, kind, r.sampler, since, now_ns, pinned)) return ENOMEM;
  return writer.Finish() ? 0 : errno;
}

}  // namespace

int WriteProfile(const char* kind, int fd) {
  const ErrnoKeeper keep;
  ProfileKind k;
  if (const int error = Check(kind, k)) return error;
  return Write(k, nullptr, fd);
}

ProfileWindow* BeginProfileWindow(const char* kind) {
  ProfileKind k;
  errno = Check(kind, k);
  if (errno != 0) return nullptr;
  RefreshUnwindTables();  // for the samples of the window
  void* p = mmap(nullptr, sizeof(ProfileWindow), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* window = ::new (p) ProfileWindow{k, {}};
  if (window->begin.Take(TheRuntime().sampler, k, TheRuntime().kernel.NowNs())) return window;
  DropProfileWindow(window);
  errno = ENOMEM;
  return nullptr;
}

int EndProfileWindow(ProfileWindow* window, int fd) {
  const ErrnoKeeper keep;
  const int error = Write(window->kind, &window->begin, fd);
  DropProfileWindow(window);
  return error;
}

void DropProfileWindow(ProfileWindow* window) {
  window->~ProfileWindow();
  munmap(window, sizeof(*window));
}

}  // namespace strata

STRATA_EXPORT int strata_profile(const char* kind, int fd) {
  return strata::WriteProfile(kind, fd);
}
STRATA_EXPORT size_t strata_sample_interval(void) {
  if (strata::EnsureStarted() != strata::RunState::kReady) return 0;
  return strata::TheRuntime().sampler.rate().interval;
}
