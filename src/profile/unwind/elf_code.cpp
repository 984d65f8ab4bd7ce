// The code of a mapped ELF file. See elf_code.h.
#include "profile/unwind/elf_code.h"

#include <elf.h>
#include <string.h>

#include <algorithm>

#include "base/arch.h"
#include "base/units.h"

namespace strata {
namespace {

constexpr size_t kMaxHeaders = 64;
constexpr size_t kMaxFrames = size_t{1} << 30;
constexpr uintptr_t kAddressEnd = uintptr_t{1} << arch::kAddressBits;

// Program headers that lie in the first page, as linkers place them, and how far the file was moved
// from where it was linked.
struct Headers {
  Elf64_Phdr list[kMaxHeaders];
  size_t count = 0;
  uintptr_t bias = 0;
};

bool IsOurs(const Elf64_Ehdr& elf) {
  return memcmp(elf.e_ident, ELFMAG, SELFMAG) == 0 && elf.e_ident[EI_CLASS] == ELFCLASS64 &&
         elf.e_machine == arch::kElfMachine && elf.e_phentsize == sizeof(Elf64_Phdr) &&
         elf.e_phnum <= kMaxHeaders && elf.e_phoff <= kNativePageSize;
}

uint64_t Fingerprint(const uint8_t* bytes, size_t n) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, by words
  for (size_t i = 0; i + sizeof(uint64_t) <= n; i += sizeof(uint64_t)) {
    uint64_t word;
    memcpy(&word, bytes + i, sizeof(word));
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 29;
  }
  return hash;
}

bool ReadHeaders(uintptr_t base, MemoryReader& memory, Headers* headers, uint64_t* fingerprint) {
  Elf64_Ehdr elf;
  if (!memory.Read(base, &elf, sizeof(elf)) || !IsOurs(elf)) return false;
  uint8_t page[kNativePageSize];
  if (!memory.Read(base, page, sizeof(page))) return false;
  *fingerprint = Fingerprint(page, sizeof(page));
  headers->count = elf.e_phnum;
  if (!memory.Read(base + elf.e_phoff, headers->list, elf.e_phnum * sizeof(Elf64_Phdr)))
    return false;
  for (size_t i = 0; i < headers->count; ++i) {
    const Elf64_Phdr& h = headers->list[i];
    if (h.p_type != PT_LOAD || h.p_offset >= kNativePageSize) continue;
    headers->bias = base - (h.p_vaddr - h.p_offset);
    return true;
  }
  return false;
}

// Where .eh_frame begins, by the header of its index.
uintptr_t FindFrames(uintptr_t index, MemoryReader& memory) {
  uint8_t bytes[16] = {};
  if (!memory.Read(index, bytes, sizeof(bytes))) return 0;
  DwarfCursor at(bytes, sizeof(bytes), index);
  if (at.Byte() != 1) return 0;
  const uint8_t encoding = at.Byte();
  at.Skip(2);  // encodings of the index itself: entries are found one after the other
  const uintptr_t frames = at.Pointer(encoding, index);
  return at.ok() ? frames : 0;
}

}  // namespace

bool ReadElfCode(uintptr_t base, MemoryReader& memory, ElfCode* code) {
  Headers headers;
  *code = ElfCode();
  if (!ReadHeaders(base, memory, &headers, &code->fingerprint)) return false;
  for (size_t i = 0; i < headers.count; ++i) {
    const Elf64_Phdr& h = headers.list[i];
    const uintptr_t at = headers.bias + h.p_vaddr;
    if (at >= kAddressEnd || h.p_memsz > UINT32_MAX) continue;
    if (h.p_type == PT_LOAD && (h.p_flags & PF_X) != 0 && h.p_memsz != 0 &&
        code->range_count < ElfCode::kMaxRanges) {
      code->ranges[code->range_count++] = {at, at + h.p_memsz};
    }
    if (h.p_type == PT_GNU_EH_FRAME) code->frames = FindFrames(at, memory);
  }
  for (size_t i = 0; i < headers.count; ++i) {
    const Elf64_Phdr& h = headers.list[i];
    const uintptr_t at = headers.bias + h.p_vaddr;
    if (h.p_type != PT_LOAD || code->frames < at || code->frames - at >= h.p_filesz) continue;
    code->frames_size = std::min<size_t>(h.p_filesz - (code->frames - at), kMaxFrames);
  }
  return true;
}

bool CopyFrames(const ElfCode& code, MemoryReader& memory, ScratchArray<uint8_t>& bytes,
                EhFrame* section) {
  *section = EhFrame();
  bytes.Clear();
  constexpr size_t kPortion = size_t{256} << 10;
  // What can be read goes in: a truncated file has its last pages missing.
  while (bytes.size() < code.frames_size) {
    const size_t n = std::min(kPortion, code.frames_size - bytes.size());
    if (!bytes.Reserve(n)) return false;
    if (!memory.Read(code.frames + bytes.size(), bytes.data() + bytes.size(), n)) break;
    bytes.Grow(n);
  }
  *section = {bytes.data(), bytes.size(), code.frames};
  return true;
}

}  // namespace strata
