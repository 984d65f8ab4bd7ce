// The questions of jemalloc's mallctl that servers built for jemalloc ask: Redis's INFO, MEMORY
// DOCTOR and MEMORY PURGE, and what it counts ten times a second since Redis 8, which does not
// start without an arena for its scripts. Without answers the jemalloc they are linked to would
// give its own, and knows nothing of this heap. Everything else is ENOENT, as jemalloc says of a
// name it does not know. The names and their meaning: jemalloc(3). Sits in report.
//
// There is one arena, 0. One that a program makes stays empty, as its number in mallocx's flags
// changes nothing (heaps/preload/jemalloc_exports.inc); the same goes for thread caches. What lay
// in an arena that is destroyed stays until it is freed. Stood down, the heap is empty.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/errno_keeper.h"
#include "base/version.h"
#include "malloc/release_now.h"
#include "malloc/runtime.h"
#include "os/side_stack.h"
#include "report/stats_collect.h"

#define STRATA_EXPORT extern "C" __attribute__((visibility("default")))

namespace strata {
namespace {

constexpr size_t kMostComponents = 8;

// What is read and written, either of which may be left out, and the numbers in the name, each at
// its place between the dots.
struct Question {
  void* old = nullptr;
  size_t* old_size = nullptr;
  const void* fresh = nullptr;
  size_t fresh_size = 0;
  const size_t* numbers = nullptr;

  bool writes() const { return fresh != nullptr; }
  bool reads() const { return old != nullptr && old_size != nullptr; }
  template <class T>
  bool Reads() const {
    return reads() && *old_size == sizeof(T);
  }

  template <class T>
  int Answer(T value) const {
    if (writes()) return EPERM;
    return Read(value);
  }
  // What is written changes nothing, in these two.
  template <class T>
  int AnswerWritable(T value) const {
    if (writes() && fresh_size != sizeof(T)) return EINVAL;
    return Read(value);
  }
  template <class T>
  int Take() const {
    if (reads()) return EPERM;
    return fresh_size == sizeof(T) && writes() ? 0 : EINVAL;
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

bool IsReady() { return EnsureStarted() == RunState::kReady; }

template <class F>
size_t Figure(F of) {
  size_t figure = 0;
  if (!IsReady()) return 0;
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

constexpr uint64_t kEpoch = 1;
constexpr size_t kAllArenas = 4096;  // jemalloc's MALLCTL_ARENAS_ALL

std::atomic<uint32_t> g_arenas{1}, g_thread_caches{0};

bool IsWhole(size_t arena) { return arena == 0 || arena == kAllArenas; }
// One that the program made.
bool IsMade(size_t arena) { return arena != 0 && arena < g_arenas.load(std::memory_order_relaxed); }

// The next number of what the program makes, and puts nothing in; so those beyond what the flags of
// mallocx can name share the last. Redis makes a thread cache at each SCRIPT FLUSH.
int Make(const Question& q, std::atomic<uint32_t>& count) {
  if (q.writes()) return EPERM;
  if (!q.Reads<uint32_t>()) return EINVAL;
  uint32_t next = count.load(std::memory_order_relaxed);
  do {
    if (next == kAllArenas - 1) return q.Answer(next - 1);
  } while (!count.compare_exchange_weak(next, next + 1, std::memory_order_relaxed));
  return q.Answer(next);
}

int Nothing(const Question& q) { return q.writes() || q.reads() ? EPERM : 0; }
int Destroy(const Question& q) { return IsMade(q.numbers[1]) ? Nothing(q) : EFAULT; }

// Of the whole heap; the number behind the last arena means all, as jemalloc's did before 5.
int Purge(const Question& q) {
  const size_t arena = q.numbers[1];
  if (!IsWhole(arena) && arena != g_arenas.load(std::memory_order_relaxed)) return Destroy(q);
  if (q.writes() || q.reads()) return EPERM;
  if (IsReady()) ReleaseBytes(SIZE_MAX);
  return 0;
}

// What lies free goes back after about a second, whatever is written.
int Decay(const Question& q) { return q.AnswerWritable(ssize_t{1000}); }

// Small objects are those of the bins.
constexpr uint32_t kBins = Raw(ClassOfSize(kLargestUnshifted));
constexpr SizeClass ClassOfBin(size_t bin) { return static_cast<SizeClass>(bin + 1); }

CentralStats CentralOf(SizeClass c) {
  CentralStats sum;
  if (!IsReady()) return sum;
  auto& central = TheRuntime().heap.central();
  if (auto* list = central.Find(c)) sum.Add(list->Stats());
  if (auto* list = central.Find(LastingClass(c))) sum.Add(list->Stats());
  central.groups().ForEachOf(c, [&sum](auto& list) { sum.Add(list.Stats()); });
  return sum;
}

// What the last epoch saw, so that figures asked for one by one belong together: of bins whole
// spans and objects given out, those in caches among them, as jemalloc counts; and bytes of larger
// ones.
struct BinUse {
  std::atomic<size_t> spans{0};
  std::atomic<size_t> objects{0};
};
BinUse g_bins[kBins];
std::atomic<size_t> g_large{0};
std::atomic<bool> g_seen{false};

size_t BytesOut(SizeClass c) { return CentralOf(c).objects_out * InfoOf(c).size; }

void Look() {
  for (size_t bin = 0; bin < kBins; ++bin) {
    const CentralStats s = CentralOf(ClassOfBin(bin));
    // The first spans of a class are shorter: as many full ones as have room for what all have.
    const size_t room = s.objects_out + s.objects_free, each = InfoOf(ClassOfBin(bin)).objects;
    g_bins[bin].spans.store((room + each - 1) / each, std::memory_order_relaxed);
    g_bins[bin].objects.store(s.objects_out, std::memory_order_relaxed);
  }
  size_t large = IsReady() ? TheRuntime().heap.large().counts().requested : 0;
  for (size_t c = kBins + 1; c <= kNumSizes; ++c) large += BytesOut(static_cast<SizeClass>(c));
  g_large.store(large, std::memory_order_relaxed);
  g_seen.store(true, std::memory_order_relaxed);
}
void LookOnce() {
  if (!g_seen.load(std::memory_order_relaxed)) Look();
}

int Epoch(const Question& q) {
  if (q.writes()) Look();
  return q.AnswerWritable(kEpoch);
}

size_t SmallAllocated() {
  LookOnce();
  size_t bytes = 0;
  for (size_t bin = 0; bin < kBins; ++bin)
    bytes += g_bins[bin].objects.load(std::memory_order_relaxed) * InfoOf(ClassOfBin(bin)).size;
  return bytes;
}
size_t LargeAllocated() {
  LookOnce();
  return g_large.load(std::memory_order_relaxed);
}
size_t Dirty(const HeapStats& s) {
  const size_t resident = ResidentAtMost(s), active = Active(s) + s.metadata;
  return resident > active ? resident - active : 0;
}
size_t Unused(const HeapStats&) { return 0; }

template <class F>
int AnswerOfBin(const Question& q, F f) {
  const size_t bin = q.numbers[2];
  return bin < kBins ? q.Answer(f(InfoOf(ClassOfBin(bin)))) : ENOENT;
}

// A figure of the whole heap; an arena that the program made holds nothing.
template <class F>
int AnswerOfArena(const Question& q, F f) {
  const size_t arena = q.numbers[2];
  if (IsWhole(arena)) return q.Answer(f());
  return IsMade(arena) ? q.Answer(decltype(f()){}) : ENOENT;
}

int OfBinInArena(const Question& q, std::atomic<size_t> BinUse::* figure) {
  const size_t bin = q.numbers[4];
  if (bin >= kBins) return ENOENT;
  return AnswerOfArena(q, [&] {
    LookOnce();
    return (g_bins[bin].*figure).load(std::memory_order_relaxed);
  });
}

template <size_t (*kFigure)(const HeapStats&)>
int BytesOfHeap(const Question& q) {
  return q.Answer(Figure(kFigure));
}
template <size_t (*kFigure)(const HeapStats&)>
int BytesOfArena(const Question& q) {
  return AnswerOfArena(q, [] { return Figure(kFigure); });
}
template <size_t (*kFigure)(const HeapStats&)>
int PagesOfArena(const Question& q) {
  return AnswerOfArena(q, [] { return Figure(kFigure) / kNativePageSize; });
}

size_t Metadata(const HeapStats& s) { return s.metadata; }
size_t Mapped(const HeapStats& s) { return s.mapped; }
size_t Released(const HeapStats& s) { return s.released; }

struct Row {
  const char* name;  // '*' stands for a number
  int (*ask)(const Question& q);
};

constexpr Row kRows[] = {
    {"version", [](const Question& q) { return q.Answer(STRATA_VERSION " Strata"); }},
    {"epoch", Epoch},
    {"background_thread",
     [](const Question& q) {
       return q.AnswerWritable(IsReady() && TheRuntime().options.background);
     }},
    {"thread.tcache.flush", Nothing},
    {"tcache.create", [](const Question& q) { return Make(q, g_thread_caches); }},
    {"tcache.flush", [](const Question& q) { return q.Take<uint32_t>(); }},
    {"tcache.destroy", [](const Question& q) { return q.Take<uint32_t>(); }},
    {"arenas.create", [](const Question& q) { return Make(q, g_arenas); }},
    {"arenas.narenas", [](const Question& q) { return q.Answer(g_arenas.load()); }},
    {"arenas.page", [](const Question& q) { return q.Answer(size_t{kNativePageSize}); }},
    {"arenas.quantum", [](const Question& q) { return q.Answer(size_t{16}); }},
    {"arenas.nbins", [](const Question& q) { return q.Answer(kBins); }},
    {"arenas.bin.*.size",
     [](const Question& q) {
       return AnswerOfBin(q, [](const ClassInfo& info) { return size_t{info.size}; });
     }},
    {"arenas.bin.*.nregs",
     [](const Question& q) {
       return AnswerOfBin(q, [](const ClassInfo& info) { return uint32_t{info.objects}; });
     }},
    {"arenas.dirty_decay_ms", Decay},
    {"arenas.muzzy_decay_ms", Decay},
    {"arena.*.dirty_decay_ms", Decay},
    {"arena.*.muzzy_decay_ms", Decay},
    {"arena.*.purge", Purge},
    {"arena.*.decay", Purge},
    {"arena.*.destroy", Destroy},
    {"stats.allocated", BytesOfHeap<Allocated>},
    {"stats.active", BytesOfHeap<Active>},
    {"stats.resident", BytesOfHeap<ResidentAtMost>},
    {"stats.metadata", BytesOfHeap<Metadata>},
    {"stats.mapped", BytesOfHeap<Mapped>},
    {"stats.retained", BytesOfHeap<Released>},
    {"stats.arenas.*.resident", BytesOfArena<ResidentAtMost>},
    {"stats.arenas.*.mapped", BytesOfArena<Mapped>},
    {"stats.arenas.*.retained", BytesOfArena<Released>},
    {"stats.arenas.*.pactive", PagesOfArena<Active>},
    {"stats.arenas.*.pdirty", PagesOfArena<Dirty>},
    {"stats.arenas.*.pmuzzy", PagesOfArena<Unused>},
    {"stats.arenas.*.small.allocated",
     [](const Question& q) { return AnswerOfArena(q, SmallAllocated); }},
    {"stats.arenas.*.large.allocated",
     [](const Question& q) { return AnswerOfArena(q, LargeAllocated); }},
    {"stats.arenas.*.bins.*.curregs",
     [](const Question& q) { return OfBinInArena(q, &BinUse::objects); }},
    {"stats.arenas.*.bins.*.curslabs",
     [](const Question& q) { return OfBinInArena(q, &BinUse::spans); }},
};

// Whether the name is one of the pattern's; its numbers, each at its place between the dots.
bool Matches(const char* pattern, const char* name, size_t* numbers) {
  for (size_t place = 0;; ++pattern, ++name) {
    if (*pattern == '*' && *name >= '0' && *name <= '9') {
      size_t number = 0;
      for (; *name >= '0' && *name <= '9'; ++name) {
        number = number * 10 + static_cast<size_t>(*name - '0');
        if (number > UINT32_MAX) return false;
      }
      numbers[place] = number;
      --name;
    } else if (*pattern != *name) {
      return false;
    } else if (*pattern == '\0') {
      return true;
    }
    place += *pattern == '.';
  }
}

const Row* FindRow(const char* name, size_t* numbers) {
  if (name == nullptr) return nullptr;
  for (const Row& row : kRows) {
    if (Matches(row.name, name, numbers)) return &row;
  }
  return nullptr;
}

constexpr size_t Components(const char* name) {
  size_t n = 1;
  for (; *name != '\0'; ++name) n += *name == '.';
  return n;
}
constexpr size_t MostComponents() {
  size_t most = 0;
  for (const Row& row : kRows) most = std::max(most, Components(row.name));
  return most;
}
static_assert(MostComponents() <= kMostComponents);

}  // namespace
}  // namespace strata

STRATA_EXPORT int mallctl(const char* name, void* old, size_t* old_size, void* fresh,
                          size_t fresh_size) {
  const strata::ErrnoKeeper keep;
  size_t numbers[strata::kMostComponents];
  const strata::Row* row = strata::FindRow(name, numbers);
  return row == nullptr ? ENOENT : row->ask({old, old_size, fresh, fresh_size, numbers});
}

// A name in numbers, to be asked often: the row, then whatever numbers the name had, which the
// caller may change.
STRATA_EXPORT int mallctlnametomib(const char* name, size_t* mib, size_t* length) {
  size_t numbers[strata::kMostComponents] = {};
  const strata::Row* row = strata::FindRow(name, numbers);
  if (row == nullptr) return ENOENT;
  const size_t components = strata::Components(row->name);
  if (mib == nullptr || length == nullptr || *length < components) return EINVAL;
  mib[0] = static_cast<size_t>(row - strata::kRows);
  for (size_t i = 1; i < components; ++i) mib[i] = numbers[i];
  *length = components;
  return 0;
}

STRATA_EXPORT int mallctlbymib(const size_t* mib, size_t length, void* old, size_t* old_size,
                               void* fresh, size_t fresh_size) {
  const strata::ErrnoKeeper keep;
  if (mib == nullptr || length == 0 || mib[0] >= std::size(strata::kRows)) return ENOENT;
  const strata::Row& row = strata::kRows[mib[0]];
  if (length != strata::Components(row.name)) return ENOENT;
  return row.ask({old, old_size, fresh, fresh_size, mib});
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
    strata::PrintText(text);
  }
}
