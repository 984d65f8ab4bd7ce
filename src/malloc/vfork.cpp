// vfork. Its child runs on the parent's memory and TLS, but the kernel does not know it as a user
// of restartable sequences: nothing it begins on a slab would be aborted, and the vCPU it reads is
// the parent's of long ago. So the thread keeps off the slabs from the call until the
// parent returns from it; both sides then allocate by the slow path, under locks, and the fast path
// pays nothing. glibc's posix_spawn, system and popen need nothing: their children do not allocate.
// Sits in malloc.
#include <dlfcn.h>
#include <errno.h>
#include <sys/types.h>

#include <cstdint>

#include "base/errno_keeper.h"
#include "malloc/runtime.h"
#include "malloc/stand_down.h"

namespace {

// In rax and rdx.
struct BeforeVfork {
  void* next;        // the vfork to call in place of ours, where the library stands down
  uintptr_t nested;  // whether the caller is such a child itself
};

}  // namespace

extern "C" {

__attribute__((used)) BeforeVfork strata_before_vfork() {
  using namespace strata;
  const ErrnoKeeper keep;
  const RunState state = EnsureStarted();
  if (state == RunState::kStoodDown) return {dlsym(RTLD_NEXT, "vfork"), 0};
  ThreadState& t = t_state;
  const uintptr_t nested = t.vforked;
  t.vforked = 1;
  t.slabs = nullptr;
  t.countdown.Pause();
  return {nullptr, nested};
}

__attribute__((used)) pid_t strata_after_vfork(long result, uintptr_t nested) {
  strata::t_state.vforked = nested != 0;
  if (result >= 0) return static_cast<pid_t>(result);
  errno = static_cast<int>(-result);
  return -1;
}

}  // extern "C"

// The return address is kept in a register, since the child uses the stack from here up. Weak, so
// that a static link may find libc's as well.
asm(R"(
  .pushsection .text
  .weak vfork
  .weak __vfork
  .type vfork, @function
  .type __vfork, @function
  .p2align 4
vfork:
__vfork:
  .cfi_startproc
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  call strata_before_vfork
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  test %rax, %rax
  jnz 1f
  mov %rdx, %rsi
  pop %rdi
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %rdi
  mov $58, %eax
  syscall
  push %rdi
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rip, 0
  test %rax, %rax
  jz 2f
  mov %rax, %rdi
  jmp strata_after_vfork
1:
  jmp *%rax
2:
  ret
  .cfi_endproc
  .size vfork, .-vfork
  .size __vfork, .-__vfork
  .popsection
)");
