// The rseq area with musl, which registers no thread: one of ours in thread-local storage. A thread
// that ends takes it off, since musl unmaps the storage of a detached thread from within, and the
// kernel ends a process whose area it can't write. See os/rseq.h. Sits in os.
#include "os/rseq.h"

#include <sys/syscall.h>

#include <cstdint>

#include "base/check.h"
#include "os/confinement.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

#ifdef __aarch64__
constexpr long kSignature = static_cast<int32_t>(0xd428bc00);
#else
constexpr long kSignature = 0x53053053;
#endif
constexpr int32_t kUnregistered = -1;  // RSEQ_CPU_ID_UNINITIALIZED

// As linux/rseq.h has it, with what later kernels fill in.
struct alignas(32) Area {
  uint32_t cpu_id_start = 0;
  int32_t cpu_id = kUnregistered;
  uint64_t rseq_cs = 0;
  uint32_t flags = 0;
  uint32_t node_id = 0;
  uint32_t mm_cid = 0;
  uint32_t unused = 0;
};
static_assert(sizeof(Area) == 32 && offsetof(Area, cpu_id) == kRseqCpuIdOffset &&
              offsetof(Area, rseq_cs) == kRseqCsOffset &&
              offsetof(Area, mm_cid) == kRseqMmCidOffset);

constinit thread_local Area t_area __attribute__((tls_model("initial-exec")));

bool Call(long flags) {
  return raw::Call(SYS_rseq, raw::Word(&t_area), sizeof(Area), flags, kSignature) == 0;
}

}  // namespace

const bool kRegistersForRseq = true;

bool RegisterForRseq() { return MayCallAnything() && Call(0); }

void UnregisterForRseq() {
  constexpr long kUnregister = 1;  // RSEQ_FLAG_UNREGISTER
  if (t_area.cpu_id >= 0 && MayCallAnything()) Call(kUnregister);
}

bool FindRseqArea(ptrdiff_t* offset) {
  *offset = reinterpret_cast<char*>(&t_area) - static_cast<char*>(__builtin_thread_pointer());
  FindInheritedConfinement();  // a filter may forbid the call
  return RegisterForRseq();
}

}  // namespace strata
