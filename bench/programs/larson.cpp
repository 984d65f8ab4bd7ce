// Larson: a server's life. Each thread holds an array of live objects and replaces random ones by
// objects of random size. After `rounds` times as many steps as it has objects the thread ends and
// a new one inherits its array ("bleeding"), so that objects are freed by threads that never
// allocated them, and caches of dead threads must not keep memory. The first objects come from
// main.
#include "common.h"

namespace {

struct Lane {
  bench::Array<char*>* objects = nullptr;
  bench::Random random{1};
  uint64_t steps = 0;
  uint64_t generations = 0;
  uint64_t low = 0;
  uint64_t high = 0;
  uint64_t quota = 0;
  uint64_t deadline = 0;
};

char* NewObject(Lane& lane) {
  const size_t size = lane.random.Between(lane.low, lane.high);
  auto* p = static_cast<char*>(bench::CheckedMalloc(size));
  p[0] = 1;
  p[size - 1] = 1;
  return p;
}

// One generation: stops early when the time is up.
void* Generation(void* raw) {
  constexpr uint64_t kChunk = 512;
  auto& lane = *static_cast<Lane*>(raw);
  uint64_t steps = 0;
  while (steps < lane.quota && bench::NowNs() < lane.deadline) {
    for (uint64_t i = 0; i < kChunk; ++i) {
      char*& slot = (*lane.objects)[lane.random.Below(lane.objects->size())];
      free(slot);
      slot = NewObject(lane);
    }
    steps += kChunk;
  }
  lane.steps += steps;
  ++lane.generations;
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto threads = static_cast<unsigned>(options.Count("threads", 1));
  const size_t count = options.Count("objects", 5000);
  const uint64_t low = options.Count("min", 8);
  const uint64_t high = options.Count("max", 1000);
  const uint64_t rounds = options.Count("rounds", 100);
  const double seconds = options.Scaled("seconds", 1.0);
  options.RejectUnknown();
  if (threads == 0 || count == 0 || rounds == 0) bench::Die("counts must be above zero");
  if (low == 0 || high < low) bench::Die("--min must be 1 to --max");

  uint64_t generations = 0;
  bench::Array<Lane> lanes(threads);
  for (unsigned i = 0; i < threads; ++i) {
    Lane& lane = lanes[i];
    lane.objects = new bench::Array<char*>(count);
    lane.random = bench::Random(i + 1);
    lane.low = low;
    lane.high = high;
    lane.quota = rounds * count;
    for (size_t k = 0; k < count; ++k) (*lane.objects)[k] = NewObject(lane);
  }

  // The lane's own thread only waits; each generation is a thread of its own.
  const bench::Total total = bench::RunThreads(threads, [&](unsigned index) {
    Lane& lane = lanes[index];
    const uint64_t start = bench::NowNs();
    lane.deadline = bench::Deadline(seconds);
    while (bench::NowNs() < lane.deadline) {
      pthread_t thread;
      if (pthread_create(&thread, nullptr, Generation, &lane) != 0) bench::Die("no thread");
      pthread_join(thread, nullptr);
    }
    bench::Tally tally;
    tally.ops = lane.steps;
    tally.seconds = bench::Since(start);
    return tally;
  });

  for (unsigned i = 0; i < threads; ++i) {
    generations += lanes[i].generations;
    for (size_t k = 0; k < count; ++k) free((*lanes[i].objects)[k]);
    delete lanes[i].objects;
  }
  bench::Report report("larson");
  report.Add("objects=%zu min=%llu max=%llu generations=%llu", count,
             static_cast<unsigned long long>(low), static_cast<unsigned long long>(high),
             static_cast<unsigned long long>(generations));
  report.Rate(total);
  report.Finish();
  return 0;
}
