// Side stacks. See side_stack.h. One is kept ready, mapped when the library starts; who finds it
// taken maps one for the time of the call. Nothing belongs to a thread, so a child that was forked
// meanwhile, or a handler that jumps away, at worst loses a stack.
#include "os/side_stack.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "base/check.h"
#include "base/errno_keeper.h"
#include "base/units.h"
#include "os/confinement.h"
#include "os/page_bytes.h"
#include "strata/raw_io.h"

// Calls f(arg) with the stack pointer at `top`; of the architecture (x86_64/switch_stack.cpp). Its
// frame is the frame pointer's, so unwinders pass from the side stack to the caller's. The name is
// that of libgcc's function for split stacks: below it alone does gdb let a stack go on anywhere.
extern "C" __attribute__((visibility("hidden"))) void __morestack(void (*f)(void*), void* arg,
                                                                  void* top);

namespace strata {

#ifdef STRATA_SANITIZED
// A sanitizer keeps account of the stack that it knows.
void OnSideStack(void (*f)(void*), void* arg) { f(arg); }
void AwaitSideStacks() {}
void ForgetSideStacks() {}
#else
namespace {

constexpr size_t kStackBytes = size_t{128} << 10;
size_t GuardBytes() { return KernelPageBytes(); }

constinit std::atomic<char*> g_spare{nullptr};
constinit std::atomic<uint32_t> g_masked{0};  // threads that have blocked signals, or are about to

char* MapStack() {
  void* p = mmap(nullptr, GuardBytes() + kStackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (MayOpenFiles()) mprotect(p, GuardBytes(), PROT_NONE);
  return static_cast<char*>(p);
}

// acquire: what its last user did with it is done.
char* TakeSpare() { return g_spare.exchange(nullptr, std::memory_order_acquire); }

// Without memory for another stack, its user is given some time to be done with the spare one. Not
// for ever: it may wait for a lock that the caller holds.
STRATA_NOINLINE char* WaitForSpare() {
  char* stack = nullptr;
  for (int i = 0; i < 1000 && (stack = TakeSpare()) == nullptr; ++i) sched_yield();
  return stack;
}

void GiveBack(char* stack) {
  char* none = nullptr;
  // release: pairs with the acquire in TakeSpare.
  if (!g_spare.compare_exchange_strong(none, stack, std::memory_order_release,
                                       std::memory_order_relaxed)) {
    munmap(stack, GuardBytes() + kStackBytes);
  }
}

constexpr uint64_t Bit(int signal) { return uint64_t{1} << (signal - 1); }

// Left open: faults, whose handlers would not be called at all, and glibc's own two, for which a
// thread that changes user ids may wait with a lock held that pthread_create wants.
constexpr uint64_t kBlocked = ~(Bit(SIGSEGV) | Bit(SIGBUS) | Bit(SIGFPE) | Bit(SIGILL) |
                                Bit(SIGTRAP) | Bit(SIGSYS) | Bit(SIGABRT) | Bit(32) | Bit(33));

// The kernel's mask of eight bytes: libc's has 128, and this is the caller's stack.
void SetMask(int how, const uint64_t* mask, uint64_t* before) {
  raw::Call(SYS_rt_sigprocmask, how, raw::Word(mask), raw::Word(before), sizeof(uint64_t));
}

}  // namespace

void OnSideStack(void (*f)(void*), void* arg) {
  const ErrnoKeeper keep;
  uint64_t before = 0;
  // In this order, so that AwaitSideStacks sees whoever has not seen the confinement.
  g_masked.fetch_add(1, std::memory_order_seq_cst);
  const bool masks = MaySetSignalMask();
  if (masks) SetMask(SIG_BLOCK, &kBlocked, &before);
  char* stack = TakeSpare();
  if (STRATA_UNLIKELY(stack == nullptr)) stack = MapStack();
  if (STRATA_UNLIKELY(stack == nullptr)) stack = WaitForSpare();
  if (STRATA_LIKELY(stack != nullptr)) {
    __morestack(f, arg, stack + GuardBytes() + kStackBytes);
    GiveBack(stack);
  } else {
    f(arg);
  }
  if (masks) SetMask(SIG_SETMASK, &before, nullptr);
  // Not below zero: a child that was forked meanwhile begins at zero.
  uint32_t users = g_masked.load(std::memory_order_relaxed);
  while (users != 0 &&
         !g_masked.compare_exchange_weak(users, users - 1, std::memory_order_release)) {
  }
}

void ForgetSideStacks() { g_masked.store(0, std::memory_order_relaxed); }

void AwaitSideStacks() {
  constexpr timespec kNap{0, 50'000};
  constexpr int kMostNaps = 2000;
  for (int i = 0; i < kMostNaps && g_masked.load(std::memory_order_seq_cst) != 0; ++i)
    raw::Nanosleep(&kNap, nullptr);
}
#endif

}  // namespace strata
