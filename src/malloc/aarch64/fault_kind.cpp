// aarch64: the record of the exception's syndrome among those behind the registers, whose bit 6
// (WnR) is set by a write. Without the record, as from some emulators, it counts as a read. See
// malloc/fault_kind.h.
#include "malloc/fault_kind.h"

#include <string.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace strata {
namespace {

// As the kernel writes them (its asm/sigcontext.h, which musl's own header does not bear beside
// it).
struct RecordHead {
  uint32_t magic;  // 0: the end
  uint32_t size;
};
struct SyndromeRecord {
  static constexpr uint32_t kMagic = 0x45535201;
  RecordHead head;
  uint64_t syndrome;
};

}  // namespace

bool WasWrite(const void* context) {
  constexpr uint64_t kWriteNotRead = uint64_t{1} << 6;
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
  const auto* at = reinterpret_cast<const unsigned char*>(machine.__reserved);
  const auto* end = at + sizeof(machine.__reserved);
  for (RecordHead head; static_cast<size_t>(end - at) >= sizeof(SyndromeRecord); at += head.size) {
    memcpy(&head, at, sizeof(head));
    if (head.magic == 0 || head.size < sizeof(head) || head.size > static_cast<size_t>(end - at)) {
      return false;
    }
    if (head.magic != SyndromeRecord::kMagic) continue;
    SyndromeRecord record;
    memcpy(&record, at, sizeof(record));
    return (record.syndrome & kWriteNotRead) != 0;
  }
  return false;
}

uintptr_t FaultingInstruction(const void* context) {
  return static_cast<const ucontext_t*>(context)->uc_mcontext.pc;
}

}  // namespace strata
