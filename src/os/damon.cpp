// Writing and reading DAMON's files. See damon.h.
#include "os/damon.h"

#include <string.h>

#include "os/kernel_text.h"

namespace strata {
namespace {

#define STRATA_DAMON_CONTEXT "/kdamonds/0/contexts/0"
#define STRATA_DAMON_SCHEME STRATA_DAMON_CONTEXT "/schemes/0"

constexpr char kCount[] = "/kdamonds/nr_kdamonds";
constexpr char kState[] = "/kdamonds/0/state";
constexpr char kOperations[] = STRATA_DAMON_CONTEXT "/operations";
constexpr char kPid[] = STRATA_DAMON_CONTEXT "/targets/0/pid_target";
constexpr char kRanges[] = STRATA_DAMON_CONTEXT "/targets/0/regions/nr_regions";
// From Linux 6.14 on, and before.
constexpr char kFilters[] = STRATA_DAMON_SCHEME "/ops_filters";
constexpr char kFiltersBefore[] = STRATA_DAMON_SCHEME "/filters";

struct Setting {
  const char* file;
  uint64_t value;
};
// Looks that are seldom enough to cost little; a region goes when five times of two seconds passed
// in which no look found it used. How much goes is bounded in bytes alone: a bound in time becomes
// ever smaller, for the kernel tells from what it did before how much that is, and a few pages take
// far longer than their share (seen with Linux 6.12).
constexpr Setting kSettings[] = {
    {STRATA_DAMON_CONTEXT "/monitoring_attrs/intervals/sample_us", 100'000},
    {STRATA_DAMON_CONTEXT "/monitoring_attrs/intervals/aggr_us", 2'000'000},
    {STRATA_DAMON_CONTEXT "/monitoring_attrs/intervals/update_us", 10'000'000},
    {STRATA_DAMON_CONTEXT "/monitoring_attrs/nr_regions/max", 4'000},
    {STRATA_DAMON_CONTEXT "/monitoring_attrs/nr_regions/min", 100},
    {STRATA_DAMON_SCHEME "/access_pattern/sz/min", 4096},
    {STRATA_DAMON_SCHEME "/access_pattern/sz/max", ~uint64_t{0}},
    {STRATA_DAMON_SCHEME "/access_pattern/nr_accesses/min", 0},
    {STRATA_DAMON_SCHEME "/access_pattern/nr_accesses/max", 0},
    {STRATA_DAMON_SCHEME "/access_pattern/age/min", 5},
    {STRATA_DAMON_SCHEME "/access_pattern/age/max", UINT32_MAX},
    {STRATA_DAMON_SCHEME "/quotas/ms", 0},
    {STRATA_DAMON_SCHEME "/quotas/bytes", uint64_t{128} << 20},
    {STRATA_DAMON_SCHEME "/quotas/reset_interval_ms", 1000},
};

}  // namespace

bool Damon::Set(const char* file, const char* text) const {
  return WriteKernelText(root_, file, text, strlen(text));
}
bool Damon::Set(const char* file, uint64_t number) const {
  return WriteKernelNumber(root_, file, number);
}

bool Damon::Is(const char* file, const char* text) const {
  char seen[512];
  if (!ReadKernelText(KernelPath().Add(root_).Add(file).text(), seen, sizeof seen)) return false;
  seen[strcspn(seen, "\n")] = '\0';
  return strcmp(seen, text) == 0;
}

// Any of them; those of others may be more than one.
bool Damon::On() const {
  const size_t n = ReadKernelNumber(root_, kCount);
  for (size_t i = 0; i < n; ++i) {
    char state[] = "/kdamonds/0/state";
    if (i > 9) return true;
    state[sizeof "/kdamonds/" - 1] = static_cast<char>('0' + i);
    if (Is(state, "on")) return true;
  }
  return false;
}

// Set up as here, so by one of us: perhaps by a process of this cgroup that was killed.
bool Damon::IsOurs(uint64_t pid, const char* cgroup) const {
  if (!Is(kState, "on") || ReadKernelNumber(root_, kSettings[0].file) != kSettings[0].value)
    return false;
  if (!Is(kOperations, "paddr")) return ReadKernelNumber(root_, kPid) == pid;
  return Is(STRATA_DAMON_SCHEME "/ops_filters/0/memcg_path", cgroup) ||
         Is(STRATA_DAMON_SCHEME "/filters/0/memcg_path", cgroup);
}

bool Damon::Avails(const char* operations) const {
  char text[128];
  if (!ReadKernelText(KernelPath().Add(root_).Add(STRATA_DAMON_CONTEXT "/avail_operations").text(),
                      text, sizeof text))
    return false;
  const size_t n = strlen(operations);
  for (const char* line = text; *line != '\0'; line += strspn(line, "\n")) {
    const size_t length = strcspn(line, "\n");
    if (length == n && strncmp(line, operations, n) == 0) return true;
    line += length;
  }
  return false;
}

// Lets nothing pass but the cgroup's pages.
bool Damon::FilterCgroup(const char* directory, const char* cgroup) const {
  const auto set = [&](const char* file, const char* text) {
    const KernelPath path = KernelPath().Add(root_).Add(directory);
    return WriteKernelText(path.text(), file, text, strlen(text));
  };
  if (!set("/nr_filters", "1") || !set("/0/type", "memcg") || !set("/0/memcg_path", cgroup) ||
      !set("/0/matching", "N"))
    return false;
  set("/0/allow", "N");  // not there before 6.14, when a filter could do nothing else
  return true;
}

bool Damon::SetRange(AddressRange range) const {
  return Set(kRanges, 1) && Set(STRATA_DAMON_CONTEXT "/targets/0/regions/0/start", range.begin) &&
         Set(STRATA_DAMON_CONTEXT "/targets/0/regions/0/end", range.end);
}

bool Damon::Aim(Watches what, const Target& target) const {
  switch (what) {
    case Watches::kRange:
      return Set(kPid, target.pid) && SetRange(target.range);
    case Watches::kProcess:
      return Set(kPid, target.pid);
    case Watches::kCgroup:
      return FilterCgroup(kFilters, target.cgroup) || FilterCgroup(kFiltersBefore, target.cgroup);
  }
  return false;
}

bool Damon::SetUp(Watches what, const Target& target) const {
  constexpr const char* kNames[] = {"fvaddr", "vaddr", "paddr"};
  if (!Set(kOperations, kNames[static_cast<int>(what)]) ||
      !Set(STRATA_DAMON_CONTEXT "/targets/nr_targets", 1) ||
      !Set(STRATA_DAMON_CONTEXT "/schemes/nr_schemes", 1) ||
      !Set(STRATA_DAMON_SCHEME "/action", "pageout"))
    return false;
  for (const Setting& s : kSettings)
    if (!Set(s.file, s.value)) return false;
  return Aim(what, target) && Set(kState, "on");
}

const char* Damon::Start(uint64_t pid, AddressRange range, const char* cgroup) const {
  char text[32];
  if (!ReadKernelText(KernelPath().Add(root_).Add(kCount).text(), text, sizeof text))
    return "the kernel has none";
  if (IsOurs(pid, cgroup)) {
    const bool follows = !Is(kOperations, "fvaddr") || (SetRange(range) && Set(kState, "commit"));
    return follows ? nullptr : "the kernel refuses the settings";
  }
  if (On()) return "something else has it on";
  if (!Set(kCount, 1) || !Set("/kdamonds/0/contexts/nr_contexts", 1))
    return "it takes the right to write /sys/kernel/mm/damon";
  const Watches what = Avails("fvaddr")  ? Watches::kRange
                       : Avails("vaddr") ? Watches::kProcess
                                         : Watches::kCgroup;
  const char* why = nullptr;
  if (what == Watches::kCgroup && (cgroup[0] == '\0' || strcmp(cgroup, "/") == 0)) {
    why = "the kernel can only watch a cgroup, and the process has none of its own";
  } else if (!SetUp(what, {pid, range, cgroup})) {
    why = "the kernel refuses the settings";
  }
  if (why != nullptr) Set(kCount, "0");
  return why;
}

void Damon::Stop(uint64_t pid, const char* cgroup) const {
  if (!IsOurs(pid, cgroup)) return;
  Set(kState, "off");
  Set(kCount, "0");
}

}  // namespace strata
