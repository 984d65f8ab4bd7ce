// The oscillation of LLAMA's micro-benchmark: the heap of 64 B objects swings between about 1 MB
// and 1 GB, and one object in 10,000 lives to the end. The survivors are spread over everything
// that was ever allocated, so an allocator without a release rule ends at the peak. Objects are
// linked through themselves: no bookkeeping outside the heap. Reports the memory held at the end.
//
// With --told=1 the survivors come from a call of their own, so that an allocator which predicts
// lifetimes by call site can tell them apart; otherwise one call makes both kinds. --learn=SECONDS
// lets it learn beforehand, from swings a 64th as high.
#include "common.h"
#include "memory_cgroup.h"

namespace {

struct Node {
  Node* next;
  char payload[56];
};
static_assert(sizeof(Node) == 64);

constexpr uint64_t kLongLivedEvery = 10'000;

// Two calls of malloc, at two addresses.
[[gnu::noinline]] Node* MakeAny() { return static_cast<Node*>(bench::CheckedMalloc(sizeof(Node))); }
[[gnu::noinline]] Node* MakeSurvivor() {
  Node* node = static_cast<Node*>(bench::CheckedMalloc(sizeof(Node)));
  bench::Escape(node);  // or it would be folded into MakeAny
  return node;
}

void FreeList(Node* list) {
  while (list != nullptr) {
    Node* next = list->next;
    free(list);
    list = next;
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto high = static_cast<uint64_t>(options.Scaled("mib", 1024) * 1048576);
  const uint64_t cycles = options.Count("cycles", 4);
  const double idle = options.Number("idle", 2);
  const bool told = options.Count("told", 0) != 0;
  const double learn = options.Number("learn", 0);
  options.RejectUnknown();
  if (cycles == 0) bench::Die("--cycles must be above zero");

  const bench::PhysicalMemory physical;
  Node* survivors = nullptr;
  uint64_t survivor_count = 0;
  uint64_t made = 0;
  const auto swing = [&] [[gnu::noinline]] (uint64_t objects) {
    Node* first = nullptr;
    Node** last = &first;  // freed in the order of allocation
    for (uint64_t i = 0; i < objects; ++i) {
      const bool survives = ++made % kLongLivedEvery == 0;
      Node* node = survives && told ? MakeSurvivor() : MakeAny();
      node->next = nullptr;
      if (survives) {
        node->next = survivors;
        survivors = node;
        ++survivor_count;
      } else {
        *last = node;
        last = &node->next;
      }
    }
    FreeList(first);
  };
  const bench::Total total = bench::RunThreads(1, [&](unsigned) {
    const uint64_t begin = bench::NowNs();
    while (bench::Since(begin) < learn) swing(high / 64 / sizeof(Node));
    bench::Tally tally;
    const uint64_t start = bench::NowNs(), learned = made;
    for (uint64_t cycle = 0; cycle < cycles; ++cycle) swing(high / sizeof(Node));
    tally.ops = made - learned;
    tally.seconds = bench::Since(start);
    return tally;
  });
  const uint64_t rss_busy_kib = bench::RssKib();
  const timespec pause{
      static_cast<time_t>(idle),
      static_cast<long>((idle - static_cast<double>(static_cast<time_t>(idle))) * 1e9)};
  nanosleep(&pause, nullptr);
  const uint64_t rss_kib = bench::RssKib();
  const uint64_t physical_kib = physical.UsedKib();
  FreeList(survivors);

  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  bench::Report report("oscillation");
  report.Add("cycles=%llu survivors=%llu", number(cycles), number(survivor_count));
  report.Rate(total);
  report.Add("live_kib=%llu", number(survivor_count * sizeof(Node) / 1024));
  report.Add("rss_busy_kib=%llu rss_kib=%llu", number(rss_busy_kib), number(rss_kib));
  report.Add("physical=%s physical_kib=%llu", physical.Kind(), number(physical_kib));
  report.Finish();
  return 0;
}
