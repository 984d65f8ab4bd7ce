// Writing the statistics out. See stats_output.h.
#include "malloc/stats_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

#include "base/message.h"
#include "malloc/runtime.h"
#include "malloc/stats_collect.h"

namespace strata {
namespace {

// A copy of stderr, for programs that close theirs before our destructor runs (all of coreutils
// do).
int g_stderr = -1;
struct stat
    g_stderr_file;  // what it was, in case the program closes all descriptors and reuses the number
constinit Lock g_file_lock{LockRank::kControl};

int StderrForStats() {
  struct stat now;
  const bool same = g_stderr >= 0 && fstat(g_stderr, &now) == 0 &&
                    now.st_dev == g_stderr_file.st_dev && now.st_ino == g_stderr_file.st_ino;
  return same ? g_stderr : STDERR_FILENO;
}

bool WriteWhole(int fd, const char* text, size_t bytes) {
  while (bytes != 0) {
    const ssize_t n = write(fd, text, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

void Complain(const char* path) {
  Message()
      .Text("can't write statistics to ")
      .Text(path)
      .Text(": ")
      .Text(strerrordesc_np(errno))
      .Send();
}

// The text is made in memory first, because making it holds locks and a disk may be slow.
bool WriteJsonTo(int fd) {
  const size_t hugepages = TheRuntime().kernel.mapped_end() >> kHugePageShift;
  const size_t bytes = RoundUp((64 << 10) + hugepages * 24, kNativePageSize);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* text = static_cast<char*>(memory);
  HeapStats stats;
  CollectStats(stats);
  TextSink sink(text, bytes);
  WriteJson(stats, sink, WriteOccupancy);
  const size_t length = sink.Finish();
  const bool ok = WriteWhole(fd, text, length < bytes ? length : bytes - 1);
  munmap(memory, bytes);
  return ok;
}

}  // namespace

const char* CacheModeName() {
  if (CurrentState() != RunState::kReady) return "none";
  const Runtime& r = TheRuntime();
  if (!r.per_cpu) return "per-thread";
  return r.rseq.index == RseqIndex::kMmCid ? "per-cpu (mm_cid)" : "per-cpu (cpu_id)";
}

void PrepareOutput() {
  const Runtime& r = TheRuntime();
  const int saved = errno;
  constexpr int kOutOfTheWay = 200;  // programs expect the lowest descriptors to be theirs
  if (strcmp(r.options.stats, "exit") == 0) {
    g_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, kOutOfTheWay);
    if (g_stderr >= 0) fstat(g_stderr, &g_stderr_file);
  }
  errno = saved;
  if (!r.options.verbose) return;
  Message()
      .Text("caches ")
      .Text(CacheModeName())
      .Text(", THP mode ")
      .Text(NameOf(r.thp))
      .Text(r.thp == ThpMode::kNever ? " (no hugepages to be had)" : "")
      .Text(", release ")
      .Text(r.options.release ? "on" : "off")
      .Send();
}

void WriteStatsFile(const char* path) {
  const int saved = errno;
  char temporary[4096];
  TextSink name(temporary, sizeof(temporary));
  const size_t length =
      name.Text(path).Text(".").Number(static_cast<size_t>(getpid())).Text(".tmp").Finish();
  if (length >= sizeof(temporary)) {
    Message().Text("the path in STRATA_STATS is too long").Send();
    return;
  }
  // The exit and the background thread may both come here.
  LockHolder hold(g_file_lock);
  unlink(temporary);  // left by a process of the same number that died
  const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  bool ok = fd >= 0;
  if (ok) {
    ok = WriteJsonTo(fd);
    ok &= close(fd) == 0;
    ok = ok && rename(temporary, path) == 0;
    if (!ok) {
      const int why = errno;
      unlink(temporary);
      errno = why;
    }
  }
  if (!ok) Complain(path);
  errno = saved;
}

// The thread that may have held the lock exists only in the parent; fork does not wait for a disk.
void ForgetStatsWriterInChild() { ::new (&g_file_lock) Lock(LockRank::kControl); }

void WriteStatsAtExit() {
  const char* where = TheRuntime().options.stats;
  if (*where == '\0') return;
  if (strcmp(where, "exit") != 0) return WriteStatsFile(where);
  HeapStats stats;
  CollectStats(stats);
  TextSink sink(StderrForStats());
  WriteText(stats, sink);
  sink.Finish();
}

}  // namespace strata
