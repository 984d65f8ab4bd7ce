// What the loads under bench/loads share: phases, marked on stdout by lines `phase=NAME` for
// whoever watches the process, and the sums of work, time and CPU time over the measured ones. A
// load ends with the result line of the other benchmark programs (common.h).
#pragma once

#include "../programs/common.h"

namespace bench {

class Phases {
 public:
  explicit Phases(const char* program) : program_(program) {
    Line("pid=%llu", static_cast<unsigned long long>(getpid()));
  }

  // The phase before ends: a caller has waited for its work.
  void Begin(const char* name, bool measured) {
    End();
    measured_ = measured;
    started_ns_ = NowNs();
    cpu_ns_ = CpuNs();
    Line("phase=%s", name);
  }

  void Worked(uint64_t amount) {
    if (measured_) work_ += amount;
  }

  void Rest(double seconds) {
    Begin("rest", false);
    const auto whole = static_cast<time_t>(seconds);
    const timespec pause{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
    nanosleep(&pause, nullptr);
    Begin("end", false);
  }

  void AddTo(Report& report) const {
    report.Add("work=%llu seconds=%.4f cpu_s=%.4f", static_cast<unsigned long long>(work_),
               seconds_, cpu_seconds_);
    report.Add("per_s=%.2f per_cpu_s=%.2f", static_cast<double>(work_) / seconds_,
               static_cast<double>(work_) / cpu_seconds_);
  }

  const char* program() const { return program_; }

 private:
  static uint64_t CpuNs() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
  }

  void End() {
    if (!measured_) return;
    seconds_ += Since(started_ns_);
    cpu_seconds_ += static_cast<double>(CpuNs() - cpu_ns_) * 1e-9;
  }

  template <typename Value>
  static void Line(const char* format, Value value) {
    char line[64];
    int n = snprintf(line, sizeof line - 1, format, value);
    line[n++] = '\n';
    if (write(STDOUT_FILENO, line, static_cast<size_t>(n)) != n) Die("cannot write a mark");
  }

  const char* program_;
  bool measured_ = false;
  uint64_t started_ns_ = 0;
  uint64_t cpu_ns_ = 0;
  uint64_t work_ = 0;
  double seconds_ = 0;
  double cpu_seconds_ = 0;
};

}  // namespace bench
