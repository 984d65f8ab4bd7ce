// aarch64: the record of the exception's syndrome among those behind the registers, whose bit 6
// (WnR) is set by a write. Without the record, as from some emulators, it counts as a read. See
// malloc/fault_kind.h.
#include "malloc/fault_kind.h"

#include <asm/sigcontext.h>
#include <string.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace strata {

bool WasWrite(const void* context) {
  constexpr uint64_t kWriteNotRead = uint64_t{1} << 6;
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
  const auto* at = reinterpret_cast<const unsigned char*>(machine.__reserved);
  const auto* end = at + sizeof(machine.__reserved);
  for (_aarch64_ctx head; static_cast<size_t>(end - at) >= sizeof(esr_context); at += head.size) {
    memcpy(&head, at, sizeof(head));
    if (head.magic == 0 || head.size < sizeof(head) || head.size > static_cast<size_t>(end - at)) {
      return false;
    }
    if (head.magic != ESR_MAGIC) continue;
    esr_context syndrome;
    memcpy(&syndrome, at, sizeof(syndrome));
    return (syndrome.esr & kWriteNotRead) != 0;
  }
  return false;
}

}  // namespace strata
