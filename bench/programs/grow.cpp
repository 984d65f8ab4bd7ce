// A neighbour that takes memory or processes, for bench/strata_bench/price.py. It touches all that
// it takes and prints a line each second, ten in each of the first two: seconds since the start,
// MiB held, or processes started.
//   --mode=hog    --block=BYTES           as fast as it can, without end
//   --mode=block  --block=BYTES           the same as one block, which grows by so much
//   --mode=leak   --mib_s=N               so much a second
//   --mode=batch  --mib=N --seconds=S     takes N MiB, passes over them for S seconds of CPU, ends
//   --mode=bomb                           each process forks without end, and its children do
#include <errno.h>
#include <sys/wait.h>

#include "common.h"

namespace {

double Now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double CpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

class Report {
 public:
  void Tell(double amount) {
    const double now = Now() - began_;
    if (now < next_) return;
    next_ = now < kOftenS ? now + 0.1 : static_cast<double>(static_cast<long>(now) + 1);
    char line[64];
    const int n = snprintf(line, sizeof(line), "%.2f %.2f\n", now, amount);
    if (write(STDOUT_FILENO, line, static_cast<size_t>(n)) < 0) bench::Die("write");
  }

 private:
  static constexpr double kOftenS = 2;  // one that is killed soon would have told its start alone

  double began_ = Now();
  double next_ = 0;
};

// Linked through their first words, so that nothing else is allocated.
struct Block {
  Block* next;
};

Block* Take(Block* list, size_t bytes) {
  auto* block = static_cast<Block*>(malloc(bytes));
  if (block == nullptr) bench::Die("out of memory");
  memset(static_cast<void*>(block), 1, bytes);
  block->next = list;
  return block;
}

constexpr double kMiB = 1 << 20;

[[noreturn]] void Hog(size_t block, double mib_s) {
  Report report;
  Block* list = nullptr;
  const double began = Now();
  for (double held = 0;;) {
    list = Take(list, block);
    held += static_cast<double>(block) / kMiB;
    report.Tell(held);
    while (mib_s > 0 && held / mib_s > Now() - began) {
      usleep(10'000);
      report.Tell(held);
    }
  }
}

[[noreturn]] void OneBlock(size_t step) {
  Report report;
  char* block = nullptr;
  for (size_t held = 0;; held += step) {
    block = static_cast<char*>(realloc(block, held + step));
    if (block == nullptr) bench::Die("out of memory");
    memset(block + held, 1, step);
    report.Tell(static_cast<double>(held + step) / kMiB);
  }
}

void Batch(size_t block, double mib, double seconds) {
  Report report;
  const double began = Now();
  Block* list = nullptr;
  double held = 0;
  for (; held < mib; held += static_cast<double>(block) / kMiB) {
    list = Take(list, block);
    report.Tell(held);
  }
  const double until = CpuSeconds() + seconds;
  while (CpuSeconds() < until) {
    for (Block* at = list; at != nullptr; at = at->next) memset(at + 1, 2, block - sizeof(Block));
    report.Tell(held);
  }
  char line[64];
  const int n = snprintf(line, sizeof(line), "done %.2f\n", Now() - began);
  if (write(STDOUT_FILENO, line, static_cast<size_t>(n)) < 0) bench::Die("write");
}

[[noreturn]] void Bomb() {
  for (;;) {
    if (fork() < 0) usleep(100'000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const char* mode = options.Text("mode", "hog");
  const auto block = static_cast<size_t>(options.Count("block", 64 << 10));
  const double mib_s = options.Number("mib_s", 0);
  const double mib = options.Number("mib", 256);
  const double seconds = options.Number("seconds", 5);
  options.RejectUnknown();
  if (strcmp(mode, "hog") == 0) Hog(block, 0);
  if (strcmp(mode, "block") == 0) OneBlock(block);
  if (strcmp(mode, "leak") == 0) Hog(block, mib_s > 0 ? mib_s : 1);
  if (strcmp(mode, "bomb") == 0) Bomb();
  if (strcmp(mode, "batch") != 0) bench::Die("no such mode");
  Batch(block, mib, seconds);
  return 0;
}
