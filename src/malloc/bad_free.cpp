// Reports bad frees. See bad_free.h.
#include "malloc/bad_free.h"

#include <stdlib.h>

#include <atomic>

#include "base/message.h"
#include "malloc/error_report.h"
#include "malloc/runtime.h"

namespace strata {

namespace {

const char* WhereToRead(BadFree kind) {
  const bool twice = kind == BadFree::kDouble || kind == BadFree::kNotLive;
  return twice ? "; read on: strata explain double-free, or docs/errors.md"
               : "; read on: strata explain invalid-free, or docs/errors.md";
}

const char* Describe(BadFree kind) {
  switch (kind) {
    case BadFree::kForeign:
      return "free of a pointer that is not from this heap: ";
    case BadFree::kMisaligned:
      return "free of a pointer into the middle of a block: ";
    case BadFree::kDouble:
      return "double free: ";
    case BadFree::kNotLive:
      break;
  }
  return "free of a pointer that is no live block (freed before?): ";
}

// Somebody looks for errors: a line alone is for production, where the core dump has the stack.
bool LooksForErrors(const Options& options) {
  return options.check || (options.says_guard && options.guard_every != 0);
}

}  // namespace

void HandleBadFree(BadFree kind, void* p) {
  CountMemoryError();
  static std::atomic<bool> said{false};
  const bool fatal = TheRuntime().options.on_error == OnError::kAbort;
  if (fatal || !said.exchange(true, std::memory_order_relaxed)) {
    if (kind == BadFree::kNotLive && TheRuntime().heap.blocks().IsInsideLarge(p))
      kind = BadFree::kMisaligned;
    Message()
        .Text(Describe(kind))
        .Hex(reinterpret_cast<uintptr_t>(p))
        .Text(fatal ? "" : " (ignored; said once)")
        .Text(WhereToRead(kind))
        .Send();
    if (LooksForErrors(TheRuntime().options)) SayStack("freed", CurrentEvent());
  }
  if (fatal) abort();
}

void DieOfWrongSize(void* p, size_t size, size_t align) {
  Message()
      .Text("sized delete with a wrong size: ")
      .Hex(reinterpret_cast<uintptr_t>(p))
      .Text(" size ")
      .Number(size)
      .Text(" alignment ")
      .Number(align)
      .Send();
  abort();
}

}  // namespace strata
