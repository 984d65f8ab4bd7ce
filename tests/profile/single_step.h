// Runs a piece of code instruction by instruction (the x86 trap flag) and calls a function after
// each: what another thread might do at any moment is then done at every moment, one run for each.
// For code that takes no lock which that function needs, and blocks no signal. ThreadSanitizer's
// run time, which the code then calls, is no such code.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstddef>
#include <functional>

#include "base/check.h"

namespace strata::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kSingleSteps = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kSingleSteps = false;
#else
inline constexpr bool kSingleSteps = true;
#endif
#else
inline constexpr bool kSingleSteps = true;
#endif

class SingleStep {
 public:
  // How many instructions `code` took. `at` gets the number of each.
  template <class Code>
  static size_t Run(const Code& code, const std::function<void(size_t)>& at) {
    struct sigaction action = {}, before = {};
    action.sa_sigaction = Trap;
    action.sa_flags = SA_SIGINFO;
    STRATA_CHECK(sigaction(SIGTRAP, &action, &before) == 0);
    at_ = &at;
    count_ = 0;
    steps_ = true;
    // The flags go through the stack, past what a leaf function may keep below its top.
    asm volatile(
        "lea -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
            : "memory", "cc");
    code();
    steps_ = false;
    asm volatile("nop\n nop" ::: "memory");  // the trap that ends it
    STRATA_CHECK(sigaction(SIGTRAP, &before, nullptr) == 0);
    return count_;
  }

 private:
  static void Trap(int, siginfo_t*, void* context) {
    if (!steps_) {
      constexpr greg_t kTrapFlag = 0x100;
      static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
      return;
    }
    (*at_)(count_);
    count_ = count_ + 1;
  }

  static inline const std::function<void(size_t)>* at_ = nullptr;
  static inline volatile size_t count_ = 0;
  static inline volatile bool steps_ = false;
};

}  // namespace strata::test
