// A stack of the library's own for the rare work that goes deep: starting, looking at the soft
// limit, giving memory back, statistics, starting a thread. Coroutines and small threads call
// malloc on a few KiB, so nothing of it runs on the caller's stack beyond kMostOnCallersStack. Sits
// in os.
#pragma once

#include <cstddef>
#include <type_traits>

namespace strata {

// What any call may take of the caller's stack in a release build; tests/process/test_stacks.py
// holds it to that.
inline constexpr size_t kMostOnCallersStack = 2048;

// Calls f(arg) on a side stack, with all signals blocked but those of faults: a handler may need
// more than a side stack has, one that stops the thread for a garbage collector takes the stack
// pointer for the end of the thread's own stack, and one that never returns would keep the stack.
// So a signal waits as long as f takes; and f must write to no file that may block. Any lock may be
// held, and calls may nest: a stack is taken without waiting for anyone. Only where the kernel
// refuses memory and the one spare stack stays in use does f run on the caller's stack.
// Async-signal-safe; keeps errno.
void OnSideStack(void (*f)(void*), void* arg);

// Waits a moment until no thread is left that has blocked signals for this: to unblock them it will
// ask the kernel, which a filter may forbid from now on (NoteOwnConfinement came before).
void AwaitSideStacks();
// In the child of a fork: whoever used one has not come along.
void ForgetSideStacks();

template <class F>
void OnSideStack(F f) {
  OnSideStack([](void* arg) { (*static_cast<F*>(arg))(); }, &f);
}

}  // namespace strata
