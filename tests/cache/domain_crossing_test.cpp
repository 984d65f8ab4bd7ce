// A cost model of cache domains: the real tiers over a fake topology, a load whose objects are
// mostly handed on within a domain, and a count of the objects that were freed in one domain and
// allocated next in another. Such an object's lines come from the other domain's cache, which the
// warehouse study measured at 2.07 times the latency within one (Figure 11). Prints a table.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "../hugepage/test_arena.h"
#include "cache/cpu_cache.h"
#include "cache/domain_transfer_cache.h"
#include "fake_ops.h"
#include "fake_transfer.h"

namespace strata::test {
namespace {

constexpr double kCrossingCost = 2.07;

struct CurrentCpu {
  static inline size_t cpu = 0;
  static size_t Cpu() { return cpu; }
};

struct Outcome {
  size_t reused = 0;  // allocations of objects that were freed before
  size_t crossed = 0;
  double CrossedShare() const { return static_cast<double>(crossed) / static_cast<double>(reused); }
  // Mean latency of the first touch, in units of a transfer within a domain.
  double Cost() const { return 1 + CrossedShare() * (kCrossingCost - 1); }
};

// Messages: a CPU allocates some, hands them to another, mostly of its own domain, which frees
// them. `stay` of 100 stay in the domain.
Outcome Simulate(size_t domains, size_t cpus_each, unsigned stay, bool by_domain) {
  const size_t cpus = domains * cpus_each;
  CacheTopology topology;
  std::string text;
  for (size_t d = 0; d < domains; ++d) {
    text += (d == 0 ? "" : ";") + std::to_string(d * cpus_each) + "-" +
            std::to_string((d + 1) * cpus_each - 1);
  }
  STRATA_CHECK(ParseCacheDomains(by_domain ? text.c_str() : "0", topology));

  using Shared = TransferCache<FakeTransfer>;
  using Domains = DomainTransferCache<Shared, CurrentCpu>;
  TestArena memory;
  FakeTransfer central;
  Shared shared;
  shared.Init(&central, &memory.arena());
  Domains transfer;
  transfer.Init(&shared, &memory.arena());
  transfer.SetTopology(topology);
  FakeCpus slabs(cpus);
  const FakeOps ops{&slabs};
  CpuCache<FakeOps, Domains> cache;
  STRATA_CHECK(cache.Init(ops, &transfer, &memory.arena(), slabs.slabs(), cpus, 64 << 10));

  const SizeClass classes[] = {ClassOfSize(64), ClassOfSize(256), ClassOfSize(1024)};
  std::mt19937 random(static_cast<unsigned>(domains * 100 + stay));
  std::unordered_map<void*, size_t> freed_in;
  Outcome out;
  const auto on = [&](size_t cpu) { slabs.current = CurrentCpu::cpu = cpu; };
  for (int step = 0; step < 6000; ++step) {
    const size_t from = random() % cpus;
    const SizeClass c = classes[random() % 3];
    on(from);
    std::vector<void*> messages(1 + random() % 60);
    for (void*& p : messages) {
      p = ops.Pop(c);
      if (p == nullptr) p = cache.PopSlow(c);
      const auto it = freed_in.find(p);
      if (it == freed_in.end()) continue;
      ++out.reused;
      out.crossed += it->second != from / cpus_each;
    }
    const size_t domain = random() % 100 < stay ? from / cpus_each : random() % domains;
    const size_t to = domain * cpus_each + random() % cpus_each;
    on(to);
    for (void* p : messages) {
      if (ops.Push(c, p) != PushResult::kPushed) STRATA_CHECK(cache.PushSlow(c, p));
      freed_in[p] = to / cpus_each;
    }
    if (step % 500 == 0) transfer.Tick();
  }
  return out;
}

TEST(DomainCrossing, FewerObjectsChangeTheirDomain) {
  printf(
      "domains  cpus each  stay %%   crossed without  with     first touch costs without  with\n");
  for (const auto& [domains, each, stay] :
       {std::tuple{size_t{2}, size_t{8}, 95u}, {4, 4, 95u}, {8, 4, 95u}, {2, 8, 50u}}) {
    const Outcome without = Simulate(domains, each, stay, false);
    const Outcome with = Simulate(domains, each, stay, true);
    printf("%7zu %10zu %7u %16.1f%% %5.1f%% %25.2f %6.2f\n", domains, each, stay,
           without.CrossedShare() * 100, with.CrossedShare() * 100, without.Cost(), with.Cost());
    ASSERT_GT(without.reused, 50'000u);
    EXPECT_LT(with.CrossedShare(), without.CrossedShare() / 2);
    EXPECT_LT(with.Cost(), without.Cost());
  }
}

}  // namespace
}  // namespace strata::test
