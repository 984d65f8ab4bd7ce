// For glibc. See libc_symbol.h.
#include "os/libc_symbol.h"

#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include <cstddef>
#include <cstdint>

namespace strata {
namespace {

struct Tables {
  uintptr_t base = 0;
  const uint32_t* hash = nullptr;
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
};

// The dynamic linker's list of files, as debuggers find it: by the program's own DT_DEBUG
// (_r_debug, the linker's name for it, has a new version since glibc 2.35).
const link_map* Files() {
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  const size_t n = segments == nullptr ? 0 : getauxval(AT_PHNUM);
  const ElfW(Phdr)* dynamic = nullptr;
  const ElfW(Phdr)* own = nullptr;  // none in a static program: it has no linker that would need it
  for (size_t i = 0; i < n; ++i) {
    if (segments[i].p_type == PT_PHDR) own = &segments[i];
    if (segments[i].p_type == PT_DYNAMIC) dynamic = &segments[i];
  }
  if (dynamic == nullptr || own == nullptr) return nullptr;
  const uintptr_t base = reinterpret_cast<uintptr_t>(segments) - own->p_vaddr;
  const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(base + dynamic->p_vaddr);
  while (entry->d_tag != DT_NULL && entry->d_tag != DT_DEBUG) ++entry;
  const auto* debug = reinterpret_cast<const r_debug*>(entry->d_un.d_ptr);
  return entry->d_tag == DT_NULL || debug == nullptr ? nullptr : debug->r_map;
}

// Files that are there from the start stand first in the list, and never leave it.
const link_map* FindLibc() {
  const link_map* file = Files();
  for (; file != nullptr; file = file->l_next) {
    const char* name = strrchr(file->l_name, '/');
    if (strcmp(name != nullptr ? name + 1 : file->l_name, "libc.so.6") == 0) break;
  }
  return file;
}

bool Read(Tables& tables) {
  const link_map* libc = FindLibc();
  if (libc == nullptr) return false;
  tables.base = libc->l_addr;
  for (const Elf64_Dyn* entry = libc->l_ld; entry->d_tag != DT_NULL; ++entry) {
    // glibc has made them addresses.
    const void* at = reinterpret_cast<const void*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_GNU_HASH) tables.hash = static_cast<const uint32_t*>(at);
    if (entry->d_tag == DT_SYMTAB) tables.symbols = static_cast<const Elf64_Sym*>(at);
    if (entry->d_tag == DT_STRTAB) tables.names = static_cast<const char*>(at);
  }
  return tables.hash != nullptr && tables.symbols != nullptr && tables.names != nullptr;
}

uint32_t HashOf(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

}  // namespace

void* FindInLibc(const char* name) {
  Tables tables;
  if (!Read(tables)) return nullptr;
  // Four numbers, a Bloom filter of words, the buckets, and the hashes from the first symbol on.
  const uint32_t buckets = tables.hash[0];
  const uint32_t first = tables.hash[1];
  const uint32_t* bucket = tables.hash + 4 + size_t{2} * tables.hash[2];
  const uint32_t* hashes = bucket + buckets;
  const uint32_t wanted = HashOf(name);
  uint32_t i = buckets == 0 ? 0 : bucket[wanted % buckets];
  if (i < first) return nullptr;
  for (;; ++i) {
    const uint32_t hash = hashes[i - first];
    const Elf64_Sym& symbol = tables.symbols[i];
    if ((hash | 1) == (wanted | 1) && strcmp(tables.names + symbol.st_name, name) == 0)
      return reinterpret_cast<void*>(tables.base + symbol.st_value);
    if ((hash & 1) != 0) return nullptr;  // the last of its bucket
  }
}

}  // namespace strata
