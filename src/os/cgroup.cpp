// Finding and reading the cgroup's memory files. See cgroup.h.
#include "os/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cstdint>

namespace strata {
namespace {

// Reads at most n - 1 bytes and ends them with a zero byte; false if there is nothing to read.
bool ReadFile(const char* path, char* text, size_t n) {
  const int saved = errno;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = -1;
  if (fd >= 0) {
    got = read(fd, text, n - 1);
    close(fd);
  }
  errno = saved;
  if (got <= 0) return false;
  text[got] = '\0';
  return true;
}

// 0 where there is no number ("max") or one that stands for no limit: version 1 writes that as the
// largest page-aligned number.
size_t ParseBytes(const char* at) {
  size_t n = 0;
  for (; *at >= '0' && *at <= '9'; ++at) {
    if (__builtin_mul_overflow(n, size_t{10}, &n)) return 0;
    n += static_cast<size_t>(*at - '0');
  }
  return n < (size_t{1} << 60) ? n : 0;
}

size_t ReadBytes(const char* path) {
  char text[64];
  return path[0] != '\0' && ReadFile(path, text, sizeof(text)) ? ParseBytes(text) : 0;
}

// The number behind `name` (line start and space included) in a file of lines; 0 if it is not
// there.
size_t ReadField(const char* path, const char* name) {
  char text[8192];
  if (path[0] == '\0' || !ReadFile(path, text, sizeof(text))) return 0;
  const char* at = strstr(text, name);
  return at == nullptr ? 0 : ParseBytes(at + strlen(name));
}

bool Fits(int written, size_t capacity) {
  return written > 0 && static_cast<size_t>(written) < capacity;
}

}  // namespace

bool CgroupWatch::Use(const char* mount, const char* controller, const char* path,
                      const char* limit, const char* usage) {
  // In a container the path may name what only the host can see: then the mount itself is our
  // cgroup.
  const char* const places[] = {path, ""};
  for (const char* place : places) {
    if (!Fits(snprintf(limit_, kPath, "%s%s%s/%s", mount, controller, place, limit), kPath))
      continue;
    if (!Fits(snprintf(usage_, kPath, "%s%s%s/%s", mount, controller, place, usage), kPath))
      continue;
    if (!Fits(snprintf(stat_, kPath, "%s%s%s/memory.stat", mount, controller, place), kPath))
      continue;
    if (ReadBytes(usage_) != 0) return true;
  }
  limit_[0] = usage_[0] = stat_[0] = '\0';
  return false;
}

void CgroupWatch::Find(const char* mount, const char* self) {
  limit_[0] = usage_[0] = stat_[0] = '\0';
  char text[4096];
  if (!ReadFile(self, text, sizeof(text))) return;
  // Lines "number:controllers:path"; version 2 has one with no controllers.
  for (char* line = text; line != nullptr && *line != '\0';) {
    char* next = strchr(line, '\n');
    if (next != nullptr) *next++ = '\0';
    char* controllers = strchr(line, ':');
    char* path = controllers == nullptr ? nullptr : strchr(controllers + 1, ':');
    if (path != nullptr) {
      *path++ = '\0';
      ++controllers;
      if (strcmp(path, "/") == 0) path[0] = '\0';
      if (strcmp(controllers, "memory") == 0 &&
          Use(mount, "/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes")) {
        inactive_file_ = "\ntotal_inactive_file ";
        return;
      }
      if (controllers[0] == '\0' && Use(mount, "", path, "memory.max", "memory.current")) {
        inactive_file_ = "\ninactive_file ";
        return;
      }
    }
    line = next;
  }
}

CgroupMemory CgroupWatch::Read() const {
  CgroupMemory m;
  m.limit = ReadBytes(limit_);
  if (m.limit == 0) return m;
  m.usage = ReadBytes(usage_);
  const size_t cache = ReadField(stat_, inactive_file_);
  m.usage -= cache < m.usage ? cache : m.usage;
  return m;
}

}  // namespace strata
