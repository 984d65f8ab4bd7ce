// Mapped code and build ids. See mappings.h.
#include "profile/mappings.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>

#include "base/errno_keeper.h"
#include "os/confinement.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

constexpr char kDeleted[] = " (deleted)";
constexpr size_t kDeletedLength = sizeof(kDeleted) - 1;
constexpr size_t kMaxHeaders = 256;     // program headers that are looked at
constexpr size_t kMaxNotes = 64 << 10;  // bytes of one note segment
constexpr size_t kMaxMaps = size_t{64} << 20;

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Reads fields off one line. After the first thing that is not as it should be, all is refused.
class Line {
 public:
  Line(const char* at, const char* end) : at_(at), end_(end) {}

  uint64_t Number(unsigned base) {
    uint64_t n = 0;
    const char* begin = at_;
    for (; at_ < end_; ++at_) {
      const int digit = DigitOf(*at_);
      if (digit < 0 || static_cast<unsigned>(digit) >= base) break;
      if (n > (UINT64_MAX - static_cast<unsigned>(digit)) / base) ok_ = false;
      n = n * base + static_cast<unsigned>(digit);
    }
    if (at_ == begin) ok_ = false;
    return n;
  }
  void Expect(char c) {
    if (at_ < end_ && *at_ == c) {
      ++at_;
    } else {
      ok_ = false;
    }
  }
  char Next() {
    if (at_ < end_) return *at_++;
    ok_ = false;
    return '\0';
  }
  void SkipSpaces() {
    while (at_ < end_ && *at_ == ' ') ++at_;
  }

  const char* at() const { return at_; }
  bool ok() const { return ok_; }

 private:
  const char* at_;
  const char* end_;
  bool ok_ = true;
};

// START-END PERM OFFSET MAJOR:MINOR INODE    PATH
bool ParseLine(const char* begin, const char* end, Mapping* mapping) {
  Line line(begin, end);
  *mapping = Mapping();
  mapping->start = line.Number(16);
  line.Expect('-');
  mapping->end = line.Number(16);
  line.Expect(' ');
  mapping->readable = line.Next() == 'r';
  line.Next();
  mapping->executable = line.Next() == 'x';
  line.Next();
  line.Expect(' ');
  mapping->file_offset = line.Number(16);
  line.Expect(' ');
  mapping->device = line.Number(16) << 32;
  line.Expect(':');
  mapping->device |= line.Number(16) & UINT32_MAX;
  line.Expect(' ');
  mapping->inode = line.Number(10);
  if (!line.ok() || mapping->start >= mapping->end) return false;
  line.SkipSpaces();
  mapping->path = line.at();
  mapping->path_length = static_cast<size_t>(end - line.at());
  if (mapping->path_length > kDeletedLength &&
      memcmp(end - kDeletedLength, kDeleted, kDeletedLength) == 0) {
    mapping->deleted = true;
    mapping->path_length -= kDeletedLength;
  }
  return true;
}

// Finds the build id among the notes in [at, at + size). `align`: of the note segment.
BuildId FindInNotes(uintptr_t at, size_t size, size_t align, MemoryReader& memory) {
  BuildId id;
  const size_t step = align == 8 ? 8 : 4;
  const auto padded = [step](size_t n) { return (n + step - 1) & ~(step - 1); };
  size_t used = 0;
  while (size - used >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    if (!memory.Read(at + used, &note, sizeof(note))) break;
    const size_t name_at = used + sizeof(note);
    const size_t bytes_at = used + padded(sizeof(note) + note.n_namesz);
    const size_t next = bytes_at + padded(note.n_descsz);
    if (bytes_at + note.n_descsz > size) break;  // no overflow: 64 bits hold sums of 32-bit sizes
    char name[4];
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(name) && note.n_descsz != 0 &&
        note.n_descsz <= BuildId::kMaxSize && memory.Read(at + name_at, name, sizeof(name)) &&
        memcmp(name, ELF_NOTE_GNU, sizeof(name)) == 0) {
      if (memory.Read(at + bytes_at, id.bytes, note.n_descsz)) id.size = note.n_descsz;
      break;
    }
    if (next >= size) break;
    used = next;
  }
  return id;
}

}  // namespace

bool Mapping::SameFile(const Mapping& other) const {
  return path_length == other.path_length && inode == other.inode && device == other.device &&
         memcmp(path, other.path, path_length) == 0;
}

bool MapsParser::Next(Mapping* mapping) {
  while (at_ < end_) {
    const char* begin = at_;
    const auto* newline =
        static_cast<const char*>(memchr(begin, '\n', static_cast<size_t>(end_ - begin)));
    const char* line_end = newline != nullptr ? newline : end_;
    at_ = newline != nullptr ? newline + 1 : end_;
    if (ParseLine(begin, line_end, mapping)) return true;
  }
  return false;
}

void MarkCodeIfNoneIs(char* maps, size_t size) {
  constexpr char kCode[] = "r-x", kOfFile[] = " r--p ";
  constexpr size_t kRightsLength = sizeof(kOfFile) - 1;
  if (size == 0 || memmem(maps, size, kCode, sizeof(kCode) - 1) != nullptr) return;
  char* const end = maps + size;
  for (char* at = maps; at != end; ++at) {
    at = static_cast<char*>(memmem(at, static_cast<size_t>(end - at), kOfFile, kRightsLength));
    if (at == nullptr) return;
    at[3] = 'x';
  }
}

bool ReadOwnMaps(ScratchArray<char>& text) {
  const int maps = raw::Open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return true;
  bool enough = true;
  while ((enough = text.Reserve(size_t{64} << 10)) && text.size() < kMaxMaps) {
    const ssize_t n = raw::Read(maps, text.data() + text.size(), size_t{64} << 10);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.Grow(static_cast<size_t>(n));
  }
  raw::Close(maps);
  MarkCodeIfNoneIs(text.data(), text.size());
  return enough;
}

OwnMemory::~OwnMemory() {
  const ErrnoKeeper keep_errno;
  if (fd_ >= 0) raw::Close(fd_);
}

bool OwnMemory::ReadOwn(MemoryReader& self, uintptr_t from, void* to, size_t n) {
  auto& own = static_cast<OwnMemory&>(self);
  const ErrnoKeeper keep_errno;
  if (!own.refused_ && MayCallAnything()) {
    iovec ours{to, n};
    iovec theirs{reinterpret_cast<void*>(from), n};
    const ssize_t got = process_vm_readv(getpid(), &ours, 1, &theirs, 1, 0);
    if (got >= 0 || errno == EFAULT) return got == static_cast<ssize_t>(n);
    own.refused_ = true;  // by a seccomp filter, or no such call
  }
  if (own.fd_ < 0) own.fd_ = raw::Open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  return own.fd_ >= 0 &&
         raw::Pread(own.fd_, to, n, static_cast<off_t>(from)) == static_cast<ssize_t>(n);
}

BuildId ReadBuildId(const Mapping& first, MemoryReader& memory) {
  Elf64_Ehdr elf;
  const size_t size = first.end - first.start;
  if (size < sizeof(elf) || !memory.Read(first.start, &elf, sizeof(elf))) return {};
  if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
      elf.e_phentsize != sizeof(Elf64_Phdr)) {
    return {};
  }
  const size_t headers = std::min<size_t>(elf.e_phnum, kMaxHeaders);
  for (size_t i = 0; i < headers; ++i) {
    Elf64_Phdr header;
    const size_t at = i * sizeof(header);
    if (elf.e_phoff > size || size - elf.e_phoff < at + sizeof(header)) break;
    if (!memory.Read(first.start + elf.e_phoff + at, &header, sizeof(header))) break;
    if (header.p_type != PT_NOTE || header.p_offset > size) continue;
    const size_t notes = std::min({header.p_filesz, size - header.p_offset, kMaxNotes});
    const BuildId id = FindInNotes(first.start + header.p_offset, notes, header.p_align, memory);
    if (id.size != 0) return id;
  }
  return {};
}

}  // namespace strata
