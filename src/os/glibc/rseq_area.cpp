// The rseq area with glibc, which registers every thread since 2.35. See os/rseq.h. Sits in os.
#include "os/rseq.h"

extern "C" {
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace strata {

bool FindRseqArea(ptrdiff_t* offset) {
  if (&__rseq_size == nullptr || &__rseq_offset == nullptr || __rseq_size == 0) return false;
  *offset = __rseq_offset;
  return true;
}

const bool kRegistersForRseq = false;
bool RegisterForRseq() { return false; }
void UnregisterForRseq() {}

}  // namespace strata
