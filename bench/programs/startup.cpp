// What a preloaded library costs a small program: spawns a command (default /bin/true) many times,
// one after the other, and reports wall time from spawn to exit and the child's peak RSS. The
// library under test comes in the environment; this program is static, so it is not preloaded
// itself, and small, because a child's ru_maxrss starts at the size of the parent that spawned it.
//
// build flags: -static
#include <spawn.h>
#include <sys/wait.h>

#include "common.h"

extern char** environ;

namespace {

int Compare(const void* a, const void* b) {
  const double left = *static_cast<const double*>(a);
  const double right = *static_cast<const double*>(b);
  return left < right ? -1 : left > right ? 1 : 0;
}

double MedianOf(bench::Array<double>& values, size_t count) {
  qsort(values.data(), count, sizeof(double), Compare);
  return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const uint64_t runs = options.Count("runs", 100);
  const char* command = options.Text("command", "/bin/true");
  options.RejectUnknown();
  if (runs == 0) bench::Die("--runs must be above zero");

  bench::Array<double> wall_us(runs);
  bench::Array<double> rss_kib(runs);
  char* const arguments[] = {const_cast<char*>(command), nullptr};
  for (uint64_t i = 0; i < runs; ++i) {
    const uint64_t start = bench::NowNs();
    pid_t child = 0;
    if (posix_spawn(&child, command, nullptr, nullptr, arguments, environ) != 0) {
      bench::Die("cannot spawn the command");
    }
    int status = 0;
    rusage usage;
    if (wait4(child, &status, 0, &usage) != child) bench::Die("wait4 failed");
    wall_us[i] = bench::Since(start) * 1e6;
    rss_kib[i] = static_cast<double>(usage.ru_maxrss);
    if (status != 0) bench::Die("the command failed");
  }

  bench::Report report("startup");
  report.Add("command=%s runs=%llu", command, static_cast<unsigned long long>(runs));
  report.Add("own_kib=%llu", static_cast<unsigned long long>(bench::PeakRssKib()));
  report.Add("us=%.2f", MedianOf(wall_us, runs));
  report.Add("min_us=%.2f", wall_us[0]);
  report.Add("child_kib=%.0f", MedianOf(rss_kib, runs));
  report.Finish();
  return 0;
}
