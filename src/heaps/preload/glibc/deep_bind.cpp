// dlopen and dlmopen without RTLD_DEEPBIND. See deep_bind.h. The loader takes a caller's run path
// and namespace from the return address, so both jump to the next dlopen with the caller's frame;
// the architecture has the jumps (x86_64/dlopen_entry.cpp).
#include "heaps/preload/deep_bind.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <atomic>
#include <cstdint>

#include "base/errno_keeper.h"

extern "C" {
// libc.a's: a static program has no next definition that dlsym could find.
void* ___dlopen(const char* file, int mode) __attribute__((weak));
void* ___dlmopen(Lmid_t space, const char* file, int mode) __attribute__((weak));
// The linker's: where the object begins that this is linked into, and where its code ends.
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));
}

namespace strata {
namespace {

using Address = void*;

std::atomic<Address> g_dlopen{nullptr};
std::atomic<Address> g_dlmopen{nullptr};

void* LoadsNothing() { return nullptr; }

Address Next(std::atomic<Address>& known, const char* name, Address in_archive) {
  Address next = known.load(std::memory_order_relaxed);
  if (next != nullptr) return next;
  const ErrnoKeeper keep_errno;
  next = dlsym(RTLD_NEXT, name);
  if (next == nullptr) next = in_archive;
  known.store(next, std::memory_order_relaxed);
  return next != nullptr ? next : reinterpret_cast<Address>(LoadsNothing);
}

Address NextDlopen() { return Next(g_dlopen, "dlopen", reinterpret_cast<Address>(___dlopen)); }
Address NextDlmopen() { return Next(g_dlmopen, "dlmopen", reinterpret_cast<Address>(___dlmopen)); }

// A program may bring a malloc of its own; then nothing here is ours to change.
bool MallocIsOurs() {
  const auto at = reinterpret_cast<uintptr_t>(&malloc);
  return at >= reinterpret_cast<uintptr_t>(__ehdr_start) && at < reinterpret_cast<uintptr_t>(etext);
}

int ModeFor(int mode) {
  if ((mode & RTLD_DEEPBIND) == 0 || !MallocIsOurs()) return mode;
  const ErrnoKeeper keep_errno;
  return MayBindDeep() ? mode : mode & ~RTLD_DEEPBIND;
}

// Before threads and sandboxes: dlsym takes the loader's lock.
__attribute__((constructor(101))) void FindNext() {
  NextDlopen();
  NextDlmopen();
}

}  // namespace

// What the jump needs, in the two registers of a result.
struct Load {
  Address next;
  long mode;
};

extern "C" {
__attribute__((visibility("hidden"), used)) Load strata_load(int mode) {
  return {NextDlopen(), ModeFor(mode)};
}

// Another namespace has a libc, and a malloc, of its own.
__attribute__((visibility("hidden"), used)) Load strata_load_into(Lmid_t space, int mode) {
  return {NextDlmopen(), space == LM_ID_BASE ? ModeFor(mode) : mode};
}
}

}  // namespace strata
