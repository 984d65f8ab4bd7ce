// Finds the registration of threads for rseq, and the kernel's features for it. See rseq.h.
#include "os/rseq.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "os/confinement.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

constexpr unsigned long kAtRseqFeatureSize =
    27;  // AT_RSEQ_FEATURE_SIZE; not in Debian 12's headers
constexpr size_t kMmCidEnd = kRseqMmCidOffset + 4;

enum class Fences : uint8_t { kNotAsked, kRegistered, kRefused };
std::atomic<Fences> g_fences{Fences::kNotAsked};

long Membarrier(int command) {
  const int saved = errno;
  const long r = syscall(SYS_membarrier, command, 0, 0);
  errno = saved;
  return r;
}

}  // namespace

RseqInfo FindRseq() {
  RseqInfo info;
  if (!FindRseqArea(&info.area_offset) || !ThreadHasRseq(info)) return info;
  // glibc's __rseq_size stays 20 on glibc < 2.40 though 32 bytes are registered: ask the kernel,
  // not glibc.
  const bool has_mm_cid = getauxval(kAtRseqFeatureSize) >= kMmCidEnd;
  info.index = has_mm_cid ? RseqIndex::kMmCid : RseqIndex::kCpuId;
  info.index_offset =
      info.area_offset + static_cast<ptrdiff_t>(has_mm_cid ? kRseqMmCidOffset : kRseqCpuIdOffset);
  return info;
}

// Registered when first needed: most processes end before. Two threads may both do it.
bool MayFenceRseq() {
  if (!MayCallAnything()) return false;
  Fences now = g_fences.load(std::memory_order_relaxed);
  if (now == Fences::kNotAsked) {
    now = Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0 ? Fences::kRegistered
                                                                          : Fences::kRefused;
    g_fences.store(now, std::memory_order_relaxed);
  }
  return now == Fences::kRegistered;
}

bool FenceRseq() {
  return MayFenceRseq() && Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ) == 0;
}

size_t PossibleCpus(const char* list) {
  // "0-127" or "0,2-5": the last number is the highest id. Read without stdio, which allocates.
  const int saved = errno;
  size_t last = 0;
  bool found = false;
  const int fd = raw::Open(list, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    char text[256];
    size_t number = 0;
    for (ssize_t n; (n = raw::Read(fd, text, sizeof(text))) > 0;) {
      for (ssize_t i = 0; i < n; ++i) {
        if (text[i] >= '0' && text[i] <= '9') {
          number = number * 10 + static_cast<size_t>(text[i] - '0');
          last = number;
          found = true;
        } else {
          number = 0;
        }
      }
    }
    raw::Close(fd);
  }
  if (!found) {
    // An id beyond what we tell would lie outside the slabs, and sysconf may count fewer than there
    // can be: rather far too many. They are address space only.
    constexpr size_t kSurelyEnough = 1024;
    const long n = sysconf(_SC_NPROCESSORS_CONF);
    last = (n > static_cast<long>(kSurelyEnough) ? static_cast<size_t>(n) : kSurelyEnough) - 1;
  }
  errno = saved;
  return last + 1;
}

}  // namespace strata
