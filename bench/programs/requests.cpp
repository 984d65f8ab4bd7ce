// A request server in one process: clients send requests through queues to workers and wait for the
// answers, a window of them at a time. Requests are allocated by clients and freed by workers,
// answers the other way round. A worker keeps the sessions of its shard: some live for one request,
// some for part of a phase, some for the whole run, so long-lived objects get mixed into pages of
// short-lived ones. The load swings: in a peak phase clients talk to many sessions, in a valley to
// few, and idle sessions expire. Phases and lifetimes are counted in requests, so every allocator
// does the same work. Reports throughput, latency, and RSS at the end of the phases.
#include <malloc.h>

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "common.h"
#include "handoff.h"

namespace {

constexpr size_t kMaxSide = 64;
constexpr size_t kTake = 16;
constexpr uint64_t kExpireEvery = 2048;  // requests between two looks for idle sessions
constexpr size_t kMaxHistory = 24;

struct Request {
  uint64_t session;
  uint64_t sent_ns;
  unsigned client;
  std::string body;
};

struct Answer {
  uint64_t sent_ns;
  std::string text;
};

struct Session {
  uint64_t last = 0;  // the worker's count of requests at its last one
  uint64_t keep = 0;  // requests of others after which it expires
  std::map<std::string, std::string> fields;
  std::vector<std::string> history;
};

using RequestQueue = bench::Handoff<Request>;
using AnswerQueue = bench::Handoff<Answer>;

struct Plan {
  unsigned clients;
  unsigned workers;
  uint64_t window;
  uint64_t peak_sessions;
  uint64_t valley_sessions;
  uint64_t phase_requests;  // for each client
  uint64_t phases;
};

// Latencies in steps of one eighth of an octave: 512 counters and no allocation.
class Histogram {
 public:
  void Add(uint64_t ns) {
    const unsigned log = 63 - static_cast<unsigned>(__builtin_clzll(ns | 8));
    ++counts_[log * 8 + ((ns >> (log - 3)) & 7)];
    ++total_;
  }
  void Add(const Histogram& other) {
    for (size_t i = 0; i < 512; ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
  }
  double QuantileUs(double q) const {
    uint64_t left = static_cast<uint64_t>(static_cast<double>(total_) * q);
    for (size_t i = 0; i < 512; ++i) {
      if (counts_[i] > left) {
        return static_cast<double>((8 + i % 8) << (i / 8)) / 8 / 1000;
      }
      left -= counts_[i];
    }
    return 0;
  }

 private:
  uint64_t counts_[512] = {};
  uint64_t total_ = 0;
};

struct Shared {
  Plan plan;
  uint64_t start_ns;
  RequestQueue** requests;
  AnswerQueue** answers;
  bench::Array<Histogram>* latencies;  // one for each client
  std::atomic<unsigned> sending;
  std::atomic<uint64_t> sessions{0};
  uint64_t rss_peak_kib = 0;  // the rest: client 0 alone
  uint64_t rss_valley_kib = 0;
  double coverage_peak = 0;
  double coverage_valley = 0;
  uint64_t rss_trimmed_kib = 0;  // after malloc_trim in the last valley: what fragmentation holds
  uint64_t rss_sum = 0;
  uint64_t rss_samples = 0;
};

std::string RandomText(bench::Random& random, uint64_t low, uint64_t high) {
  // Cubed uniform: most texts are short, most bytes are in long ones.
  const uint64_t u = random.Below(1024);
  return std::string(low + (high - low) * u * u * u / (1024ull * 1024 * 1024), 'x');
}

// Follows from the number, so that a session which comes back lives as long as before.
uint64_t KeepFor(uint64_t session, const Plan& plan) {
  const uint64_t phase = plan.phase_requests * plan.clients / plan.workers;  // a worker's part
  const uint64_t kind = session * 0x9E3779B97F4A7C15u >> 58;
  if (kind < 16) return 1;
  if (kind < 63) return phase / 2;
  return ~uint64_t{0};
}

void Touch(Session& session, const Request& request, bench::Random& random) {
  session.fields["key" + std::to_string(random.Below(12))] = request.body;
  session.history.push_back(RandomText(random, 16, 600));
  if (session.history.size() > kMaxHistory) {
    session.history.erase(session.history.begin(), session.history.begin() + kMaxHistory / 2);
  }
}

// Builds the answer as a server does: small strings joined into a larger one.
Answer* Serve(Session& session, const Request& request) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : session.fields) parts.push_back(key + "=" + value);
  auto* answer = new Answer{request.sent_ns, {}};
  for (const std::string& part : parts) {
    answer->text += part;
    answer->text += '\n';
  }
  return answer;
}

bench::Tally Work(Shared& shared, unsigned index) {
  bench::Tally tally;
  const uint64_t start = bench::NowNs();
  bench::Random random(index + 101);
  std::unordered_map<uint64_t, Session> sessions;
  Request* batch[kTake];
  while (const size_t taken = shared.requests[index]->Take(batch, kTake)) {
    for (size_t i = 0; i < taken; ++i) {
      Request* request = batch[i];
      Session& session = sessions[request->session];
      session.keep = KeepFor(request->session, shared.plan);
      session.last = tally.ops;
      Touch(session, *request, random);
      shared.answers[request->client]->Put(Serve(session, *request));
      delete request;
      if (++tally.ops % kExpireEvery == 0) {
        std::erase_if(sessions, [&](const auto& entry) {
          return tally.ops - entry.second.last > entry.second.keep;
        });
      }
    }
  }
  shared.sessions.fetch_add(sessions.size());
  tally.seconds = bench::Since(start);
  tally.ops = 0;  // the clients count
  return tally;
}

void Send(Shared& shared, unsigned client, uint64_t phase, bench::Random& random) {
  const bool peak = phase % 2 == 0;
  const uint64_t range = peak ? shared.plan.peak_sessions : shared.plan.valley_sessions;
  // A phase talks to sessions of its own beside the common ones, so each peak has new ones.
  const uint64_t base = peak ? phase * shared.plan.peak_sessions / 4 : 0;
  const uint64_t session = base + random.Below(range);
  auto* request = new Request{session, bench::NowNs(), client, RandomText(random, 24, 1500)};
  shared.requests[session % shared.plan.workers]->Put(request);
}

// Client 0 looks at the process: RSS all the time, hugepages once at the end of each phase.
void Look(Shared& shared, uint64_t phase, bool ends) {
  const uint64_t rss = bench::RssKib();
  shared.rss_sum += rss;
  ++shared.rss_samples;
  if (!ends) return;
  (phase % 2 == 0 ? shared.rss_peak_kib : shared.rss_valley_kib) += rss;
  (phase % 2 == 0 ? shared.coverage_peak : shared.coverage_valley) += bench::HugepageCoverage();
}

bench::Tally Ask(Shared& shared, unsigned index) {
  bench::Tally tally;
  bench::Random random(index + 1);
  Answer* batch[kTake];
  uint64_t open = 0;
  uint64_t next_look = 0;
  for (uint64_t phase = 0; phase < shared.plan.phases; ++phase) {
    for (uint64_t answered = 0; answered < shared.plan.phase_requests;) {
      for (; open < shared.plan.window; ++open) Send(shared, index, phase, random);
      const size_t taken = shared.answers[index]->Take(batch, kTake);
      const uint64_t now = bench::NowNs();
      for (size_t i = 0; i < taken; ++i) {
        (*shared.latencies)[index].Add(now - batch[i]->sent_ns);
        delete batch[i];
      }
      open -= taken;
      answered += taken;
      if (index == 0 && now > next_look) {
        Look(shared, phase, false);
        next_look = now + 20'000'000;
      }
    }
    tally.ops += shared.plan.phase_requests;
    if (index == 0) Look(shared, phase, true);
  }
  tally.seconds = bench::Since(shared.start_ns);
  if (index == 0) {
    malloc_trim(0);
    shared.rss_trimmed_kib = bench::RssKib();
  }
  while (open != 0) {
    const size_t taken = shared.answers[index]->Take(batch, kTake);
    for (size_t i = 0; i < taken; ++i) delete batch[i];
    open -= taken;
  }
  if (shared.sending.fetch_sub(1) == 1) {
    for (unsigned i = 0; i < shared.plan.workers; ++i) shared.requests[i]->Close();
  }
  return tally;
}

unsigned Side(bench::Options& options, const char* name, uint64_t fallback) {
  const uint64_t count = options.Count(name, fallback);
  if (count == 0 || count > kMaxSide) bench::Die("1 to 64 threads of each kind");
  return static_cast<unsigned>(count);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  Plan plan{};
  plan.clients = Side(options, "clients", 2);
  plan.workers = Side(options, "workers", 8);
  plan.window = options.Count("window", 64);
  plan.peak_sessions = options.Count("peak", 100'000);
  plan.valley_sessions = options.Count("valley", 1'000);
  plan.phase_requests = static_cast<uint64_t>(options.Scaled("requests", 350'000)) / plan.clients;
  const uint64_t cycles = options.Count("cycles", 1);
  plan.phases = 2 * cycles;
  options.RejectUnknown();
  if (plan.window == 0 || plan.peak_sessions < 4 || plan.valley_sessions == 0 || cycles == 0 ||
      plan.phase_requests == 0) {
    bench::Die("--window, --peak, --valley, --requests and --cycles above zero");
  }

  // Room for everything that can be under way: a Put never waits, so no cycle of waits can arise.
  const size_t room = plan.clients * plan.window + 1;
  RequestQueue* requests[kMaxSide] = {};
  AnswerQueue* answers[kMaxSide] = {};
  for (unsigned i = 0; i < plan.workers; ++i) requests[i] = new RequestQueue(room);
  for (unsigned i = 0; i < plan.clients; ++i) answers[i] = new AnswerQueue(room);
  bench::Array<Histogram> latencies(plan.clients);
  Shared shared{plan, bench::NowNs(), requests, answers, &latencies, plan.clients};

  const bench::Total total = bench::RunThreads(plan.clients + plan.workers, [&](unsigned index) {
    return index < plan.clients ? Ask(shared, index) : Work(shared, index - plan.clients);
  });

  Histogram all;
  for (unsigned i = 0; i < plan.clients; ++i) all.Add(latencies[i]);
  for (RequestQueue* queue : requests) delete queue;
  for (AnswerQueue* queue : answers) delete queue;

  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  bench::Report report("requests");
  report.Add("sessions=%llu", number(shared.sessions.load()));
  report.Rate(total);
  report.Add("ops_s=%.0f p50_us=%.1f p99_us=%.1f", static_cast<double>(total.ops) / total.longest,
             all.QuantileUs(0.5), all.QuantileUs(0.99));
  report.Add("rss_peak_kib=%llu rss_valley_kib=%llu rss_mean_kib=%llu",
             number(shared.rss_peak_kib / cycles), number(shared.rss_valley_kib / cycles),
             number(shared.rss_sum / (shared.rss_samples == 0 ? 1 : shared.rss_samples)));
  report.Add("rss_trimmed_kib=%llu", number(shared.rss_trimmed_kib));
  report.Add("coverage=%.4f coverage_valley=%.4f",
             shared.coverage_peak / static_cast<double>(cycles),
             shared.coverage_valley / static_cast<double>(cycles));
  report.Finish();
  return 0;
}
