// Bursts of objects of one size of which one in a hundred stays, as of requests that leave a
// session behind. Who stays is told by the call path alone: both kinds come from one function that
// calls malloc, in the same stack depth. An allocator that does not tell them apart ends with
// survivors all over what the bursts took. Reports what is held after the second burst, at the end,
// and then without the pages on which something of the first two bursts lies.
#include <algorithm>

#include "common.h"

namespace {

struct Node {
  Node* next;
};

void FreeList(Node* list) {
  while (list != nullptr) {
    Node* next = list->next;
    free(list);
    list = next;
  }
}

[[gnu::noinline]] Node* Make(size_t size) {
  auto* node = static_cast<Node*>(bench::CheckedMalloc(size));
  memset(node, 1, size);
  node->next = nullptr;
  return node;
}

// Volatile, so that neither call is the last thing its function does. With a remark, so that the
// compiler does not take one function for the other: on a stack their names would be the same.
[[gnu::noinline]] Node* MakeRequest(size_t size) {
  asm volatile("# a request");
  Node* volatile node = Make(size);
  return node;
}
[[gnu::noinline]] Node* MakeSession(size_t size) {
  asm volatile("# a session");
  Node* volatile node = Make(size);
  return node;
}

// On which something of the list begins, from this node on.
uint64_t PagesKib(const Node* list, uint64_t count) {
  constexpr uintptr_t kPage = 4096;
  bench::Array<uintptr_t> pages(count + 1);
  uintptr_t* end = pages.data();
  for (const Node* node = list; node != nullptr; node = node->next)
    *end++ = reinterpret_cast<uintptr_t>(node) / kPage;
  std::sort(pages.data(), end);
  return static_cast<uint64_t>(std::unique(pages.data(), end) - pages.data()) * kPage / 1024;
}

void Sleep(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec pause{whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  nanosleep(&pause, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto bytes = static_cast<uint64_t>(options.Scaled("mib", 384) * 1048576);
  const uint64_t bursts = options.Count("bursts", 10);
  const uint64_t size = options.Count("size", 256);
  const uint64_t keep_every = options.Count("keep-every", 100);
  const double pause = options.Number("pause", 0);
  const double idle = options.Number("idle", 10);
  options.RejectUnknown();
  if (bursts == 0 || size < sizeof(Node) || keep_every == 0)
    bench::Die("--bursts and --keep-every must be above zero, --size at least 8");

  Node* sessions = nullptr;
  Node* early = nullptr;  // the sessions of the first two bursts: the end of the list
  uint64_t kept = 0, made = 0, early_kib = 0;
  const bench::Total total = bench::RunThreads(1, [&](unsigned) {
    bench::Tally tally;
    for (uint64_t burst = 0; burst < bursts; ++burst) {
      const uint64_t start = bench::NowNs();
      Node* first = nullptr;
      Node** last = &first;  // freed in the order of allocation
      for (uint64_t i = 0; i < bytes / size; ++i) {
        if (++made % keep_every == 0) {
          Node* node = MakeSession(size);
          node->next = sessions;
          sessions = node;
          ++kept;
        } else {
          *last = MakeRequest(size);
          last = &(*last)->next;
        }
      }
      FreeList(first);
      tally.seconds += bench::Since(start);
      if (pause > 0) Sleep(pause);
      if (burst <= 1) early = sessions;
      if (burst == 1) early_kib = bench::RssKib();
    }
    tally.ops = made;
    return tally;
  });
  const uint64_t busy_kib = bench::RssKib();
  Sleep(idle);
  const uint64_t rss_kib = bench::RssKib();
  const uint64_t pages_kib = PagesKib(early, kept);
  const uint64_t late_kib = rss_kib > pages_kib ? rss_kib - pages_kib : 0;
  FreeList(sessions);

  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  bench::Report report("bursts");
  report.Add("size=%llu bursts=%llu", number(size), number(bursts));
  report.Rate(total);
  report.Add("live_kib=%llu", number(kept * size / 1024));
  report.Add("rss_second_kib=%llu rss_busy_kib=%llu rss_kib=%llu", number(early_kib),
             number(busy_kib), number(rss_kib));
  report.Add("early_pages_kib=%llu late_kib=%llu", number(pages_kib), number(late_kib));
  report.Finish();
  return 0;
}
