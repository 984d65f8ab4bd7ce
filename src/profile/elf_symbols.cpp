// Reading the tables. See elf_symbols.h.
#include "profile/elf_symbols.h"

#include <string.h>

#include <algorithm>

#include "base/arch.h"

namespace strata {
namespace {

constexpr size_t kMostSections = 4096;
constexpr uint64_t kMostSymbols = uint64_t{1} << 24;
constexpr size_t kSymbolsARead = 1024;
constexpr uint64_t kMostOffset = uint64_t{1} << arch::kAddressBits;

bool IsOurs(const Elf64_Ehdr& elf) {
  return memcmp(elf.e_ident, ELFMAG, SELFMAG) == 0 && elf.e_ident[EI_CLASS] == ELFCLASS64 &&
         elf.e_ident[EI_DATA] == ELFDATA2LSB && elf.e_phentsize == sizeof(Elf64_Phdr);
}

// Of .eh_frame_hdr, with the encodings that linkers write.
struct FrameIndex {
  uint8_t version, frames_encoding, count_encoding, table_encoding;
  int32_t frames;
  uint32_t count;
};
struct FrameIndexEntry {
  int32_t start, frame;  // from the beginning of the index
};
constexpr uint8_t kPcRelative = 0x1b, kUnsigned4 = 0x03, kDataRelative = 0x3b;

}  // namespace

bool ElfSymbols::Open(MemoryReader& file, Has has) {
  file_ = &file;
  segment_count_ = 0;
  symbols_ = names_ = {};
  if (!file.Read(0, &header_, sizeof(header_)) || !IsOurs(header_)) return false;
  const size_t n = std::min<size_t>(header_.e_phnum, kMostSegments);
  if (has == Has::kSegmentsOnly) header_.e_shoff = 0;
  if (header_.e_phoff > kMostOffset) return false;
  if (!file.Read(header_.e_phoff, segments_, n * sizeof(Elf64_Phdr))) return false;
  segment_count_ = n;
  return true;
}

bool ElfSymbols::AddressOf(uint64_t offset, uint64_t* address) const {
  for (size_t i = 0; i < segment_count_; ++i) {
    const Elf64_Phdr& s = segments_[i];
    if (s.p_type != PT_LOAD || offset < s.p_offset || offset - s.p_offset >= s.p_filesz) continue;
    *address = offset - s.p_offset + s.p_vaddr;
    return true;
  }
  return false;
}

// The last table of each kind, the full one before the dynamic one.
bool ElfSymbols::FindTables() {
  Elf64_Shdr full = {}, dynamic = {}, section;
  const size_t n = std::min<size_t>(header_.e_shnum, kMostSections);
  if (header_.e_shoff == 0 || header_.e_shoff > kMostOffset) return false;
  for (size_t i = 0; i < n; ++i) {
    if (!file_->Read(header_.e_shoff + i * sizeof(section), &section, sizeof(section)))
      return false;
    if (section.sh_type == SHT_SYMTAB) full = section;
    if (section.sh_type == SHT_DYNSYM) dynamic = section;
  }
  symbols_ = full.sh_type != SHT_NULL ? full : dynamic;
  return symbols_.sh_type != SHT_NULL && symbols_.sh_offset <= kMostOffset &&
         file_->Read(header_.e_shoff + symbols_.sh_link * sizeof(names_), &names_,
                     sizeof(names_)) &&
         names_.sh_offset <= kMostOffset;
}

// It may be the one of the first query at or behind it; those after that get it in FindSymbols.
void ElfSymbols::NoteSymbol(const Elf64_Sym& symbol, FunctionQuery* queries, size_t n) const {
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF) return;
  FunctionQuery* q = std::lower_bound(
      queries, queries + n, symbol.st_value,
      [](const FunctionQuery& one, uint64_t address) { return one.address < address; });
  if (q == queries + n || (q->name_at != 0 && symbol.st_value < q->start)) return;
  q->start = symbol.st_value;
  q->size = symbol.st_size;
  q->name_at = names_.sh_offset + symbol.st_name;
}

bool ElfSymbols::FindSymbols(FunctionQuery* queries, size_t n, ScratchArray<Elf64_Sym>& buffer) {
  for (size_t i = 0; i < n; ++i) queries[i] = {.address = queries[i].address};
  if (!FindTables()) return true;
  buffer.Clear();
  if (!buffer.Reserve(kSymbolsARead)) return false;
  const uint64_t count = std::min(symbols_.sh_size / sizeof(Elf64_Sym), kMostSymbols);
  for (uint64_t done = 0; done < count;) {
    const uint64_t part = std::min<uint64_t>(count - done, kSymbolsARead);
    if (!file_->Read(symbols_.sh_offset + done * sizeof(Elf64_Sym), buffer.data(),
                     part * sizeof(Elf64_Sym)))
      break;
    for (uint64_t i = 0; i < part; ++i) NoteSymbol(buffer[i], queries, n);
    done += part;
  }
  for (size_t i = 1; i < n; ++i) {
    const FunctionQuery& before = queries[i - 1];
    if (before.name_at == 0 || (queries[i].name_at != 0 && queries[i].start >= before.start))
      continue;
    const uint64_t address = queries[i].address;
    queries[i] = before;
    queries[i].address = address;
  }
  for (size_t i = 0; i < n; ++i) {
    FunctionQuery& q = queries[i];
    if (q.name_at != 0 && q.address - q.start >= std::max<uint64_t>(q.size, 1)) q.name_at = 0;
  }
  return true;
}

size_t ElfSymbols::ReadName(const FunctionQuery& query, char* name, size_t most) {
  // A name near the end of the file is shorter than a whole read.
  for (size_t n = most; n != 0; n /= 2) {
    if (!file_->Read(query.name_at, name, n)) continue;
    const void* end = memchr(name, '\0', n);
    if (end != nullptr) return static_cast<size_t>(static_cast<const char*>(end) - name);
    if (n == most) return most;
    size_t at = n;
    while (at < most && file_->Read(query.name_at + at, name + at, 1) && name[at] != '\0') ++at;
    return at;
  }
  return 0;
}

bool ElfSymbols::FunctionStart(uint64_t address, uint64_t* start) {
  for (size_t i = 0; i < segment_count_; ++i) {
    const Elf64_Phdr& s = segments_[i];
    FrameIndex index;
    if (s.p_type != PT_GNU_EH_FRAME || !file_->Read(s.p_offset, &index, sizeof(index))) continue;
    if (index.frames_encoding != kPcRelative || index.count_encoding != kUnsigned4 ||
        index.table_encoding != kDataRelative)
      continue;
    // The last entry that begins at or before the address.
    uint64_t low = 0, high = std::min<uint64_t>(index.count, s.p_filesz / sizeof(FrameIndexEntry));
    bool found = false;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      FrameIndexEntry entry;
      if (!file_->Read(s.p_offset + sizeof(index) + middle * sizeof(entry), &entry, sizeof(entry)))
        return false;
      const uint64_t begin = s.p_vaddr + static_cast<uint64_t>(int64_t{entry.start});
      if (begin <= address) {
        *start = begin;
        found = true;
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return found;
  }
  return false;
}

}  // namespace strata
