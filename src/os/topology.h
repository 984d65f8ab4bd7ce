// Which CPUs share a last-level cache: from sysfs, or from text, so that tests and users can give a
// topology of their own. For the transfer caches by cache domain (Z. Zhou et al., "Characterizing a
// memory allocator at warehouse scale", ASPLOS 2024, section 4.2). Sits in os; reads without
// allocating.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

struct CacheTopology {
  static constexpr size_t kMostCpus = 1024;
  static constexpr size_t kMostDomains = 64;
  static constexpr uint8_t kNoDomain = 0xff;

  size_t domains = 0;
  uint8_t domain_of[kMostCpus];  // kNoDomain: not known
  uint16_t cpus_in[kMostDomains] = {};

  CacheTopology();
  size_t DomainOf(size_t cpu) const { return cpu < kMostCpus ? domain_of[cpu] : kNoDomain; }
};

// Lists of CPUs as sysfs writes them, one a domain: "0-3,8-11;4-7". False, with `out` as it was, if
// the text is not that, a CPU stands in two domains, or there are too many of either.
bool ParseCacheDomains(const char* text, CacheTopology& out);

// From `directory` (/sys/devices/system/cpu): of each CPU the cache of the highest level. A CPU
// without such files (offline, or a kernel that does not say) is in no domain.
CacheTopology ReadCacheTopology(const char* directory);

// The CPU that the calling thread runs on, of the system's numbering.
struct RunningCpu {
  static size_t Cpu();
};

}  // namespace strata
