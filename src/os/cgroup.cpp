// Finding and reading the cgroup's files. See cgroup.h.
#include "os/cgroup.h"

#include <errno.h>
#include <string.h>

#include <algorithm>

#include "base/units.h"
#include "os/kernel_text.h"
#include "os/page_bytes.h"

namespace strata {
namespace {

// The smaller one of those that are not 0.
size_t Tighter(size_t a, size_t b) { return a == 0 || b == 0 ? a + b : std::min(a, b); }

uint32_t ReadQuotaAt(const char* directory, CgroupVersion version) {
  size_t quota = 0;
  size_t period = 0;
  if (version == CgroupVersion::kTwo) {
    char text[64];  // "QUOTA PERIOD" or "max PERIOD"
    if (!ReadKernelText(KernelPath().Add(directory).Add("/cpu.max").text(), text, sizeof(text)))
      return 0;
    const char* space = strchr(text, ' ');
    quota = ParseKernelNumber(text);
    period = space == nullptr ? 0 : ParseKernelNumber(space + 1);
  } else {
    quota = ReadKernelNumber(directory, "/cpu.cfs_quota_us");
    period = ReadKernelNumber(directory, "/cpu.cfs_period_us");
  }
  constexpr size_t kLargest = size_t{1} << 40;
  if (quota == 0 || period == 0 || quota > kLargest) return 0;
  return static_cast<uint32_t>(
      std::clamp(quota * 1000 / period, size_t{1}, size_t{UINT32_MAX / 2}));
}

}  // namespace

bool CgroupWatch::Use(const char* mount, const char* controller, const char* path, const char* file,
                      CgroupVersion version, Directory& out) {
  const KernelPath root = KernelPath().Add(mount).Add(controller);
  // In a container the path may name what only the host can see: then an ancestor or the mount
  // itself is what we are in.
  for (size_t length = strlen(path);;) {
    const KernelPath place = KernelPath().Add(root.text(), root.length()).Add(path, length);
    char text[64];
    if (place.length() != 0 && place.length() < kPath &&
        ReadKernelText(KernelPath().Add(place.text()).Add(file).text(), text, sizeof(text))) {
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
      memory = Use(mount, "/memory", path, "/memory.usage_in_bytes", CgroupVersion::kOne, memory_);
    } else if (strcmp(name, "cpu") == 0) {
      constexpr char kFile[] = "/cpu.cfs_quota_us";
      if (!Use(mount, "/cpu", path, kFile, CgroupVersion::kOne, cpu_))
        Use(mount, listed, path, kFile, CgroupVersion::kOne, cpu_);
    }
  }
  return memory;
}

namespace {

// Lines "number:controllers:path"; version 2 has one with no controllers, the last. A controller
// that version 1 has is not in version 2. f(controllers, path), which it may write to.
template <class F>
void ForEachCgroup(const char* self, F f) {
  char text[4096];
  if (!ReadKernelText(self, text, sizeof(text))) return;
  for (char* line = text; line != nullptr && *line != '\0';) {
    char* next = strchr(line, '\n');
    if (next != nullptr) *next++ = '\0';
    char* controllers = strchr(line, ':');
    char* path = controllers == nullptr ? nullptr : strchr(controllers + 1, ':');
    if (path != nullptr) {
      *path++ = '\0';
      ++controllers;
      if (strcmp(path, "/") == 0) path[0] = '\0';
      f(controllers, path);
    }
    line = next;
  }
}

constexpr const char* kVersionTwoMounts[] = {"", "/unified"};

// Where no descriptor is left, what was found before is better than nothing.
bool MayBeRead(const char* file) {
  char text[16];
  const int why = WhyNoKernelText(file, text, sizeof(text));
  return why != EMFILE && why != ENFILE;
}

}  // namespace

void CgroupWatch::Find(const char* mount, const char* self) {
  if (!MayBeRead(self)) return;
  memory_ = cpu_ = Directory();
  ForEachCgroup(self, [&](char* controllers, const char* path) {
    if (controllers[0] != '\0') {
      FindVersionOne(mount, controllers, path);
      return;
    }
    for (const char* place : kVersionTwoMounts) {
      if (memory_.path[0] == '\0')
        Use(mount, place, path, "/memory.current", CgroupVersion::kTwo, memory_);
      if (cpu_.path[0] == '\0') Use(mount, place, path, "/cpu.max", CgroupVersion::kTwo, cpu_);
    }
  });
}

void CgroupWatch::FindPids(const char* mount, const char* self) {
  if (!MayBeRead(self)) return;
  pids_ = Directory();
  constexpr char kFile[] = "/pids.current";
  ForEachCgroup(self, [&](const char* controllers, const char* path) {
    if (strcmp(controllers, "pids") == 0) {
      Use(mount, "/pids", path, kFile, CgroupVersion::kOne, pids_);
    } else if (controllers[0] == '\0') {
      for (const char* place : kVersionTwoMounts) {
        if (pids_.path[0] == '\0') Use(mount, place, path, kFile, CgroupVersion::kTwo, pids_);
      }
    }
  });
}

bool CgroupWatch::Reclaim(size_t bytes) const {
  const char* const at = memory_.path;
  if (at[0] == '\0') return false;
  if (memory_.version == CgroupVersion::kTwo)
    return WriteKernelNumber(at, "/memory.reclaim", bytes);
  constexpr char kLimit[] = "/memory.limit_in_bytes";
  char before[64];
  const size_t usage = ReadKernelNumber(at, "/memory.usage_in_bytes");
  if (usage <= bytes ||
      !ReadKernelText(KernelPath().Add(at).Add(kLimit).text(), before, sizeof(before)))
    return false;
  if (!WriteKernelNumber(at, kLimit, RoundDown(usage - bytes, kNativePageSize))) return false;
  return WriteKernelText(at, kLimit, before, strlen(before));
}

namespace {

// What a file says; 0 where there is none, as the root's has none. False: it could not be read.
bool ReadIfThere(const char* directory, const char* file, size_t& number) {
  char text[64];
  const int why = WhyNoKernelText(KernelPath().Add(directory).Add(file).text(), text, sizeof(text));
  number = why == 0 ? ParseKernelNumber(text) : 0;
  return why == 0 || why == ENOENT;
}

// The kernel drops inactive file cache, and its own caches of names and inodes, before it kills.
// Version 1 counts the latter as used, and does not say how much they are.
void LeaveOutCache(const char* directory, CgroupVersion version, CgroupMemory& m) {
  const bool two = version == CgroupVersion::kTwo;
  char text[8192];
  if (!ReadKernelText(KernelPath().Add(directory).Add("/memory.stat").text(), text, sizeof(text)))
    return;
  const size_t cold =
      two ? FieldInText(text, "\ninactive_file ") + FieldInText(text, "\nslab_reclaimable ")
          : FieldInText(text, "\ntotal_inactive_file ");
  m.usage -= std::min(cold, m.usage);
  m.hot_cache =
      std::min(FieldInText(text, two ? "\nactive_file " : "\ntotal_active_file "), m.usage);
}

}  // namespace

bool CgroupWatch::MemoryAt(const char* directory, CgroupVersion version, CgroupMemory& m) {
  const bool two = version == CgroupVersion::kTwo;
  size_t high = 0;
  m = {};
  if (!ReadIfThere(directory, two ? "/memory.max" : "/memory.limit_in_bytes", m.limit))
    return false;
  if (two && !ReadIfThere(directory, "/memory.high", high)) return false;
  m.limit = Tighter(m.limit, high);
  if (m.limit == 0) return true;
  const bool known =
      ReadIfThere(directory, two ? "/memory.current" : "/memory.usage_in_bytes", m.usage);
  LeaveOutCache(directory, version, m);
  return known;
}

CgroupMemory CgroupWatch::Read() const {
  CgroupMemory tightest;
  size_t least_room = SIZE_MAX;
  ForEachLevel(memory_, [&](const char* path) {
    CgroupMemory m;
    MemoryAt(path, memory_.version, m);
    const size_t room = m.limit - std::min(m.usage, m.limit);
    if (m.limit == 0 || room > least_room || (room == least_room && m.limit > tightest.limit))
      return;
    least_room = room;
    tightest = m;
  });
  return tightest;
}

CgroupPids CgroupWatch::PidsAt(const char* directory) {
  return {ReadKernelNumber(directory, "/pids.max"), ReadKernelNumber(directory, "/pids.current")};
}

double CgroupWatch::ReadPressure() const {
  if (memory_.path[0] == '\0' || memory_.version != CgroupVersion::kTwo) return 0;
  return ReadMemoryPressure(KernelPath().Add(memory_.path).Add("/memory.pressure").text());
}

uint32_t CgroupWatch::ReadCpuQuota() const {
  uint32_t least = 0;
  ForEachLevel(cpu_, [&](const char* path) {
    least = static_cast<uint32_t>(Tighter(least, ReadQuotaAt(path, cpu_.version)));
  });
  return least;
}

// "some avg10=1.23 …", in percent of the time.
double ReadMemoryPressure(const char* file) {
  char text[256];
  if (!ReadKernelText(file, text, sizeof(text))) return 0;
  constexpr char kName[] = "some avg10=";
  const char* at = strstr(text, kName);
  if (at == nullptr) return 0;
  at += sizeof(kName) - 1;
  double percent = static_cast<double>(ParseKernelNumber(at));
  at += strspn(at, "0123456789");
  if (*at == '.') {
    double unit = 0.1;
    for (++at; *at >= '0' && *at <= '9'; ++at, unit /= 10) percent += unit * (*at - '0');
  }
  return std::min(percent / 100, 1.0);
}

size_t OwnResidentBytes(const char* statm) {
  char text[128];  // pages: "size resident shared …"
  if (!ReadKernelText(statm, text, sizeof(text))) return 0;
  const char* resident = strchr(text, ' ');
  const char* shared = resident == nullptr ? nullptr : strchr(resident + 1, ' ');
  if (shared == nullptr) return 0;
  const size_t all = ParseKernelNumber(resident + 1);
  return (all - std::min(ParseKernelNumber(shared + 1), all)) * KernelPageBytes();
}

}  // namespace strata
