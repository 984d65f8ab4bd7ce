// Finding and reading the cgroup's files. See cgroup.h.
#include "os/cgroup.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "base/errno_keeper.h"
#include "base/units.h"
#include "os/page_bytes.h"
#include "strata/raw_io.h"

namespace strata {
namespace {

// A path put together in place. One that does not fit becomes empty, which no file has for a name.
class Path {
 public:
  Path& Add(const char* part) { return Add(part, strlen(part)); }
  Path& Add(const char* part, size_t n) {
    if (fits_ && length_ + n < sizeof(text_)) {
      memcpy(text_ + length_, part, n);
      length_ += n;
    } else {
      fits_ = false;
    }
    text_[fits_ ? length_ : 0] = '\0';
    return *this;
  }
  const char* text() const { return text_; }
  size_t length() const { return fits_ ? length_ : 0; }

 private:
  char text_[640] = {};
  size_t length_ = 0;
  bool fits_ = true;
};

// Reads at most n - 1 bytes and ends them with a zero byte; false if there is nothing to read.
bool ReadFile(const char* path, char* text, size_t n) {
  const ErrnoKeeper keep;
  if (path[0] == '\0') return false;
  const int fd = raw::Open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return false;
  size_t length = 0;
  while (length < n - 1) {
    const ssize_t got = raw::Read(fd, text + length, n - 1 - length);
    if (got <= 0) break;
    length += static_cast<size_t>(got);
  }
  raw::Close(fd);
  text[length] = '\0';
  return length != 0;
}

// 0 where there is no number ("max", "-1") or one that stands for no limit: version 1 writes that
// as the largest page-aligned number.
size_t ParseNumber(const char* at) {
  size_t n = 0;
  for (; *at >= '0' && *at <= '9'; ++at) {
    if (__builtin_mul_overflow(n, size_t{10}, &n)) return 0;
    n += static_cast<size_t>(*at - '0');
  }
  return n < (size_t{1} << 60) ? n : 0;
}

size_t ReadNumber(const char* directory, const char* file) {
  char text[64];
  const Path path = Path().Add(directory).Add(file);
  return ReadFile(path.text(), text, sizeof(text)) ? ParseNumber(text) : 0;
}

// The number behind `name` (line start and space included) in a file of lines; 0 if it is not
// there.
size_t ReadField(const char* directory, const char* file, const char* name) {
  char text[8192];
  const Path path = Path().Add(directory).Add(file);
  if (!ReadFile(path.text(), text, sizeof(text))) return 0;
  const char* at = strstr(text, name);
  return at == nullptr ? 0 : ParseNumber(at + strlen(name));
}

// The smaller one of those that are not 0.
size_t Tighter(size_t a, size_t b) { return a == 0 || b == 0 ? a + b : std::min(a, b); }

CgroupMemory ReadMemoryAt(const char* directory, bool two) {
  CgroupMemory m;
  m.limit =
      two ? Tighter(ReadNumber(directory, "/memory.max"), ReadNumber(directory, "/memory.high"))
          : ReadNumber(directory, "/memory.limit_in_bytes");
  if (m.limit == 0) return m;
  m.usage = ReadNumber(directory, two ? "/memory.current" : "/memory.usage_in_bytes");
  const size_t cache =
      ReadField(directory, "/memory.stat", two ? "\ninactive_file " : "\ntotal_inactive_file ");
  m.usage -= std::min(cache, m.usage);
  return m;
}

uint32_t ReadQuotaAt(const char* directory, bool two) {
  size_t quota = 0;
  size_t period = 0;
  if (two) {
    char text[64];  // "QUOTA PERIOD" or "max PERIOD"
    if (!ReadFile(Path().Add(directory).Add("/cpu.max").text(), text, sizeof(text))) return 0;
    const char* space = strchr(text, ' ');
    quota = ParseNumber(text);
    period = space == nullptr ? 0 : ParseNumber(space + 1);
  } else {
    quota = ReadNumber(directory, "/cpu.cfs_quota_us");
    period = ReadNumber(directory, "/cpu.cfs_period_us");
  }
  constexpr size_t kLargest = size_t{1} << 40;
  if (quota == 0 || period == 0 || quota > kLargest) return 0;
  return static_cast<uint32_t>(
      std::clamp(quota * 1000 / period, size_t{1}, size_t{UINT32_MAX / 2}));
}

}  // namespace

bool CgroupWatch::Use(const char* mount, const char* controller, const char* path, const char* file,
                      Version version, Directory& out) {
  const Path root = Path().Add(mount).Add(controller);
  // In a container the path may name what only the host can see: then an ancestor or the mount
  // itself is what we are in.
  for (size_t length = strlen(path);;) {
    const Path place = Path().Add(root.text(), root.length()).Add(path, length);
    char text[64];
    if (place.length() != 0 && place.length() < kPath &&
        ReadFile(Path().Add(place.text()).Add(file).text(), text, sizeof(text))) {
      memcpy(out.path, place.text(), place.length() + 1);
      out.root = root.length();
      out.version = version;
      return true;
    }
    if (length == 0) return false;
    do --length;
    while (length != 0 && path[length] != '/');
  }
}

bool CgroupWatch::FindVersionOne(const char* mount, char* controllers, const char* path) {
  char listed[128];  // as they stand in the file, which is what most systems name the mount
  if (strlen(controllers) + 2 > sizeof(listed)) return false;
  listed[0] = '/';
  strcpy(listed + 1, controllers);
  bool memory = false;
  char* rest = nullptr;
  for (char* name = strtok_r(controllers, ",", &rest); name != nullptr;
       name = strtok_r(nullptr, ",", &rest)) {
    if (strcmp(name, "memory") == 0) {
      memory = Use(mount, "/memory", path, "/memory.usage_in_bytes", Version::kOne, memory_);
    } else if (strcmp(name, "cpu") == 0) {
      constexpr char kFile[] = "/cpu.cfs_quota_us";
      if (!Use(mount, "/cpu", path, kFile, Version::kOne, cpu_))
        Use(mount, listed, path, kFile, Version::kOne, cpu_);
    }
  }
  return memory;
}

void CgroupWatch::Find(const char* mount, const char* self) {
  memory_ = cpu_ = Directory();
  char text[4096];
  if (!ReadFile(self, text, sizeof(text))) return;
  // Lines "number:controllers:path"; version 2 has one with no controllers, the last. A controller
  // that version 1 has is not in version 2.
  for (char* line = text; line != nullptr && *line != '\0';) {
    char* next = strchr(line, '\n');
    if (next != nullptr) *next++ = '\0';
    char* controllers = strchr(line, ':');
    char* path = controllers == nullptr ? nullptr : strchr(controllers + 1, ':');
    if (path != nullptr) {
      *path++ = '\0';
      ++controllers;
      if (strcmp(path, "/") == 0) path[0] = '\0';
      if (controllers[0] != '\0') {
        FindVersionOne(mount, controllers, path);
      } else {
        for (const char* place : {"", "/unified"}) {
          if (memory_.path[0] == '\0')
            Use(mount, place, path, "/memory.current", Version::kTwo, memory_);
          if (cpu_.path[0] == '\0') Use(mount, place, path, "/cpu.max", Version::kTwo, cpu_);
        }
      }
    }
    line = next;
  }
}

template <class F>
void CgroupWatch::ForEachLevel(const Directory& d, F f) {
  if (d.path[0] == '\0') return;
  char path[kPath];
  memcpy(path, d.path, sizeof(path));
  for (size_t length = strlen(path);;) {
    f(static_cast<const char*>(path));
    if (length <= d.root) return;
    do --length;
    while (length > d.root && path[length] != '/');
    path[length] = '\0';
  }
}

CgroupMemory CgroupWatch::Read() const {
  CgroupMemory tightest;
  size_t least_room = SIZE_MAX;
  ForEachLevel(memory_, [&](const char* path) {
    const CgroupMemory m = ReadMemoryAt(path, memory_.version == Version::kTwo);
    const size_t room = m.limit - std::min(m.usage, m.limit);
    if (m.limit == 0 || room > least_room || (room == least_room && m.limit > tightest.limit))
      return;
    least_room = room;
    tightest = m;
  });
  return tightest;
}

uint32_t CgroupWatch::ReadCpuQuota() const {
  uint32_t least = 0;
  ForEachLevel(cpu_, [&](const char* path) {
    least = static_cast<uint32_t>(Tighter(least, ReadQuotaAt(path, cpu_.version == Version::kTwo)));
  });
  return least;
}

size_t OwnResidentBytes(const char* statm) {
  char text[128];  // pages: "size resident shared …"
  if (!ReadFile(statm, text, sizeof(text))) return 0;
  const char* resident = strchr(text, ' ');
  const char* shared = resident == nullptr ? nullptr : strchr(resident + 1, ' ');
  if (shared == nullptr) return 0;
  const size_t all = ParseNumber(resident + 1);
  return (all - std::min(ParseNumber(shared + 1), all)) * KernelPageBytes();
}

}  // namespace strata
