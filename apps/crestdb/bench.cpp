// One measurement of one structure. See bench.h; the numbers are explained in docs/crestdb.md.
#include "bench.h"

#include <malloc.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "load/latency.h"
#include "load/page_map.h"
#include "load/page_use.h"
#include "load/workload.h"
#include "store.h"

namespace crest {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr unsigned kTimedOneIn = 8;
constexpr uint64_t kMostKeys = 100'000'000;
constexpr uint64_t kSeed = 20260301;

struct Plan {
  const StructureName* structure;
  char mix;
  DistributionSpec distribution;
  std::string distribution_name;
  uint64_t keys, value_bytes, requests, threads;
  double seconds, run_up, window;
  bool tidy, fresh, json, repeat;
  std::string map;   // a file; empty: none
  std::string then;  // a shell command after the run-up; empty: none
  StoreOptions store;
};

strata_hot_reclaim ReclaimOf(const std::string& name) {
  constexpr std::pair<std::string_view, strata_hot_reclaim> kNames[] = {
      {"pageout", STRATA_HOT_RECLAIM_PAGEOUT},   {"cold", STRATA_HOT_RECLAIM_COLD},
      {"pressure", STRATA_HOT_RECLAIM_PRESSURE}, {"cgroup", STRATA_HOT_RECLAIM_CGROUP},
      {"damon", STRATA_HOT_RECLAIM_DAMON},       {"none", STRATA_HOT_RECLAIM_NONE}};
  for (const auto& [known, value] : kNames) {
    if (known == name) return value;
  }
  throw UsageError("--reclaim is pageout, cold, pressure, cgroup, damon or none, not '" + name +
                   "'");
}

Plan ReadPlan(Options& o) {
  Plan p;
  const std::string name = o.Text("structure", "harris-table");
  p.structure = FindStructure(name);
  if (p.structure == nullptr)
    throw UsageError("there is no structure '" + name + "'; `crestdb structures` lists them");
  const std::string mix = o.Text("ycsb", "C");
  if (mix.size() != 1 || !IsMix(static_cast<char>(mix[0] & ~0x20)))
    throw UsageError("--ycsb is A, B, C, D, E or F, not '" + mix + "'");
  p.mix = static_cast<char>(mix[0] & ~0x20);
  const double theta = o.Real("theta", 0.99, 0.01, 5);
  p.distribution_name = o.Text("distribution", DistributionOf(p.mix));
  if (!ParseDistribution(p.distribution_name, theta, &p.distribution))
    throw UsageError("there is no distribution '" + p.distribution_name + "'");
  p.keys = o.Number("keys", 1'000'000, 1, kMostKeys);
  p.value_bytes = o.Number("value", 1024, 1, kLargestValue);
  p.requests = o.Number("requests", std::max<uint64_t>(1000, p.keys / 10), 1, 1'000'000'000);
  p.threads = o.Number("threads", 2, 1, 256);
  p.seconds = o.Real("seconds", 5, 0.1, 86400);
  p.run_up = o.Real("run-up", 30, 0, 86400);
  p.window = o.Real("window", 0.5, 0.01, 3600);
  p.tidy = o.OnOff("tidy", false);
  p.fresh = o.Flag("fresh");
  p.json = o.Flag("json");
  p.repeat = o.Flag("repeat");
  p.store.expected_keys = p.keys;
  p.store.tidy = p.tidy;
  p.store.domain.target = o.Real("target", 0.01, 0.0001, 0.9);
  p.store.domain.period_ms = static_cast<uint32_t>(p.window * 1000);
  p.store.domain.reclaim = ReclaimOf(o.Text("reclaim", "pageout"));
  p.map = o.Text("map", "");
  p.then = o.Text("then", "");
  o.ExpectNoMore();
  return p;
}

// The threads that replay requests; what they count starts again with each Measure.
class Runners {
 public:
  Runners(const Plan& plan, Store& store) : plan_(plan), store_(store) {
    for (uint64_t i = 0; i < plan.threads; ++i)
      runners_.push_back(std::make_unique<Runner>(Draw(i, 0)));
    for (uint64_t i = 0; i < plan.threads; ++i)
      runners_[i]->thread = std::thread([this, i] { Run(i); });
  }
  ~Runners() {
    phase_ = kEnd;
    for (auto& r : runners_) {
      if (r->thread.joinable()) r->thread.join();
    }
  }

  void StartToMeasure() {
    pausing_ = 0;
    measured_from_ = Clock::now();
    phase_ = kMeasure;
  }
  // The threads do nothing until the next StartToMeasure.
  void Stop() {
    elapsed_ = Clock::now() - measured_from_;
    phase_ = kPause;
    while (pausing_.load(std::memory_order_acquire) != runners_.size())
      std::this_thread::sleep_for(kLookAgain);
    if (no_memory_) throw std::bad_alloc();
  }
  double OperationsPerSecond() const {
    uint64_t all = 0;
    for (const auto& r : runners_) all += r->operations;
    return static_cast<double>(all) / elapsed_.count();
  }
  Latency Latencies() const {
    Latency all;
    for (const auto& r : runners_) all.Add(r->latency);
    return all;
  }
  uint64_t missing() const {
    uint64_t all = 0;
    for (const auto& r : runners_) all += r->missing;
    return all;
  }
  // Numbers of the keys that were asked for or inserted while it was measured.
  std::vector<uint64_t> KeysUsed() const {
    std::vector<uint64_t> used;
    for (uint64_t i = 0; i < plan_.threads; ++i) {
      const Runner& r = *runners_[i];
      used.insert(used.end(), r.used.begin(), r.used.end());
      for (uint64_t n = r.inserted_before; n < r.inserted; ++n) used.push_back(Inserted(i, n));
      for (uint64_t number = 0; number < r.read_late.size(); ++number) {
        if (r.read_late[number]) used.push_back(number);
      }
    }
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    return used;
  }

 private:
  enum Phase { kRunUp, kMeasure, kPause, kEnd };
  static constexpr std::chrono::milliseconds kLookAgain{1};
  struct alignas(64) Runner {
    explicit Runner(std::vector<Request> drawn) : requests(std::move(drawn)) {}
    std::vector<Request> requests;
    std::thread thread;
    uint64_t operations = 0, missing = 0;
    uint64_t inserted = 0, inserted_before = 0;  // before it was measured
    std::vector<bool> read_late;                 // by key, of those whose age was drawn
    Latency latency;
    std::vector<uint64_t> used;

    void Begin() {
      inserted_before = inserted;
      operations = 0;
      read_late.clear();
      latency = {};
      used.clear();
    }
  };

  std::vector<Request> Draw(uint64_t thread, uint64_t loop) const {
    const size_t count = std::max<uint64_t>(1, plan_.requests / plan_.threads);
    return DrawRequests(plan_.mix, plan_.distribution, plan_.keys, count,
                        kSeed + thread * 7919 + loop * 104729);
  }

  void Run(uint64_t i) {
    Runner& r = *runners_[i];
    std::string value;
    bool measuring = false;
    size_t begun = 0, done = 0, loop = 0;
    for (size_t at = 0;; ++at) {
      if (at == r.requests.size()) {
        at = 0;
        if (plan_.fresh) {
          if (measuring) Note(r, begun, r.requests.size());
          r.requests = Draw(i, ++loop);
          begun = 0;
        }
      }
      Phase phase = phase_.load(std::memory_order_relaxed);
      if (phase == kPause) {
        if (measuring) Note(r, begun, std::min(done, r.requests.size()));
        measuring = false;
        phase = Pause();
      }
      if (phase == kEnd) return;
      if (phase == kMeasure && !measuring) {
        measuring = true;
        r.Begin();
        begun = at;
        done = 0;
      }
      const bool timed = measuring && ++done % kTimedOneIn == 0;
      const auto start = timed ? Clock::now() : Clock::time_point{};
      Do(i, r.requests[at], value, measuring);
      if (timed) {
        r.latency.Add(static_cast<uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count()));
      }
      r.operations += measuring ? 1 : 0;
    }
  }

  // Returns the phase after it.
  Phase Pause() {
    pausing_.fetch_add(1, std::memory_order_release);
    for (;;) {
      const Phase now = phase_.load(std::memory_order_acquire);
      if (now != kPause) return now;
      std::this_thread::sleep_for(kLookAgain);
    }
  }

  // The keys of `count` requests from `from` on.
  void Note(Runner& r, size_t from, size_t count) const {
    for (size_t i = 0; i < count; ++i) {
      const Request& q = r.requests[(from + i) % r.requests.size()];
      if (q.operation != Operation::kInsert && !Latest()) r.used.push_back(q.key);
    }
    std::sort(r.used.begin(), r.used.end());
    r.used.erase(std::unique(r.used.begin(), r.used.end()), r.used.end());
  }

  bool Latest() const { return plan_.distribution.popularity == Popularity::kLatest; }

  // The number of the n-th key that a thread inserts: the threads take turns.
  uint64_t Inserted(uint64_t thread, uint64_t n) const {
    return plan_.keys + n * plan_.threads + thread;
  }
  // What was the key's age when it was drawn is its age now. Of the keys that were inserted, a
  // thread asks for its own, which are there.
  uint64_t NumberNow(uint64_t thread, uint64_t drawn) const {
    const uint64_t number = drawn + runners_[thread]->inserted * plan_.threads;
    if (number < plan_.keys) return number;
    return Inserted(thread, (number - plan_.keys) / plan_.threads);
  }
  static void NoteLate(Runner& r, uint64_t number) {
    if (r.read_late.size() <= number) r.read_late.resize(number + number / 2 + 1);
    r.read_late[number] = true;
  }

  void Do(uint64_t thread, const Request& q, std::string& value, bool measuring) {
    Runner& r = *runners_[thread];
    const bool late = Latest() && q.operation != Operation::kInsert;
    const uint64_t asked = late ? NumberNow(thread, q.key) : q.key;
    if (late && measuring) NoteLate(r, asked);
    const KeyText key(asked);
    switch (q.operation) {
      case Operation::kRead:
        if (!store_.Get(key.view(), value)) ++r.missing;
        return;
      case Operation::kUpdate:
        FillValue(asked, r.operations, plan_.value_bytes, value);
        Put(key, value);
        return;
      case Operation::kReadModifyWrite:
        if (!store_.Get(key.view(), value)) ++r.missing;
        value.resize(plan_.value_bytes);
        ++value[0];
        Put(key, value);
        return;
      case Operation::kInsert: {
        const uint64_t number = Inserted(thread, r.inserted);
        FillValue(number, 0, plan_.value_bytes, value);
        Put(KeyText(number), value);
        ++r.inserted;
        return;
      }
      case Operation::kScan:
        store_.Scan(key.view(), q.length, value);
        return;
    }
  }
  void Put(const KeyText& key, const std::string& value) {
    if (!store_.Put(key.view(), value)) no_memory_.store(true, std::memory_order_relaxed);
  }

  const Plan& plan_;
  Store& store_;
  std::atomic<Phase> phase_{kRunUp};
  std::atomic<size_t> pausing_{0};      // threads that have come to a pause
  std::atomic<bool> no_memory_{false};  // for a value
  Clock::time_point measured_from_;
  Seconds elapsed_{1};
  std::vector<std::unique_ptr<Runner>> runners_;
};

void Load(const Plan& p, Store& store) {
  std::vector<std::thread> loaders;
  std::atomic<bool> failed{false};
  for (uint64_t t = 0; t < p.threads; ++t) {
    loaders.emplace_back([&, t] {
      std::string value;
      for (uint64_t n = t; n < p.keys && !failed; n += p.threads) {
        FillValue(n, 0, p.value_bytes, value);
        if (!store.Put(KeyText(n).view(), value)) failed = true;
      }
    });
  }
  for (std::thread& t : loaders) t.join();
  if (failed) throw std::bad_alloc();
}

// Until nothing moves any more, or the time is over.
void RunUp(const Plan& p, Store& store) {
  constexpr int kLeastRounds = 6, kQuietRounds = 3;
  constexpr double kPlainSeconds = 2;
  const auto sleep = [](double seconds) { std::this_thread::sleep_for(Seconds(seconds)); };
  strata::hot_domain* domain = store.domain();
  if (domain == nullptr) return sleep(std::min(p.run_up, kPlainSeconds));
  const auto until = Clock::now() + Seconds(p.run_up);
  uint64_t moves = 0;
  for (int round = 0, quiet = 0; Clock::now() < until; ++round) {
    sleep(std::min(p.window, std::max(0.0, Seconds(until - Clock::now()).count())));
    domain->collect_now();
    const uint64_t now = domain->stats().moves;
    // Some requests move what they touch in every window.
    quiet = now - moves < p.keys / 1000 ? quiet + 1 : 0;
    moves = now;
    if (round >= kLeastRounds && quiet >= kQuietRounds) break;
  }
}

double ResidentMib() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE))) / (1 << 20);
}

double Mib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void WarnWithoutSwap(const Plan& p) {
  struct sysinfo info{};
  if (p.tidy && sysinfo(&info) == 0 && info.totalswap == 0) {
    fprintf(stderr,
            "crestdb: there is no swap, so cold values stay in memory: "
            "resident_mib will not fall\n");
  }
}

// What lies where, without touching a value.
void WriteMap(const Plan& p, Store& store, const std::vector<uint64_t>& used) {
  std::unordered_set<std::string> texts;
  for (const uint64_t number : used) texts.emplace(KeyText(number).view());
  PageMap map;
  store.ForEachPlace([&](std::string_view key, const void* at) {
    map.Add(at, p.value_bytes, texts.count(std::string(key)) != 0);
  });
  map.Write(p.map);
}

void PrintJson(const Plan& p, const Runners& runners, const PageUse::Result& use, double resident,
               const strata_hot_stats_t& s) {
  const Latency latency = runners.Latencies();
  printf(
      "{\"structure\": \"%s\", \"ycsb\": \"%c\", \"distribution\": \"%s\", \"keys\": %llu, "
      "\"value\": %llu, \"threads\": %llu, \"tidy\": \"%s\", \"seconds\": %g, "
      "\"operations_per_second\": %.0f, \"p50_us\": %.3f, \"p90_us\": %.3f, \"p99_us\": %.3f, "
      "\"resident_mib\": %.1f, \"page_utilization\": %.1f, \"pages_used\": %llu, "
      "\"new_mib\": %.1f, \"hot_mib\": %.1f, \"cold_mib\": %.1f, \"moves\": %llu, "
      "\"promotion_rate\": %.5f, \"cold_after\": %u, \"collector_seconds\": %.3f, \"missing\": "
      "%llu}\n",
      std::string(p.structure->name).c_str(), p.mix, p.distribution_name.c_str(),
      static_cast<unsigned long long>(p.keys), static_cast<unsigned long long>(p.value_bytes),
      static_cast<unsigned long long>(p.threads), p.tidy ? "on" : "off", p.seconds,
      runners.OperationsPerSecond(), latency.Percentile(0.5), latency.Percentile(0.9),
      latency.Percentile(0.99), resident, use.percent, static_cast<unsigned long long>(use.pages),
      Mib(s.heap[0].bytes), Mib(s.heap[1].bytes), Mib(s.heap[2].bytes),
      static_cast<unsigned long long>(s.moves), s.promotion_rate, s.cold_after,
      static_cast<double>(s.collector_ns) / 1e9,
      static_cast<unsigned long long>(runners.missing()));
}

void PrintText(const Plan& p, const Runners& runners, const PageUse::Result& use, double resident,
               const strata_hot_stats_t& s) {
  const Latency latency = runners.Latencies();
  printf("%s, YCSB-%c, %llu keys of %zu + %llu bytes, %llu threads, tidying %s\n",
         std::string(p.structure->name).c_str(), p.mix, static_cast<unsigned long long>(p.keys),
         KeyText::kBytes, static_cast<unsigned long long>(p.value_bytes),
         static_cast<unsigned long long>(p.threads), p.tidy ? "on" : "off");
  printf("  %.0f operations a second; half within %.2f us, 90 %% within %.2f, 99 %% within %.2f\n",
         runners.OperationsPerSecond(), latency.Percentile(0.5), latency.Percentile(0.9),
         latency.Percentile(0.99));
  printf("  %.1f MiB resident; of the %llu pages with values that were used, %.1f %% were used\n",
         resident, static_cast<unsigned long long>(use.pages), use.percent);
  if (p.tidy) {
    printf("  values: %.1f MiB new, %.1f hot, %.1f cold; %llu moves, %.2f s of CPU for them\n",
           Mib(s.heap[0].bytes), Mib(s.heap[1].bytes), Mib(s.heap[2].bytes),
           static_cast<unsigned long long>(s.moves), static_cast<double>(s.collector_ns) / 1e9);
  }
}

void MeasureOnce(const Plan& p, Store& store, Runners& runners) {
  runners.StartToMeasure();
  std::this_thread::sleep_for(Seconds(p.seconds));
  const double resident = ResidentMib();
  runners.Stop();
  const strata_hot_stats_t stats =
      store.domain() == nullptr ? strata_hot_stats_t{} : store.domain()->stats();
  const std::vector<uint64_t> used = runners.KeysUsed();
  if (!p.map.empty()) WriteMap(p, store, used);
  PageUse use;
  for (const uint64_t number : used) {
    const ValueView v = store.Locate(KeyText(number).view());
    use.Add(v.data, v.size);
  }
  const PageUse::Result result = use.Sum();
  (p.json ? PrintJson : PrintText)(p, runners, result, resident, stats);
}

}  // namespace

int RunBench(Options& options) {
  const Plan p = ReadPlan(options);
  const std::unique_ptr<Store> store = p.structure->make(p.store);
  if (p.mix == 'E' && !store->ordered())
    throw UsageError("YCSB-E scans, and " + std::string(p.structure->name) + " has no order");
  WarnWithoutSwap(p);
  Load(p, *store);
  Runners runners(p, *store);
  RunUp(p, *store);
  malloc_trim(0);  // what the heap would give back by itself within a minute
  if (!p.then.empty() && system(p.then.c_str()) != 0)
    throw std::runtime_error("'" + p.then + "' failed");
  if (!p.repeat) {
    MeasureOnce(p, *store, runners);
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) {
    MeasureOnce(p, *store, runners);
    fflush(stdout);
  }
  return 0;
}

}  // namespace crest
