// Asking the dynamic linker. See loaded_files.h.
#include "profile/unwind/loaded_files.h"

#include <link.h>
#include <time.h>

#include "base/errno_keeper.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

struct Counts {
  uint64_t loaded = 0;
  uint64_t unloaded = 0;
};

// It is called for every file with the same counts; the first is enough.
int TakeCounts(dl_phdr_info* info, size_t, void* out) {
  *static_cast<Counts*>(out) = {info->dlpi_adds, info->dlpi_subs};
  return 1;
}

}  // namespace

bool LoadedFiles::Changed() {
  uint32_t expected = 0;
  // acquire: what the thread before wrote, if this is another one.
  if (!state_.compare_exchange_strong(expected, kAsking, std::memory_order_acquire,
                                      std::memory_order_relaxed))
    return false;
  Counts counts;
  dl_iterate_phdr(TakeCounts, &counts);
  const bool changed = counts.loaded != loaded_ || counts.unloaded != unloaded_;
  loaded_ = counts.loaded;
  unloaded_ = counts.unloaded;
  state_.fetch_sub(kAsking, std::memory_order_release);
  return changed;
}

void LoadedFiles::BeforeFork() {
  const ErrnoKeeper keep;
  constexpr timespec kWait{0, 20'000};
  constexpr int kMostWaits = 500;
  // acquire: pairs with the release of the thread that asked.
  uint32_t before = state_.fetch_add(kFork, std::memory_order_acquire);
  for (int i = 0; (before & kAsking) != 0 && i < kMostWaits; ++i) {
    raw::Nanosleep(&kWait, nullptr);
    before = state_.load(std::memory_order_acquire);
  }
}

}  // namespace strata
