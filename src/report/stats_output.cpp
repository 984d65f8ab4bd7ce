// Writing the statistics out. See stats_output.h.
#include "report/stats_output.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <initializer_list>
#include <new>

#include "base/errno_keeper.h"
#include "base/error_text.h"
#include "base/message.h"
#include "base/write_all.h"
#include "malloc/limits.h"
#include "malloc/runtime.h"
#include "os/confinement.h"
#include "os/thp_mode.h"
#include "profile/stats_prometheus.h"
#include "report/output_path.h"
#include "report/stats_collect.h"

namespace strata {
namespace {

// Without a look at the word where nothing was asked for: it lies in pages that few programs read.
bool PrintsAtExit(const Options& o) { return *o.stats != '\0' && strcmp(o.stats, "exit") == 0; }

constinit Lock g_file_lock{LockRank::kControl};
// The errors that were last complained of. Under g_file_lock.
int g_said_of_stats = 0;
int g_said_of_prometheus = 0;

enum class FileForm : uint8_t { kJson, kText, kPrometheus };

// Returns the length of the whole text, of which `capacity` - 1 bytes are in memory.
size_t MakeText(FileForm form, char* memory, size_t capacity) {
  HeapStats stats;
  CollectStats(stats);
  TextSink sink(memory, capacity);
  if (form == FileForm::kJson) {
    WriteJson(stats, sink, WriteOccupancy);
  } else if (form == FileForm::kText) {
    WriteText(stats, sink);
  } else {
    WritePrometheus(stats, program_invocation_short_name, sink);
  }
  return sink.Finish();
}

// The text is made in memory first, because making it holds locks and a disk may be slow. How long
// it gets depends on classes, CPUs, hugepages and what they do meanwhile: the first try finds out,
// and the next have room to spare. 0, or why not.
int WriteStatsTo(int fd, FileForm form) {
  constexpr int kTries = 4;
  size_t length = 16 << 10;
  for (int i = 0; i < kTries; ++i) {
    const size_t bytes = RoundUp(length + length / 8 + 1, kNativePageSize);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return errno;
    auto* text = static_cast<char*>(memory);
    length = MakeText(form, text, bytes);
    const bool whole = length < bytes;
    const int error = whole && !WriteAll(fd, text, length) ? errno : 0;
    munmap(memory, bytes);
    if (whole) return error;
  }
  return EOVERFLOW;
}

[[gnu::noinline]] void WriteStatsFile(const char* pattern, FileForm form, int& said) {
  const ErrnoKeeper keep;
  char path[4096];  // room for the longest option that is all %p
  ExpandPath(pattern, path, sizeof(path));
  // The exit and the background thread may both come here.
  LockHolder hold(g_file_lock);
  OutputFile file(path, 0644);
  const int error = file.Finish(file.fd() < 0 ? 0 : WriteStatsTo(file.fd(), form));
  if (error == 0 || error == said) return;
  said = error;  // not again at every interval
  Message().Text("can't write statistics to ").Text(path).Text(": ").Text(ErrorText(error)).Warn();
}

// Its tens of KiB of stack are no concern of a program that asked for no statistics and may exit
// from a small coroutine.
[[gnu::noinline]] void WriteStatsToStderr() {
  HeapStats stats;
  CollectStats(stats);
  TextSink sink(KeptDescriptor(STDERR_FILENO));
  WriteText(stats, sink);
  sink.Finish();
}

}  // namespace

void PrepareOutput() {
  const Runtime& r = TheRuntime();
  if (PrintsAtExit(r.options)) KeepDescriptor(STDERR_FILENO);
  for (const char* path : {r.options.stats, r.options.prometheus, r.options.profile_path}) {
    if (*path == '\0') continue;
    KeepDescriptorOf(path);
    NoteStderr();
  }
  if (!r.options.verbose) return;
  char limits[256];
  const ThpMode thp = ReadThpMode();
  Message()
      .Text("caches ")
      .Text(CacheModeName())
      .Text(", THP mode ")
      .Text(NameOf(thp))
      .Text(thp == ThpMode::kNever ? " (no hugepages available)" : "")
      .Text(", release ")
      .Text(r.options.release ? "on" : "off")
      .Text(LimitsInWords(limits, sizeof(limits)))
      .Send();
}

void WriteStatsFiles() {
  const Options& o = TheRuntime().options;
  if (*o.stats != '\0' && !PrintsAtExit(o)) {
    const size_t length = strlen(o.stats);
    const bool text = length > 4 && strcmp(o.stats + length - 4, ".txt") == 0;
    WriteStatsFile(o.stats, text ? FileForm::kText : FileForm::kJson, g_said_of_stats);
  }
  if (*o.prometheus != '\0')
    WriteStatsFile(o.prometheus, FileForm::kPrometheus, g_said_of_prometheus);
}

bool WritesStats() { return g_file_lock.HeldByThisThread(); }

// The thread that may have held the lock exists only in the parent; fork does not wait for a disk.
void ForgetStatsWriterInChild() { ::new (&g_file_lock) Lock(LockRank::kControl); }

void WriteStatsAtExit() {
  if (!MayWriteFiles()) return;
  WriteStatsFiles();
  if (PrintsAtExit(TheRuntime().options)) WriteStatsToStderr();
}

}  // namespace strata
