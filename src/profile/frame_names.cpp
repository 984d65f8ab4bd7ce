// Naming frames. See frame_names.h.
#include "profile/frame_names.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include <algorithm>

#include "base/errno_keeper.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

// A file on disk. It may shrink while it is read, which a mapping would answer with a signal.
class FileBytes : public MemoryReader {
 public:
  explicit FileBytes(const char* path)
      : MemoryReader(ReadAt), fd_(raw::Open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {}
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes() {
    if (fd_ >= 0) raw::Close(fd_);
  }
  bool is_open() const { return fd_ >= 0; }

 private:
  static bool ReadAt(MemoryReader& self, uintptr_t from, void* to, size_t n) {
    const auto& file = static_cast<FileBytes&>(self);
    return raw::Pread(file.fd_, to, n, static_cast<off_t>(from)) == static_cast<ssize_t>(n);
  }

  int fd_;
};

// What is mapped of a file: its beginning, and its code. No symbols are.
class MappedBytes : public MemoryReader {
 public:
  MappedBytes(const Mapping& first, const Mapping& code)
      : MemoryReader(ReadAt), first_(first), code_(code) {}

 private:
  static bool ReadAt(MemoryReader& self, uintptr_t from, void* to, size_t n) {
    auto& bytes = static_cast<MappedBytes&>(self);
    for (const Mapping* m : {&bytes.code_, &bytes.first_}) {
      const uint64_t size = m->end - m->start;
      if (from < m->file_offset || from - m->file_offset >= size) continue;
      if (size - (from - m->file_offset) < n) return false;
      return bytes.memory_.Read(m->start + (from - m->file_offset), to, n);
    }
    // Beyond them linkers keep the distance between read-only data and the beginning.
    return bytes.memory_.Read(bytes.first_.start + from, to, n);
  }

  Mapping first_, code_;
  OwnMemory memory_;
};

bool SameId(const BuildId& a, const BuildId& b) {
  return a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0;
}

size_t AppendHex(char* to, uint64_t number) {
  size_t digits = 1;
  while (digits < 16 && number >> (4 * digits) != 0) ++digits;
  for (size_t i = 0; i < digits; ++i)
    to[i] = "0123456789abcdef"[number >> (4 * (digits - 1 - i)) & 15];
  return digits;
}

constexpr size_t kMostIdBytes = 8;

// A build id and a place in the file.
size_t AppendPlace(char* to, const BuildId& id, uint64_t place) {
  size_t n = 0;
  for (size_t i = 0; i < std::min(id.size, kMostIdBytes); ++i) {
    to[n++] = "0123456789abcdef"[id.bytes[i] >> 4];
    to[n++] = "0123456789abcdef"[id.bytes[i] & 15];
  }
  memcpy(to + n, "+0x", 3);
  return n + 3 + AppendHex(to + n + 3, place);
}
constexpr size_t kMostSiteBytes = 3 + (2 * kMostIdBytes + 3 + 16);

size_t AppendSite(char* to, const BuildId& id, uint64_t place) {
  memcpy(to, " <", 2);
  const size_t n = 2 + AppendPlace(to + 2, id, place);
  to[n] = '>';
  return n + 1;
}

}  // namespace

bool FrameNames::Ask(const Mapping& code, const BuildId& id, const uintptr_t* frames, size_t n,
                     Sink& sink) {
  queries_.Clear();
  if (!queries_.Reserve(n) || !name_.Reserve(kMostBytes + kMostSiteBytes)) return false;
  for (size_t i = 0; i < n; ++i) {
    // A return address may be the next function's first: one before it is inside of the call.
    const uint64_t offset = frames[i] - 1 - code.start + code.file_offset;
    FunctionQuery query;
    if (!elf_.AddressOf(offset, &query.address)) query.address = offset;
    queries_.Append(query);
  }
  if (!elf_.FindSymbols(queries_.data(), n, buffer_)) return false;
  for (size_t i = 0; i < n; ++i) {
    const FunctionQuery& query = queries_[i];
    const uint64_t offset = frames[i] - 1 - code.start + code.file_offset;
    size_t length = query.name_at == 0 ? 0 : elf_.ReadName(query, name_.data(), kMostBytes);
    uint64_t start = 0;
    if (length == 0 && id.size != 0) {
      const bool known = elf_.FunctionStart(query.address, &start);
      length = AppendPlace(name_.data(), id, known ? start : offset);
    }
    if (id.size != 0) length += AppendSite(name_.data() + length, id, offset);
    sink.Take(frames[i], name_.data(), length);
  }
  return true;
}

bool FrameNames::NameIn(const Mapping& code, const Mapping& first, const uintptr_t* frames,
                        size_t n, OpensFiles opens, Sink& sink) {
  OwnMemory memory;
  const BuildId id = ReadBuildId(first, memory);
  if (opens == OpensFiles::kYes && !code.deleted && code.path_length < PATH_MAX) {
    char path[PATH_MAX];
    memcpy(path, code.path, code.path_length);
    path[code.path_length] = '\0';
    FileBytes file(path);
    Mapping whole;
    whole.end = uintptr_t{1} << 40;
    // Another file may have taken its place since.
    if (file.is_open() && SameId(ReadBuildId(whole, file), id) && elf_.Open(file))
      return Ask(code, id, frames, n, sink);
  }
  MappedBytes mapped(first, code);
  if (id.size != 0 && elf_.Open(mapped, ElfSymbols::Has::kSegmentsOnly))
    return Ask(code, id, frames, n, sink);
  for (size_t i = 0; i < n; ++i) sink.Take(frames[i], nullptr, 0);
  return true;
}

bool FrameNames::Name(const uintptr_t* frames, size_t n, OpensFiles opens, Sink& sink) {
  const ErrnoKeeper keep;
  maps_.Clear();
  if (!ReadOwnMaps(maps_)) return false;
  MapsParser parser(maps_.data(), maps_.size());
  Mapping first, code;
  size_t at = 0;
  while (at < n && parser.Next(&code)) {
    if (code.file_offset == 0) first = code;
    while (at < n && frames[at] - 1 < code.start) sink.Take(frames[at++], nullptr, 0);
    size_t end = at;
    while (end < n && frames[end] - 1 < code.end) ++end;
    if (end == at) continue;
    const bool is_file = code.path_length != 0 && code.path[0] == '/' && first.SameFile(code);
    if (!is_file) {
      for (size_t i = at; i < end; ++i) sink.Take(frames[i], nullptr, 0);
    } else if (!NameIn(code, first, frames + at, end - at, opens, sink)) {
      return false;
    }
    at = end;
  }
  while (at < n) sink.Take(frames[at++], nullptr, 0);
  return true;
}

}  // namespace strata
