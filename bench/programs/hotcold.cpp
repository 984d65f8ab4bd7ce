// What a hot/cold hint could gain: a hot set and ten times as many cold objects, made in mixed
// order. --apart=0: both of 96 bytes, as they lie without a hint. --apart=1: the cold ones ask for
// 112, so that they come from spans of their own, which is what a hint would do to them at best;
// the extra bytes are the price of asking so. Reports the time of a chase over the hot set, then
// the hot set's pages, which are what cannot be paged out without a fault.
#include "common.h"

#include <set>

namespace {

struct Node {
  Node* next;
  char body[88];
};

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const size_t hot = options.Count("hot", 100'000);
  const bool apart = options.Count("apart", 0) != 0;
  const uint64_t hops = options.Count("hops", 20'000'000);
  options.RejectUnknown();
  constexpr size_t kColdPerHot = 10;

  bench::Array<Node*> nodes(hot);
  for (size_t i = 0; i < hot; ++i) {
    for (size_t j = 0; j < kColdPerHot; ++j) {
      const size_t size = apart ? 112 : sizeof(Node);
      memset(bench::CheckedMalloc(size), 1, size);
    }
    nodes[i] = static_cast<Node*>(bench::CheckedMalloc(sizeof(Node)));
    memset(nodes[i], 2, sizeof(Node));
  }
  bench::Random random(1);
  for (size_t i = hot - 1; i > 0; --i) std::swap(nodes[i], nodes[random.Below(i + 1)]);
  for (size_t i = 0; i < hot; ++i) nodes[i]->next = nodes[(i + 1) % hot];

  double best = 1e9;
  Node* at = nodes[0];
  for (int round = 0; round < 5; ++round) {
    const uint64_t start = bench::NowNs();
    for (uint64_t i = 0; i < hops / 5; ++i) at = at->next;
    bench::Escape(at);
    best = std::min(best, bench::Since(start) * 1e9 / static_cast<double>(hops / 5));
  }
  std::set<uintptr_t> pages;
  for (size_t i = 0; i < hot; ++i) {
    pages.insert(reinterpret_cast<uintptr_t>(nodes[i]) >> 12);
    pages.insert((reinterpret_cast<uintptr_t>(nodes[i]) + sizeof(Node) - 1) >> 12);
  }
  bench::Report report("hotcold");
  report.Add("apart=%d hot=%zu cold=%zu", apart ? 1 : 0, hot, hot * kColdPerHot);
  report.Add("ns_per_hop=%.2f hot_pages_kib=%zu", best, pages.size() * 4);
  report.Add("rss_kib=%llu", static_cast<unsigned long long>(bench::RssKib()));
  report.Finish();
  return 0;
}
