// The questions of jemalloc's mallctl that servers built for jemalloc ask: Redis's INFO, MEMORY
// DOCTOR and MEMORY PURGE. Without answers the jemalloc they are linked to would give its own, and
// knows nothing of this heap. Everything else is ENOENT, as jemalloc says of a name it does not
// know. The names and their meaning: jemalloc(3). Sits in report.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "base/errno_keeper.h"
#include "base/version.h"
#include "base/write_all.h"
#include "malloc/release_now.h"
#include "malloc/runtime.h"
#include "os/side_stack.h"
#include "report/stats_collect.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata {
namespace {

// What is read and written, either of which may be left out.
struct Question {
  void* old = nullptr;
  size_t* old_size = nullptr;
  const void* fresh = nullptr;
  size_t fresh_size = 0;

  bool writes() const { return fresh != nullptr; }
  bool reads() const { return old != nullptr && old_size != nullptr; }

  template <class T>
  int Answer(T value) const {
    if (writes()) return EPERM;
    return Read(value);
  }
  // What is written changes nothing.
  template <class T>
  int AnswerWritable(T value) const {
    if (writes() && fresh_size != sizeof(T)) return EINVAL;
    return Read(value);
  }

 private:
  template <class T>
  int Read(T value) const {
    if (!reads()) return 0;
    if (*old_size != sizeof(T)) {
      const size_t n = *old_size < sizeof(T) ? *old_size : sizeof(T);
      memcpy(old, &value, n);
      *old_size = n;
      return EINVAL;
    }
    memcpy(old, &value, sizeof(T));
    return 0;
  }
};

template <class F>
size_t Figure(F of) {
  size_t figure = 0;
  OnSideStack([&] {
    HeapStats s;
    CollectCounts(s);
    figure = of(s);
  });
  return figure;
}

size_t Allocated(const HeapStats& s) { return s.live + s.internal_slack; }
// Pages in use: jemalloc's "active" leaves out what it could give back at once.
size_t Active(const HeapStats& s) { return Allocated(s) + s.caches() + s.central_free; }
size_t ResidentAtMost(const HeapStats& s) {
  return TheRuntime().heap.page_heap().charged_bytes() + s.metadata;
}

int Purge(const Question& q) {
  if (q.writes() || q.reads()) return EPERM;
  ReleaseBytes(SIZE_MAX);
  return 0;
}

struct Row {
  const char* name;  // '*' stands for a number
  int (*ask)(const Question& q);
};

constexpr uint64_t kEpoch = 1;
constexpr uint32_t kOneArena = 1;

constexpr Row kRows[] = {
    {"version", [](const Question& q) { return q.Answer(STRATA_VERSION " Strata"); }},
    {"epoch", [](const Question& q) { return q.AnswerWritable(kEpoch); }},
    {"background_thread",
     [](const Question& q) { return q.AnswerWritable(TheRuntime().options.background); }},
    {"arenas.narenas", [](const Question& q) { return q.Answer(kOneArena); }},
    {"arena.*.purge", Purge},
    {"arena.*.decay", Purge},
    {"stats.allocated", [](const Question& q) { return q.Answer(Figure(Allocated)); }},
    {"stats.active", [](const Question& q) { return q.Answer(Figure(Active)); }},
    {"stats.resident", [](const Question& q) { return q.Answer(Figure(ResidentAtMost)); }},
    {"stats.metadata",
     [](const Question& q) { return q.Answer(Figure([](auto& s) { return s.metadata; })); }},
    {"stats.mapped",
     [](const Question& q) { return q.Answer(Figure([](auto& s) { return s.mapped; })); }},
    {"stats.retained",
     [](const Question& q) { return q.Answer(Figure([](auto& s) { return s.released; })); }},
};

bool Matches(const char* pattern, const char* name) {
  for (;; ++pattern, ++name) {
    if (*pattern == '*' && *name >= '0' && *name <= '9') {
      while (name[1] >= '0' && name[1] <= '9') ++name;
    } else if (*pattern != *name) {
      return false;
    } else if (*pattern == '\0') {
      return true;
    }
  }
}

const Row* FindRow(const char* name) {
  if (name == nullptr || EnsureStarted() != RunState::kReady) return nullptr;
  for (const Row& row : kRows) {
    if (Matches(row.name, name)) return &row;
  }
  return nullptr;
}

size_t Components(const char* name) {
  size_t n = 1;
  for (; *name != '\0'; ++name) n += *name == '.';
  return n;
}

}  // namespace
}  // namespace strata

STRATA_EXPORT int mallctl(const char* name, void* old, size_t* old_size, void* fresh,
                          size_t fresh_size) {
  const strata::Row* row = strata::FindRow(name);
  return row == nullptr ? ENOENT : row->ask({old, old_size, fresh, fresh_size});
}

// A name in numbers, to be asked often: the row, then whatever numbers the name had.
STRATA_EXPORT int mallctlnametomib(const char* name, size_t* mib, size_t* length) {
  const strata::Row* row = strata::FindRow(name);
  if (row == nullptr) return ENOENT;
  const size_t components = strata::Components(row->name);
  if (mib == nullptr || length == nullptr || *length < components) return EINVAL;
  for (size_t i = 0; i < components; ++i) mib[i] = 0;
  mib[0] = static_cast<size_t>(row - strata::kRows);
  *length = components;
  return 0;
}

STRATA_EXPORT int mallctlbymib(const size_t* mib, size_t length, void* old, size_t* old_size,
                               void* fresh, size_t fresh_size) {
  constexpr size_t kRows = sizeof(strata::kRows) / sizeof(strata::kRows[0]);
  if (mib == nullptr || length == 0 || mib[0] >= kRows) return ENOENT;
  const strata::Row& row = strata::kRows[mib[0]];
  if (length != strata::Components(row.name)) return ENOENT;
  return row.ask({old, old_size, fresh, fresh_size});
}

// jemalloc's own printer asks its mallctl for what it needs and aborts without an answer; that call
// ends up here. The writer runs on the caller's stack with nothing held: Redis's allocates.
STRATA_EXPORT void malloc_stats_print(void (*write)(void* argument, const char* text),
                                      void* argument, const char*) {
  if (strata::EnsureStarted() != strata::RunState::kReady) return;
  const strata::ErrnoKeeper keep;
  strata::ScratchArray<char> text;
  if (!strata::FillText(text)) return;
  if (write != nullptr) {
    write(argument, text.data());
  } else {
    strata::WriteAll(STDERR_FILENO, text.data(), text.size());
  }
}
