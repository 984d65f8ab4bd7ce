// strata-simulate: replays items that begin and end through one packing policy, and prints what was
// held as JSON. `strata simulate` is the command for people. The algorithm is
// src/lifetime/bin_packer.h; what the bins stand for is in heap.h, flash.h and machines.h.
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "events.h"
#include "flash.h"
#include "heap.h"
#include "machines.h"
#include "meter.h"
#include "packers.h"

namespace strata::simulate {
namespace {

enum class Policy { kFirstFit, kFullest, kLlama };
enum class Domain { kHeap, kFlash, kJobs };

struct Options {
  Domain domain = Domain::kHeap;
  Policy policy = Policy::kLlama;
  BinPolicy bins;
  uint32_t blocks = 0;  // of flash
  size_t parts = 200;
  const char* events = nullptr;
  const char* classes = nullptr;
};

[[noreturn]] void Fail(const char* what) {
  fprintf(stderr, "strata-simulate: %s\n", what);
  exit(1);
}

// Bins take memory when they are first used.
template <class Slots>
class Storage {
 public:
  using Bin = PackedBin<Slots>;
  static constexpr uint32_t kMost = 1 << 24;

  explicit Storage(uint32_t count) : count_(count) {
    void* at = mmap(nullptr, count * sizeof(Bin), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) Fail(strerror(errno));
    bins_ = static_cast<Bin*>(at);
  }
  ~Storage() { munmap(bins_, count_ * sizeof(Bin)); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  Bin* bins() const { return bins_; }
  uint32_t count() const { return count_; }

 private:
  Bin* bins_;
  uint32_t count_;
};

void Print(const Meter& meter, uint64_t reclaimed, const BinPackerStats& stats) {
  const Span whole = meter.Whole();
  printf("{\"held\": %.17g, \"live\": %.17g, \"bound\": %.17g, \"held_peak\": %llu, ", whole.held,
         whole.live, whole.bound, static_cast<unsigned long long>(meter.held_peak()));
  printf("\"live_peak\": %llu, \"reclaimed\": %llu, \"promoted\": %llu, \"demoted\": %llu",
         static_cast<unsigned long long>(meter.live_peak()),
         static_cast<unsigned long long>(reclaimed),
         static_cast<unsigned long long>(stats.promoted),
         static_cast<unsigned long long>(stats.demoted));
  printf(", \"parts\": [");
  for (size_t i = 0; i < meter.parts(); ++i) {
    const Span part = meter.Part(i);
    printf("%s[%llu, %.17g, %.17g]", i == 0 ? "" : ", ",
           static_cast<unsigned long long>(meter.EndOf(i)), part.held, part.live);
  }
  printf("]");
}

// What had been written by the end of each part of the run, and of that, moved: of flash only.
template <class Place>
class Writes {
 public:
  static constexpr bool kAny = requires(Place place) { place.moved(); };

  size_t size() const { return count_; }
  void Add(const Place& place) {
    ++count_;
    if constexpr (kAny) sums_.push_back({place.written(), place.moved()});
  }
  void Print() const {
    if constexpr (!kAny) return;
    printf(", \"writes\": [");
    for (size_t i = 0; i < sums_.size(); ++i) {
      printf("%s[%llu, %llu]", i == 0 ? "" : ", ", static_cast<unsigned long long>(sums_[i].files),
             static_cast<unsigned long long>(sums_[i].moved));
    }
    printf("]");
  }

 private:
  struct Sum {
    uint64_t files, moved;
  };
  size_t count_ = 0;
  std::vector<Sum> sums_;
};

template <class Place, class Packer>
void Run(const Options& options, const Events& input, Packer& packer, uint64_t unit) {
  Place place(packer, options.bins.ladder, input.sizes.size());
  const std::vector<Event>& events = input.events;
  const uint64_t begin = events.empty() ? 0 : events.front().time;
  uint64_t end = begin;
  for (const Event& event : events) end = std::max(end, event.time);
  Meter meter(begin, end, unit, options.parts);
  Writes<Place> writes;
  uint64_t live = 0;
  for (const Event& event : events) {
    while (writes.size() + 1 < meter.parts() && event.time >= meter.EndOf(writes.size()))
      writes.Add(place);
    meter.Advance(event.time);
    packer.Advance(event.time);
    const uint64_t item = event.item(), size = input.sizes[item];
    if (event.ends()) {
      place.Remove(item, event.time, size);
      live -= size;
    } else {
      if (!place.Place(item, event.time, size, input.classes[item]))
        Fail("no bin is left: more is live than there is room for");
      live += size;
    }
    meter.Set(place.held(), live);
  }
  meter.Advance(end);
  while (writes.size() < meter.parts()) writes.Add(place);
  Print(meter, place.reclaimed(), packer.stats());
  writes.Print();
  printf("}\n");
}

template <class Slots, template <class> class Place>
void RunPolicy(const Options& options, const Events& input, uint64_t unit) {
  if (options.policy == Policy::kFirstFit) {
    FirstFit<Slots> packer;
    return Run<Place<FirstFit<Slots>>>(options, input, packer, unit);
  }
  if (options.policy == Policy::kFullest) {
    FullestFirst<Slots> packer;
    return Run<Place<FullestFirst<Slots>>>(options, input, packer, unit);
  }
  const Storage<Slots> storage(Storage<Slots>::kMost);
  BinPacker<Slots> packer(options.bins, storage.bins(), storage.count());
  Run<Place<BinPacker<Slots>>>(options, input, packer, unit);
}

void CheckSizes(const Options& options, const Events& input) {
  for (const uint64_t size : input.sizes) {
    if (options.domain == Domain::kJobs && (size == 0 || size > kCores))
      Fail("a job needs between 1 and 64 cores");
    if (options.domain == Domain::kFlash && (size == 0 || size > uint64_t{options.blocks} * kPages))
      Fail("a file is empty, or larger than the device");
    if (size > uint64_t{1} << 46) Fail("an object of more than 64 TiB");
  }
}

void Simulate(const Options& options, const Events& input) {
  CheckSizes(options, input);
  switch (options.domain) {
    case Domain::kHeap:
      return RunPolicy<RunSlots<kBlocks>, Heap>(options, input, kBinBytes);
    case Domain::kJobs:
      return RunPolicy<CountedSlots<kCores>, Machines>(options, input, kCores);
    case Domain::kFlash: {
      if (options.policy != Policy::kLlama) Fail("flash has no gaps to fill: llama only");
      const Storage<AppendSlots<kPages>> storage(options.blocks);
      Flash::Packer packer(options.bins, storage.bins(), storage.count());
      return Run<Flash>(options, input, packer, kPages);
    }
  }
}

uint64_t Number(const char* text, uint64_t least, uint64_t most) {
  char* end = nullptr;
  errno = 0;
  const uint64_t value = strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < least || value > most)
    Fail("a number is out of range");
  return value;
}

void Set(std::string_view name, const char* text, Options* options) {
  const std::string_view value = text;
  if (name == "--domain" && value == "heap") {
    options->domain = Domain::kHeap;
  } else if (name == "--domain" && value == "flash") {
    options->domain = Domain::kFlash;
  } else if (name == "--domain" && value == "jobs") {
    options->domain = Domain::kJobs;
  } else if (name == "--policy" && value == "first-fit") {
    options->policy = Policy::kFirstFit;
  } else if (name == "--policy" && value == "fullest") {
    options->policy = Policy::kFullest;
  } else if (name == "--policy" && value == "llama") {
    options->policy = Policy::kLlama;
  } else if (name == "--base") {
    options->bins.ladder.base = Number(text, 1, kNoTick);
  } else if (name == "--ratio") {
    options->bins.ladder.ratio = static_cast<uint32_t>(Number(text, 2, 1 << 20));
  } else if (name == "--classes") {
    options->bins.ladder.count = static_cast<BinClass>(Number(text, 1, kMostBinClasses));
  } else if (name == "--deadline") {
    options->bins.deadline_factor = static_cast<uint32_t>(Number(text, 1, 1 << 20));
  } else if (name == "--blocks") {
    options->blocks = static_cast<uint32_t>(Number(text, 1, 1 << 24));
  } else if (name == "--parts") {
    options->parts = Number(text, 1, 100'000);
  } else {
    Fail("usage: strata-simulate [--OPTION VALUE]... EVENTS CLASSES");
  }
}

}  // namespace
}  // namespace strata::simulate

int main(int argc, char** argv) {
  using namespace strata::simulate;
  Options options;
  int at = 1;
  for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2)
    Set(argv[at], argv[at + 1], &options);
  if (argc - at != 2) Fail("usage: strata-simulate [--OPTION VALUE]... EVENTS CLASSES");
  Events input;
  const std::string wrong = Read(argv[at], argv[at + 1], &input);
  if (!wrong.empty()) Fail(wrong.c_str());
  for (const auto c : input.classes)
    if (c >= options.bins.ladder.count) Fail("a class beyond the ladder");
  Simulate(options, input);
}
