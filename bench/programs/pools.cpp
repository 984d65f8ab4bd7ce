// Containers over std::pmr resources: each thread fills a hash map of strings, a list and a vector
// of strings and destroys them, round after round. --resource: pool (strata::pool_resource), new
// (the heap under test), synchronized and unsynchronized (libstdc++'s pools), monotonic (released
// after each round), reap (strata::reap_resource). The last three are one resource a thread, the
// others one for all. --handover=1: a round's containers are destroyed by another thread.
// build flags: -fexceptions -lstrata
#include <list>
#include <memory>
#include <memory_resource>
#include <string>
#include <unordered_map>
#include <vector>

#include "common.h"
#include "strata/memory_resource.h"
#include "strata/pool_resource.h"

namespace {

using Resource = std::pmr::memory_resource;

// A few hundred objects of 16 to some hundred bytes, and some arrays that grow.
class Work {
 public:
  Work(Resource* resource, uint64_t seed) : words_(resource), lines_(resource), queue_(resource) {
    bench::Random random(seed);
    char text[128];
    for (int i = 0; i < 300; ++i) {
      const uint64_t word = random.Below(150);
      const int n = snprintf(text, sizeof text, "%.*llu", static_cast<int>(8 + word % 60),
                             static_cast<unsigned long long>(word));
      ++words_[std::pmr::string(text, static_cast<size_t>(n), lines_.get_allocator())];
      lines_.emplace_back(text);
      queue_.push_back(i);
      if (i % 3 == 0) queue_.pop_front();
      if (i % 4 == 0) words_.erase(words_.begin());
    }
  }

 private:
  std::pmr::unordered_map<std::pmr::string, int> words_;
  std::pmr::vector<std::pmr::string> lines_;
  std::pmr::list<int> queue_;
};

struct Source {
  std::unique_ptr<Resource> shared;
  std::vector<std::unique_ptr<Resource>> private_ones;
  Resource* of(unsigned thread) { return shared ? shared.get() : private_ones[thread].get(); }
};

template <class R>
void MakePrivate(Source& source, uint64_t threads) {
  for (uint64_t i = 0; i < threads; ++i) source.private_ones.push_back(std::make_unique<R>());
}

Source Make(const char* name, uint64_t threads) {
  Source s;
  if (strcmp(name, "pool") == 0) {
    s.shared = std::make_unique<strata::pool_resource>();
  } else if (strcmp(name, "new") == 0) {
    s.shared = std::make_unique<strata::memory_resource>();
  } else if (strcmp(name, "synchronized") == 0) {
    s.shared = std::make_unique<std::pmr::synchronized_pool_resource>();
  } else if (strcmp(name, "unsynchronized") == 0) {
    MakePrivate<std::pmr::unsynchronized_pool_resource>(s, threads);
  } else if (strcmp(name, "monotonic") == 0) {
    MakePrivate<std::pmr::monotonic_buffer_resource>(s, threads);
  } else if (strcmp(name, "reap") == 0) {
    MakePrivate<strata::reap_resource>(s, threads);
  } else {
    bench::Die("--resource: pool, new, synchronized, unsynchronized, monotonic or reap");
  }
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const char* name = options.Text("resource", "pool");
  const uint64_t threads = options.Count("threads", 1);
  const bool handover = options.Count("handover", 0) != 0;
  const double seconds = options.Scaled("seconds", 0.5);
  options.RejectUnknown();
  Source source = Make(name, threads);
  if (handover && !source.shared) bench::Die("only a resource for all threads can hand over");

  std::atomic<Work*> handed{nullptr};
  const bench::Total total = bench::RunThreads(static_cast<unsigned>(threads), [&](unsigned t) {
    uint64_t seed = t + 1;
    Resource* resource = source.of(t);
    auto* monotonic = dynamic_cast<std::pmr::monotonic_buffer_resource*>(resource);
    return bench::RunFor(seconds, [&]() -> uint64_t {
      auto work = std::make_unique<Work>(resource, seed++);
      if (handover) work.reset(handed.exchange(work.release()));
      work.reset();
      if (monotonic != nullptr) monotonic->release();
      return 1;
    });
  });
  delete handed.load();
  bench::Report report("pools");
  report.Rate(total);
  report.Add("resource=%s", name);
  report.Finish();
  return 0;
}
