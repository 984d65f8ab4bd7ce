// Random replacement: `slots` live objects shared out over the threads; each step frees the object
// in a random slot and puts a new one of random size there. --mix=changing moves the size window
// every four times as many steps as there are slots, so that memory of the old sizes must serve
// the new ones.
#include "common.h"

namespace {

struct Window {
  uint64_t low;
  uint64_t high;
};

// Mean sizes differ by up to an order of magnitude from one window to the next.
constexpr Window kChanging[] = {{16, 64}, {512, 1024}, {64, 256}, {1024, 2048}, {16, 1024}};

char* NewObject(bench::Random& random, Window window) {
  const size_t size = random.Between(window.low, window.high);
  auto* p = static_cast<char*>(bench::CheckedMalloc(size));
  p[0] = 1;
  p[size - 1] = 1;
  return p;
}

uint64_t Replace(bench::Array<char*>& objects, bench::Random& random, Window window,
                 uint64_t steps) {
  for (uint64_t i = 0; i < steps; ++i) {
    char*& slot = objects[random.Below(objects.size())];
    free(slot);
    slot = NewObject(random, window);
  }
  return steps;
}

// Once through all windows: never cut short, so that a fast allocator and a slow one do the same
// work and reach the same peak.
uint64_t Cycle(bench::Array<char*>& objects, bench::Random& random) {
  uint64_t steps = 0;
  for (const Window window : kChanging) {
    steps += Replace(objects, random, window, 4 * objects.size());
  }
  return steps;
}

bench::Tally Work(size_t slots, Window fixed, bool changing, double seconds, uint64_t seed) {
  constexpr uint64_t kChunk = 1024;
  bench::Random random(seed);
  bench::Array<char*> objects(slots);
  const Window first = changing ? kChanging[0] : fixed;
  for (size_t i = 0; i < slots; ++i) objects[i] = NewObject(random, first);
  const bench::Tally tally = bench::RunFor(seconds, [&] {
    return changing ? Cycle(objects, random) : Replace(objects, random, fixed, kChunk);
  });
  for (size_t i = 0; i < slots; ++i) free(objects[i]);
  return tally;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const size_t slots = options.Count("slots", 100'000);
  const Window window{options.Count("min", 16), options.Count("max", 1024)};
  const auto threads = static_cast<unsigned>(options.Count("threads", 1));
  const double seconds = options.Scaled("seconds", 1.0);
  const char* mix = options.Text("mix", "fixed");
  options.RejectUnknown();
  if (threads == 0 || slots / threads == 0) bench::Die("at least one slot a thread");
  if (window.low == 0 || window.high < window.low) bench::Die("--min must be 1 to --max");
  const bool changing = strcmp(mix, "changing") == 0;

  const bench::Total total = bench::RunThreads(threads, [&](unsigned index) {
    return Work(slots / threads, window, changing, seconds, index + 1);
  });

  bench::Report report("replace");
  report.Add("slots=%zu mix=%s", slots, mix);
  report.Rate(total);
  report.Finish();
  return 0;
}
