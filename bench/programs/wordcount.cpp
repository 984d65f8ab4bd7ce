// Word count as a pipeline of many threads: readers make blocks of text, tokenizers cut them into
// strings and count within the block, reducers merge the counts into hash maps that grow for the
// whole run. Strings and map nodes are allocated on one thread and freed on another, and the
// vocabulary's long tail keeps single objects of old blocks alive. The work is fixed by its
// options; the total must come out equal to the words that were made.
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common.h"
#include "handoff.h"
#include "words.h"

namespace {

constexpr size_t kBlock = 64 * 1024;
constexpr size_t kMaxStages = 64;
constexpr size_t kQueue = 32;
constexpr bench::WordLengths kLengths{6, 14, 40};

using Counts = std::unordered_map<std::string, uint64_t>;
using Batch = std::vector<std::pair<std::string, uint64_t>>;
using TextQueue = bench::Handoff<std::string>;
using BatchQueue = bench::Handoff<Batch>;

struct Plan {
  unsigned readers;
  unsigned tokenizers;
  unsigned reducers;
  uint64_t blocks;  // for each reader
  uint64_t vocabulary;
};

struct Shared {
  Plan plan;
  TextQueue* texts;
  BatchQueue** batches;
  Counts** counts;  // one for each reducer, written by it alone
  std::atomic<unsigned> reading;
  std::atomic<unsigned> tokenizing;
  std::atomic<uint64_t> words_made{0};
  std::atomic<uint64_t> rss_sum{0};
  std::atomic<uint64_t> rss_samples{0};
};

bench::Tally Read(Shared& shared, unsigned index) {
  bench::Tally tally;
  const uint64_t start = bench::NowNs();
  bench::Random random(index + 11);
  for (uint64_t block = 0; block < shared.plan.blocks; ++block) {
    auto* text = new std::string;
    uint64_t words = 0;
    while (text->size() < kBlock) {
      bench::AppendWord(*text, bench::WordRank(random, shared.plan.vocabulary), kLengths);
      ++words;
    }
    shared.words_made.fetch_add(words, std::memory_order_relaxed);
    tally.ops += words;
    shared.texts->Put(text);
    if (index == 0 && block % 8 == 0) {
      shared.rss_sum.fetch_add(bench::RssKib(), std::memory_order_relaxed);
      shared.rss_samples.fetch_add(1, std::memory_order_relaxed);
    }
  }
  if (shared.reading.fetch_sub(1) == 1) shared.texts->Close();
  tally.seconds = bench::Since(start);
  return tally;
}

void Tokenize(Shared& shared, const std::string& text) {
  Counts local;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find(' ', begin);
    ++local[text.substr(begin, end - begin)];
    begin = end + 1;
  }
  Batch* out[kMaxStages] = {};
  for (const auto& [word, count] : local) {
    const size_t reducer = std::hash<std::string>{}(word) / 7 % shared.plan.reducers;
    if (out[reducer] == nullptr) out[reducer] = new Batch;
    out[reducer]->emplace_back(word, count);
  }
  for (size_t i = 0; i < shared.plan.reducers; ++i) {
    if (out[i] != nullptr) shared.batches[i]->Put(out[i]);
  }
}

bench::Tally TokenizeAll(Shared& shared) {
  bench::Tally tally;
  const uint64_t start = bench::NowNs();
  std::string* text = nullptr;
  while (shared.texts->Take(&text, 1) != 0) {
    Tokenize(shared, *text);
    delete text;
  }
  if (shared.tokenizing.fetch_sub(1) == 1) {
    for (size_t i = 0; i < shared.plan.reducers; ++i) shared.batches[i]->Close();
  }
  tally.seconds = bench::Since(start);
  return tally;
}

bench::Tally Reduce(Shared& shared, size_t index) {
  bench::Tally tally;
  const uint64_t start = bench::NowNs();
  auto* counts = new Counts;
  Batch* batch = nullptr;
  while (shared.batches[index]->Take(&batch, 1) != 0) {
    for (auto& [word, count] : *batch) (*counts)[std::move(word)] += count;
    delete batch;
  }
  shared.counts[index] = counts;
  tally.seconds = bench::Since(start);
  return tally;
}

unsigned Stages(bench::Options& options, const char* name, uint64_t fallback) {
  const uint64_t count = options.Count(name, fallback);
  if (count == 0 || count > kMaxStages) bench::Die("1 to 64 threads of each kind");
  return static_cast<unsigned>(count);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  Plan plan{};
  plan.readers = Stages(options, "readers", 2);
  plan.tokenizers = Stages(options, "tokenizers", 12);
  plan.reducers = Stages(options, "reducers", 6);
  plan.vocabulary = options.Count("vocabulary", 2'000'000);
  plan.blocks =
      static_cast<uint64_t>(options.Scaled("mib", 64) * 1048576 / kBlock / plan.readers) + 1;
  options.RejectUnknown();
  if (plan.vocabulary == 0) bench::Die("--vocabulary above zero");

  TextQueue texts(kQueue);
  BatchQueue* batches[kMaxStages] = {};
  Counts* counts[kMaxStages] = {};
  for (unsigned i = 0; i < plan.reducers; ++i) batches[i] = new BatchQueue(kQueue);
  Shared shared{plan, &texts, batches, counts, plan.readers, plan.tokenizers};

  const bench::Total total =
      bench::RunThreads(plan.readers + plan.tokenizers + plan.reducers, [&](unsigned index) {
        if (index < plan.readers) return Read(shared, index);
        if (index < plan.readers + plan.tokenizers) return TokenizeAll(shared);
        return Reduce(shared, index - plan.readers - plan.tokenizers);
      });

  const uint64_t rss_kib = bench::RssKib();
  const double coverage = bench::HugepageCoverage();
  uint64_t counted = 0;
  size_t distinct = 0;
  for (unsigned i = 0; i < plan.reducers; ++i) {
    distinct += counts[i]->size();
    for (const auto& [word, count] : *counts[i]) counted += count;
    delete counts[i];
    delete batches[i];
  }
  if (counted != shared.words_made.load()) bench::Die("words were lost");

  bench::Report report("wordcount");
  report.Add("distinct=%zu", distinct);
  report.Rate(total);
  report.Add("rss_kib=%llu rss_mean_kib=%llu", static_cast<unsigned long long>(rss_kib),
             static_cast<unsigned long long>(shared.rss_sum.load() / shared.rss_samples.load()));
  report.Add("coverage=%.4f", coverage);
  report.Finish();
  return 0;
}
