// x86-64: the error code of the page fault, whose bit 1 is set by a write. See malloc/fault_kind.h.
#include "malloc/fault_kind.h"

#include <ucontext.h>

#include <cstdint>

namespace strata {

bool WasWrite(const void* context) {
  constexpr greg_t kWriteBit = 2;
  const auto* registers = static_cast<const ucontext_t*>(context);
  return (registers->uc_mcontext.gregs[REG_ERR] & kWriteBit) != 0;
}

uintptr_t FaultingInstruction(const void* context) {
  return static_cast<uintptr_t>(
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
}

}  // namespace strata
