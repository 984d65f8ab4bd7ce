// Shared pieces of the benchmark programs: options, clock, random numbers, memory figures of this
// process, thread start and the one machine-readable result line. Everything here stays off the
// allocator under test: bookkeeping comes from mmap, output goes through one write(2).
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace bench {

[[noreturn]] inline void Die(const char* what) {
  char line[256];
  const int n = snprintf(line, sizeof line, "bench: %s\n", what);
  if (write(STDERR_FILENO, line, static_cast<size_t>(n)) < 0) _exit(3);
  _exit(2);
}

// Options are `--name=value`; every program reads the ones it knows and refuses the rest.
class Options {
 public:
  Options(int argc, char** argv) : argc_(argc), argv_(argv) {
    if (argc > kMaxArgs) Die("too many options");
    scale_ = Number("scale", 1.0);
  }

  double Number(const char* name, double fallback) {
    const char* text = Find(name);
    if (text == nullptr) return fallback;
    char* end = nullptr;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0') Die("an option needs a number");
    return value;
  }

  uint64_t Count(const char* name, uint64_t fallback) {
    const double value = Number(name, static_cast<double>(fallback));
    if (value < 0) Die("an option needs a number at or above zero");
    return static_cast<uint64_t>(value);
  }

  const char* Text(const char* name, const char* fallback) {
    const char* text = Find(name);
    return text == nullptr ? fallback : text;
  }

  // A duration in seconds or an amount of memory, shortened by --scale.
  double Scaled(const char* name, double fallback) { return Number(name, fallback) * scale_; }

  void RejectUnknown() const {
    for (int i = 1; i < argc_; ++i) {
      if (!used_[i]) Die(argv_[i]);
    }
  }

 private:
  static constexpr int kMaxArgs = 32;

  const char* Find(const char* name) {
    const size_t length = strlen(name);
    for (int i = 1; i < argc_; ++i) {
      const char* arg = argv_[i];
      if (strncmp(arg, "--", 2) == 0 && strncmp(arg + 2, name, length) == 0 &&
          arg[2 + length] == '=') {
        used_[i] = true;
        return arg + 3 + length;
      }
    }
    return nullptr;
  }

  int argc_;
  char** argv_;
  bool used_[kMaxArgs] = {};
  double scale_ = 1.0;
};

inline uint64_t NowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

inline double Since(uint64_t start_ns) { return static_cast<double>(NowNs() - start_ns) * 1e-9; }

inline uint64_t Deadline(double seconds) { return NowNs() + static_cast<uint64_t>(seconds * 1e9); }

// xorshift64*: one multiply a number, so that the generator stays small beside malloc.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567u) {}

  uint64_t Next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }

  // Uniform in [0, bound): multiply-shift of the high half.
  uint64_t Below(uint64_t bound) { return ((Next() >> 32) * bound) >> 32; }

  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }

 private:
  uint64_t state_;
};

// Makes the compiler believe that the object is used, without writing to it.
inline void Escape(void* p) { asm volatile("" : : "g"(p) : "memory"); }

inline void* CheckedMalloc(size_t size) {
  void* p = malloc(size);
  if (p == nullptr) Die("malloc gave null");
  return p;
}

// An array in memory of its own, so that the bookkeeping is the same for every allocator.
template <typename T>
class Array {
 public:
  explicit Array(size_t count) : count_(count), bytes_(count * sizeof(T)) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) Die("no memory for bookkeeping");
    data_ = static_cast<T*>(p);
  }
  ~Array() { munmap(data_, bytes_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T& operator[](size_t i) { return data_[i]; }
  T* data() { return data_; }
  size_t size() const { return count_; }

  // Gives back the pages behind the first `keep` elements.
  void ReleaseTail(size_t keep) {
    const size_t from = (keep * sizeof(T) + 4095) & ~size_t{4095};
    if (from < bytes_) {
      madvise(reinterpret_cast<char*>(data_) + from, bytes_ - from, MADV_DONTNEED);
    }
  }

 private:
  T* data_ = nullptr;
  size_t count_;
  size_t bytes_;
};

// Reads a small file without the allocator; an empty string when it cannot be read.
inline const char* ReadFile(const char* path, char* buffer, size_t capacity) {
  buffer[0] = '\0';
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return buffer;
  size_t used = 0;
  while (used + 1 < capacity) {
    const ssize_t n = read(fd, buffer + used, capacity - 1 - used);
    if (n <= 0) break;
    used += static_cast<size_t>(n);
  }
  close(fd);
  buffer[used] = '\0';
  return buffer;
}

// The number behind `key` in a file of `key number` lines, or 0.
inline uint64_t FieldOf(const char* path, const char* key) {
  char text[16384];
  const char* at = strstr(ReadFile(path, text, sizeof text), key);
  return at == nullptr ? 0 : strtoull(at + strlen(key), nullptr, 10);
}

inline uint64_t PeakRssKib() { return FieldOf("/proc/self/status", "VmHWM:"); }

inline uint64_t RssKib() {
  char text[256];
  const char* space = strchr(ReadFile("/proc/self/statm", text, sizeof text), ' ');
  return space == nullptr ? 0 : strtoull(space, nullptr, 10) * 4;
}

// How much of this process's anonymous memory lies on hugepages. Walks the page tables.
inline double HugepageCoverage() {
  const char* rollup = "/proc/self/smaps_rollup";
  const uint64_t anonymous = FieldOf(rollup, "Anonymous:");
  return anonymous == 0 ? 0
                        : static_cast<double>(FieldOf(rollup, "AnonHugePages:")) /
                              static_cast<double>(anonymous);
}

// What one worker did: operations, and the seconds of its own measured loop (set-up and tear-down
// are left out). On cache lines of its own.
struct alignas(128) Tally {
  uint64_t ops = 0;
  double seconds = 0;
};

constexpr unsigned kMaxThreads = 256;

// Sum over the workers: `busy` adds their loops, `longest` is the slowest one.
struct Total {
  unsigned threads = 0;
  uint64_t ops = 0;
  double busy = 0;
  double longest = 0;
};

// Runs `body(thread index) -> Tally` on `count` threads that start together.
template <typename Body>
Total RunThreads(unsigned count, Body body) {
  struct Worker {
    Body* body;
    pthread_barrier_t* barrier;
    unsigned index;
    pthread_t thread;
    Tally tally;
  };
  if (count == 0 || count > kMaxThreads) Die("1 to 256 threads");
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, count);
  Array<Worker> workers(count);
  for (unsigned i = 0; i < count; ++i) {
    Worker& worker = workers[i];
    worker.body = &body;
    worker.barrier = &barrier;
    worker.index = i;
    const auto entry = [](void* raw) -> void* {
      auto* self = static_cast<Worker*>(raw);
      pthread_barrier_wait(self->barrier);
      self->tally = (*self->body)(self->index);
      return nullptr;
    };
    if (pthread_create(&worker.thread, nullptr, entry, &worker) != 0) Die("no thread");
  }
  Total total;
  total.threads = count;
  for (unsigned i = 0; i < count; ++i) {
    pthread_join(workers[i].thread, nullptr);
    const Tally& tally = workers[i].tally;
    total.ops += tally.ops;
    total.busy += tally.seconds;
    if (tally.seconds > total.longest) total.longest = tally.seconds;
  }
  pthread_barrier_destroy(&barrier);
  return total;
}

// Calls `step() -> operations done` until the deadline has passed.
template <typename Step>
Tally RunFor(double seconds, Step step) {
  Tally tally;
  const uint64_t start = NowNs();
  const uint64_t deadline = Deadline(seconds);
  do {
    tally.ops += step();
  } while (NowNs() < deadline);
  tally.seconds = Since(start);
  return tally;
}

// The result line. Fields appear in the order they were added; Finish adds those that every
// program has and writes the line at once.
class Report {
 public:
  explicit Report(const char* program) { Add("program=%s", program); }

  [[gnu::format(printf, 2, 3)]] void Add(const char* format, ...) {
    if (used_ != 0) Put(' ');
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(line_ + used_, sizeof line_ - used_, format, args);
    va_end(args);
    if (n < 0 || used_ + static_cast<size_t>(n) + 2 >= sizeof line_) Die("result line too long");
    used_ += static_cast<size_t>(n);
  }

  // ns is the cost of one operation as a worker sees it, mops the rate of all workers together.
  void Rate(const Total& total) {
    Add("threads=%u", total.threads);
    if (total.ops != 0) {
      Add("ns=%.4f", total.busy * 1e9 / static_cast<double>(total.ops));
      Add("mops=%.4f", static_cast<double>(total.ops) / total.longest * 1e-6);
    }
    Add("ops=%llu", static_cast<unsigned long long>(total.ops));
    Add("seconds=%.6f", total.longest);
  }

  void Finish() {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    Add("user_s=%.4f", seconds(usage.ru_utime));
    Add("sys_s=%.4f", seconds(usage.ru_stime));
    Add("minflt=%ld", usage.ru_minflt);
    Add("hwm_kib=%llu", static_cast<unsigned long long>(PeakRssKib()));
    Put('\n');
    for (size_t done = 0; done < used_;) {
      const ssize_t n = write(STDOUT_FILENO, line_ + done, used_ - done);
      if (n <= 0) Die("cannot write the result");
      done += static_cast<size_t>(n);
    }
  }

 private:
  void Put(char c) {
    if (used_ + 1 >= sizeof line_) Die("result line too long");
    line_[used_++] = c;
  }

  char line_[16384];
  size_t used_ = 0;
};

}  // namespace bench
