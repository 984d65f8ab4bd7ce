// strata-replay: makes the calls of a trace again, on the malloc that this process has (preload one
// to choose it), and says how long they took and how much memory the heap kept. `strata replay` is
// the command for people; this one prints JSON. Its own memory does not count: it is mapped, filled
// before the start, and taken off.
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>

#include "calls.h"
#include "plan.h"
#include "threads.h"

namespace strata::replay {
namespace {

struct Options {
  const char* trace = nullptr;
  bool threads = false;
  bool overhead = false;
  Touch touch = Touch::kPages;
  size_t samples = 0;
  size_t window = 4096;
};

struct Sample {
  uint64_t steps;  // made so far
  int64_t live;
  uint64_t resident;
};

struct Samples {
  Array<Sample> taken;
  size_t count = 0;
  uint64_t baseline = 0;

  void Take(size_t step, int64_t live) {
    const uint64_t now = Resident();
    if (count < taken.size())
      taken[count++] = {step + 1, live, now > baseline ? now - baseline : 0};
  }
};

double Seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// What the replayer itself takes: the same steps with functions in place of malloc's that do next
// to nothing; the least of three times. With one thread only.
double Overhead(Plan& plan, Array<Slot>& slots, Touch touch) {
  constexpr uint64_t kMostBlock = 1 << 30;  // requests above it fail
  uint64_t most = 1;
  for (size_t i = 0; i < plan.count; ++i) {
    const Step& step = plan.steps[i];
    if (step.operation != Step::kNothing && step.size <= kMostBlock && step.size > most)
      most = step.size;
  }
  Array<char> block;
  block.Make(most);
  if (touch == Touch::kPages) block.Fill(1);  // else nothing lies in it, and none of it is taken
  EmptyFunctions::SetBlock(&block[0], most);
  double least = HUGE_VAL;
  for (int round = 0; round < 3; ++round) {
    BasicCaller<EmptyFunctions> caller(slots, touch);
    Progress progress;
    const double start = Seconds(CLOCK_MONOTONIC);
    for (size_t i = 0; i < plan.count; ++i)
      if (plan.steps[i].operation != Step::kNothing) caller.Do(plan.steps[i], progress);
    least = std::min(least, Seconds(CLOCK_MONOTONIC) - start);
    slots.Fill(0);
  }
  return least;
}

Progress RunSingle(Plan& plan, Array<Slot>& slots, Touch touch, size_t stride, Samples& samples) {
  Caller caller(slots, touch);
  Progress progress;
  size_t next = stride == 0 ? SIZE_MAX : stride;
  for (size_t i = 0; i < plan.count; ++i) {
    if (plan.steps[i].operation != Step::kNothing) caller.Do(plan.steps[i], progress);
    if (i + 1 == next) {
      samples.Take(i, progress.live);
      next += stride;
    }
  }
  return progress;
}

void Run(const Options& options) {
  static Plan plan;
  static Array<Slot> slots;
  static Samples samples;
  Load(options.trace, options.threads ? Slots::kUnique : Slots::kReused, &plan);
  slots.Make(plan.slots);
  slots.Fill(0);
  size_t stride = 0;
  if (options.samples != 0) {
    stride = plan.count / options.samples + 1;
    samples.taken.Make(plan.count / stride + 2);
    samples.taken.Fill(0);
  }
  const double overhead = options.overhead ? Overhead(plan, slots, options.touch) : 0;
  ForgetPeak();
  const uint64_t baseline = samples.baseline = Resident();

  const double start = Seconds(CLOCK_MONOTONIC), cpu = Seconds(CLOCK_PROCESS_CPUTIME_ID);
  Progress progress;
  if (options.threads) {
    ThreadedReplay replay{
        &plan,
        &slots,
        options.touch,
        options.window,
        stride,
        [](void* to, size_t step, int64_t live) { static_cast<Samples*>(to)->Take(step, live); },
        &samples};
    progress = replay.Run();
  } else {
    progress = RunSingle(plan, slots, options.touch, stride, samples);
  }
  const double seconds = Seconds(CLOCK_MONOTONIC) - start;
  const double cpu_seconds = Seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  const uint64_t peak = PeakResident(), end = Resident();
  if (stride != 0) samples.Take(plan.count - 1, progress.live);

  const auto above = [&](uint64_t bytes) {
    return static_cast<unsigned long long>(bytes > baseline ? bytes - baseline : 0);
  };
  printf("{\"events\": %zu, \"ignored\": %zu, \"failures\": %llu, \"threads\": %u,\n", plan.events,
         plan.ignored, static_cast<unsigned long long>(progress.failures), plan.most_thread);
  printf(" \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"peak_resident\": %llu,\n", seconds,
         cpu_seconds, above(peak));
  if (options.overhead) printf(" \"overhead_seconds\": %.6f,\n", overhead);
  printf(" \"end_resident\": %llu, \"end_live\": %lld, \"peak_live\": %lld, \"samples\": [",
         above(end), static_cast<long long>(progress.live), static_cast<long long>(plan.peak_live));
  for (size_t i = 0; i < samples.count; ++i) {
    const Sample& s = samples.taken[i];
    printf("%s[%llu, %lld, %llu]", i == 0 ? "" : ", ", static_cast<unsigned long long>(s.steps),
           static_cast<long long>(s.live), static_cast<unsigned long long>(s.resident));
  }
  printf("]}\n");
}

constexpr char kUsage[] =
    "usage: strata-replay [--threads | --overhead] [--samples N] [--window N]"
    " [--touch pages|none] TRACE\n";

// False: it makes no sense.
bool Parse(int count, char** words, Options* options) {
  for (int i = 1; i < count; ++i) {
    const char* word = words[i];
    const char* value = i + 1 < count ? words[i + 1] : "";
    if (strcmp(word, "--threads") == 0) {
      options->threads = true;
    } else if (strcmp(word, "--overhead") == 0) {
      options->overhead = true;
    } else if (strcmp(word, "--samples") == 0 || strcmp(word, "--window") == 0) {
      char* end;
      const size_t n = strtoull(value, &end, 10);
      if (*value < '0' || *value > '9' || *end != '\0' || n > 1'000'000'000) return false;
      (word[2] == 's' ? options->samples : options->window) = n;
      ++i;
    } else if (strcmp(word, "--touch") == 0) {
      if (strcmp(value, "pages") != 0 && strcmp(value, "none") != 0) return false;
      options->touch = *value == 'p' ? Touch::kPages : Touch::kNone;
      ++i;
    } else if (options->trace == nullptr && word[0] != '-') {
      options->trace = word;
    } else {
      return false;
    }
  }
  return options->trace != nullptr && !(options->threads && options->overhead);
}

}  // namespace
}  // namespace strata::replay

int main(int count, char** words) {
  strata::replay::Options options;
  if (!strata::replay::Parse(count, words, &options)) {
    fputs(strata::replay::kUsage, stderr);
    return 2;
  }
  strata::replay::Run(options);
  return fflush(stdout) == 0 ? 0 : 1;
}
