// See clock.h.
#include "os/clock.h"

#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include <atomic>
#include <cstddef>

#include "base/check.h"
#include "os/libc_symbol.h"

namespace strata {
namespace {

using ClockFunction = int (*)(clockid_t, timespec*);
std::atomic<ClockFunction> g_clock{nullptr};

// Of the code that the kernel maps into every process, which libc's own calls, too (vdso(7)).
ClockFunction FindInVdso() {
  const uintptr_t at = getauxval(AT_SYSINFO_EHDR);
  if (at == 0) return nullptr;
  const auto& file = *reinterpret_cast<const ElfW(Ehdr)*>(at);
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(at + file.e_phoff);
  const ElfW(Dyn)* entry = nullptr;
  uintptr_t base = 0;
  for (size_t i = file.e_phnum; i-- > 0;) {
    if (segments[i].p_type == PT_LOAD) base = at + segments[i].p_offset - segments[i].p_vaddr;
    if (segments[i].p_type == PT_DYNAMIC)
      entry = reinterpret_cast<const ElfW(Dyn)*>(at + segments[i].p_offset);
  }
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  const uint32_t* hash = nullptr;
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const auto* there = reinterpret_cast<const void*>(base + entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) symbols = static_cast<const ElfW(Sym)*>(there);
    if (entry->d_tag == DT_STRTAB) names = static_cast<const char*>(there);
    if (entry->d_tag == DT_HASH) hash = static_cast<const uint32_t*>(there);
  }
  if (symbols == nullptr || names == nullptr || hash == nullptr) return nullptr;
  for (uint32_t i = 0; i < hash[1]; ++i) {  // a dozen symbols
    const char* name = names + symbols[i].st_name;
    if (strcmp(name, "__vdso_clock_gettime") == 0 || strcmp(name, "__kernel_clock_gettime") == 0)
      return reinterpret_cast<ClockFunction>(base + symbols[i].st_value);
  }
  return nullptr;
}

STRATA_NOINLINE ClockFunction FindClock() {
  auto clock = reinterpret_cast<ClockFunction>(FindInLibc("clock_gettime"));
  if (clock == nullptr) clock = FindInVdso();
  if (clock == nullptr) clock = clock_gettime;
  g_clock.store(clock, std::memory_order_relaxed);
  return clock;
}

}  // namespace

uint64_t ReadClock(clockid_t clock) {
  constexpr uint64_t kSecondNs = 1'000'000'000;
  const ClockFunction known = g_clock.load(std::memory_order_relaxed);
  const ClockFunction read = STRATA_LIKELY(known != nullptr) ? known : FindClock();
  timespec now{};
  read(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecondNs + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace strata
