// Reading and parsing the cache topology. See topology.h.
#include "os/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "strata/raw_io.h"

namespace strata {
namespace {

// A decimal number below `limit`; moves `at` behind it.
bool ParseCpu(const char*& at, size_t& out) {
  if (*at < '0' || *at > '9') return false;
  size_t n = 0;
  for (; *at >= '0' && *at <= '9'; ++at) {
    n = n * 10 + static_cast<size_t>(*at - '0');
    if (n >= CacheTopology::kMostCpus) return false;
  }
  out = n;
  return true;
}

// "0-3,8": one domain, up to ';', a line's end or the text's.
bool ParseDomain(const char*& at, CacheTopology& out) {
  if (out.domains == CacheTopology::kMostDomains) return false;
  const auto domain = static_cast<uint8_t>(out.domains++);
  while (true) {
    size_t first = 0;
    if (!ParseCpu(at, first)) return false;
    size_t last = first;
    if (*at == '-') {
      ++at;
      if (!ParseCpu(at, last) || last < first) return false;
    }
    for (size_t cpu = first; cpu <= last; ++cpu) {
      if (out.domain_of[cpu] != CacheTopology::kNoDomain) return false;
      out.domain_of[cpu] = domain;
      ++out.cpus_in[domain];
    }
    if (*at != ',') return true;
    ++at;
  }
}

// The first n - 1 bytes of directory/cpuN/cache/indexI/NAME, as a string without its line's end.
bool ReadText(const char* directory, size_t cpu, unsigned index, const char* name, char* text,
              size_t n) {
  char path[512];
  const int length =
      snprintf(path, sizeof(path), "%s/cpu%zu/cache/index%u/%s", directory, cpu, index, name);
  if (length < 0 || static_cast<size_t>(length) >= sizeof(path)) return false;
  const int fd = raw::Open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = raw::Read(fd, text, n - 1);
  raw::Close(fd);
  if (got <= 0) return false;
  text[text[got - 1] == '\n' ? got - 1 : got] = '\0';
  return true;
}

// The CPUs that share the highest cache of this one; false if nothing says.
bool ReadSharers(const char* directory, size_t cpu, char* list, size_t n) {
  long best = -1;
  for (unsigned index = 0; index < 16; ++index) {
    char level[16];
    char type[32];
    char sharers[4096];
    if (!ReadText(directory, cpu, index, "level", level, sizeof(level))) break;
    const long l = level[0] >= '0' && level[0] <= '9' && level[1] == '\0' ? level[0] - '0' : -1;
    if (l <= best || !ReadText(directory, cpu, index, "type", type, sizeof(type)) ||
        strcmp(type, "Instruction") == 0 ||
        !ReadText(directory, cpu, index, "shared_cpu_list", sharers, sizeof(sharers)) ||
        strlen(sharers) >= n)
      continue;
    best = l;
    memcpy(list, sharers, strlen(sharers) + 1);
  }
  return best >= 0;
}

}  // namespace

// glibc reads the cpu_id of the thread's rseq area, or asks the vDSO where there is none. A failure
// is a number beyond all CPUs.
size_t RunningCpu::Cpu() { return static_cast<size_t>(sched_getcpu()); }

CacheTopology::CacheTopology() { memset(domain_of, kNoDomain, sizeof(domain_of)); }

bool ParseCacheDomains(const char* text, CacheTopology& out) {
  CacheTopology parsed;
  const char* at = text;
  while (true) {
    if (!ParseDomain(at, parsed)) return false;
    if (*at == '\0') break;
    if (*at++ != ';') return false;
  }
  out = parsed;
  return true;
}

CacheTopology ReadCacheTopology(const char* directory) {
  const int saved = errno;
  CacheTopology out;
  for (size_t cpu = 0; cpu < CacheTopology::kMostCpus; ++cpu) {
    if (out.domain_of[cpu] != CacheTopology::kNoDomain) continue;  // named by one before
    char list[4096];
    if (!ReadSharers(directory, cpu, list, sizeof(list))) continue;
    CacheTopology with = out;
    const char* at = list;
    // A list that is none, or contradicts an earlier one, or leaves this CPU out, is passed over.
    if (ParseDomain(at, with) && *at == '\0' && with.domain_of[cpu] != CacheTopology::kNoDomain)
      out = with;
  }
  errno = saved;
  return out;
}

}  // namespace strata
