// Reading /proc/PID/status, and the process's state of confinement. See confinement.h.
#include "os/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/errno_keeper.h"
#include "strata/raw_io.h"
#include "strata/single_threaded.h"

namespace strata {

namespace confinement_internal {
constinit std::atomic<Confinement> g_confinement{Confinement::kInherited};
}  // namespace confinement_internal

namespace {

using confinement_internal::g_confinement;

std::atomic<bool> g_inherited_no_new_privs{false};
std::atomic<bool> g_looked{false};
// Of a process that has set NO_NEW_PRIVS.
enum class Filter : uint8_t { kUnknown, kNone, kSet };
std::atomic<Filter> g_filter{Filter::kUnknown};
std::atomic<bool> g_filters_are_seen{false};

// The text behind "name:", or null if that is not how the line begins.
const char* Field(const char* line, const char* name) {
  const size_t length = strlen(name);
  if (strncmp(line, name, length) != 0 || line[length] != ':') return nullptr;
  const char* value = line + length + 1;
  while (*value == ' ' || *value == '\t') ++value;
  return value;
}

uint64_t Digits(const char*& at, unsigned base) {
  uint64_t n = 0;
  for (;; ++at) {
    unsigned digit;
    if (*at >= '0' && *at <= '9') {
      digit = static_cast<unsigned>(*at - '0');
    } else if (base == 16 && *at >= 'a' && *at <= 'f') {
      digit = static_cast<unsigned>(*at - 'a') + 10;
    } else {
      return n;
    }
    n = n * base + digit;
  }
}

void FourOf(const char* at, uint32_t (&out)[4]) {
  for (uint32_t& n : out) {
    n = static_cast<uint32_t>(Digits(at, 10));
    while (*at == '\t' || *at == ' ') ++at;
  }
}

// Lines are short but for the list of groups, which is of no interest.
class StatusLines {
 public:
  void Feed(const char* text, size_t n, ProcessStatus& out) {
    for (size_t i = 0; i < n; ++i) {
      if (text[i] == '\n') {
        line_[used_] = '\0';
        ParseStatusLine(line_, out);
        at_end_ |= Field(line_, "Seccomp") != nullptr;
        used_ = 0;
      } else if (used_ < sizeof(line_) - 1) {
        line_[used_++] = text[i];
      }
    }
  }
  bool at_end() const { return at_end_; }

 private:
  char line_[96];
  size_t used_ = 0;
  bool at_end_ = false;
};

}  // namespace

void ParseStatusLine(const char* line, ProcessStatus& out) {
  if (const char* at = Field(line, "State")) {
    out.readable = true;
    out.state = *at;
  } else if (const char* threads = Field(line, "Threads")) {
    out.threads = static_cast<uint32_t>(Digits(threads, 10));
  } else if (const char* users = Field(line, "Uid")) {
    FourOf(users, out.users);
  } else if (const char* groups = Field(line, "Gid")) {
    FourOf(groups, out.groups);
  } else if (const char* seccomp = Field(line, "Seccomp")) {
    out.seccomp = static_cast<uint32_t>(Digits(seccomp, 10));
  } else if (const char* privs = Field(line, "NoNewPrivs")) {
    out.no_new_privs = *privs == '1';
  } else if (const char* capabilities = Field(line, "CapPrm")) {
    out.capabilities = Digits(capabilities, 16);
  } else if (const char* locked = Field(line, "VmLck")) {
    out.locked_kib = Digits(locked, 10);
  }
}

// What comes behind the filter is of no interest; mostly one read gets there.
STRATA_NOINLINE ProcessStatus ReadProcessStatus(const char* path) {
  const ErrnoKeeper keep;
  ProcessStatus status;
  const int fd = raw::Open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return status;
  StatusLines lines;
  char text[1000];
  ssize_t n;
  while (!lines.at_end() && (n = raw::Read(fd, text, sizeof(text))) > 0)
    lines.Feed(text, static_cast<size_t>(n), status);
  raw::Close(fd);
  return status;
}

// The last field.
STRATA_NOINLINE int ReadExitStatus() {
  const ErrnoKeeper keep;
  const int fd = raw::Open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  const ssize_t n = raw::Read(fd, text, sizeof(text) - 1);
  raw::Close(fd);
  if (n <= 0) return 0;
  text[n] = '\0';
  const char* last = strrchr(text, ' ');
  return last == nullptr ? 0 : static_cast<int>(Digits(++last, 10));
}

bool MaySetSignalMask() {
  return MayCallAnything() ||
         (CurrentConfinement() == Confinement::kInherited && HasSurelyThreads());
}

void FindInheritedConfinement() {
  if (g_looked.load(std::memory_order_relaxed) || !MayOpenFiles()) return;
  const ErrnoKeeper keep;
  const ProcessStatus s = ReadProcessStatus("/proc/self/status");
  // Without /proc, as in some jails, the kernel has to be asked in a way that a filter may refuse.
  g_inherited_no_new_privs.store(s.no_new_privs, std::memory_order_relaxed);
  const bool filtered = s.readable ? s.seccomp != 0 : raw::Call(SYS_prctl, PR_GET_SECCOMP) != 0;
  if (!filtered) TrustInheritedFilter();
  g_looked.store(true, std::memory_order_relaxed);
}

// The file is one that such a process may read as it may write those of its exit.
bool HasNoFilter() {
  FindInheritedConfinement();
  if (MayCallAnything()) return true;
  if (CurrentConfinement() != Confinement::kNoNewPrivs) return false;
  if (!g_filters_are_seen.load(std::memory_order_relaxed)) return false;
  Filter filter = g_filter.load(std::memory_order_relaxed);
  if (filter == Filter::kUnknown) {
    const ProcessStatus s = ReadProcessStatus("/proc/thread-self/status");
    if (!s.readable) return false;  // this time
    filter = s.seccomp == 0 ? Filter::kNone : Filter::kSet;
    g_filter.store(filter, std::memory_order_relaxed);
  }
  return filter == Filter::kNone && CurrentConfinement() == Confinement::kNoNewPrivs;
}

void NoteFiltersAreSeen() { g_filters_are_seen.store(true, std::memory_order_relaxed); }

bool InheritedNoNewPrivs() { return g_inherited_no_new_privs.load(std::memory_order_relaxed); }

// The order with what follows is AwaitSideStacks'.
void NoteOwnConfinement(Confinement own) {
  Confinement now = g_confinement.load(std::memory_order_relaxed);
  while (now < own && !g_confinement.compare_exchange_weak(now, own, std::memory_order_seq_cst)) {
  }
}

void UndoOwnConfinement(Confinement before) {
  g_confinement.store(before, std::memory_order_relaxed);
}

void TrustInheritedFilter() {
  Confinement inherited = Confinement::kInherited;
  g_confinement.compare_exchange_strong(inherited, Confinement::kNone, std::memory_order_relaxed);
}

}  // namespace strata
