// A load: word count by map, shuffle and reduce on hundreds of threads. Readers make documents of
// text, mappers cut them into strings and count within the document, reducers merge the counts into
// dictionaries that last, and keep a digest of each document. All else is dropped at the next
// stage. The burst has documents eight times as large, so that the queues swell.
//   pipeline [--quick=1] [--scale=1] [--rest=4] [--readers=32] [--mappers=128] [--reducers=64]
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../programs/handoff.h"
#include "../programs/words.h"
#include "phases.h"

namespace {

constexpr size_t kMostReducers = 128;
constexpr size_t kQueue = 64;
constexpr size_t kDocument = 16 * 1024;
constexpr uint64_t kVocabulary = 3'000'000;
constexpr bench::WordLengths kLengths{8, 24, 60};

struct Job {
  uint64_t number;
  size_t bytes;
};

struct Document {
  uint64_t number;
  std::string text;
};

using Counts = std::unordered_map<std::string, uint32_t>;

// What one document has for one reducer.
struct Batch {
  uint64_t document;
  std::vector<std::pair<std::string, uint32_t>> words;
};

struct Entry {
  uint64_t count = 0;
  uint64_t first_seen = 0;
};

struct Shared {
  unsigned reducers;
  bench::Handoff<Job>* jobs;
  bench::Handoff<Document>* documents;
  bench::Handoff<Batch>* batches[kMostReducers];
  size_t distinct[kMostReducers];
  double coverage;  // of hugepages, at the end of the burst
  std::atomic<unsigned> readers;
  std::atomic<unsigned> mappers;
  std::atomic<uint64_t> pending{0};  // batches that are expected and not yet merged
  std::atomic<uint64_t> made{0};
  std::atomic<uint64_t> counted{0};
};

void Read(Shared& shared) {
  Job* job = nullptr;
  while (shared.jobs->Take(&job, 1) != 0) {
    auto* document = new Document{job->number, {}};
    bench::Random random(job->number + 11);
    uint64_t words = 0;
    for (; document->text.size() < job->bytes; ++words) {
      bench::AppendWord(document->text, bench::WordRank(random, kVocabulary), kLengths);
    }
    shared.made.fetch_add(words, std::memory_order_relaxed);
    delete job;
    shared.documents->Put(document);
  }
  if (shared.readers.fetch_sub(1) == 1) shared.documents->Close();
}

// Every reducer gets a batch of every document, an empty one too: so it is known what is pending.
void Map(Shared& shared) {
  Document* document = nullptr;
  while (shared.documents->Take(&document, 1) != 0) {
    Counts local;
    const std::string& text = document->text;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find(' ', begin);
      ++local[text.substr(begin, end - begin)];
      begin = end + 1;
    }
    std::vector<std::unique_ptr<Batch>> out(shared.reducers);
    for (auto& batch : out) batch = std::make_unique<Batch>(Batch{document->number, {}});
    for (const auto& [word, count] : local) {
      out[std::hash<std::string>{}(word) / 7 % shared.reducers]->words.emplace_back(word, count);
    }
    delete document;
    for (unsigned i = 0; i < shared.reducers; ++i) shared.batches[i]->Put(out[i].release());
  }
  if (shared.mappers.fetch_sub(1) == 1) {
    for (unsigned i = 0; i < shared.reducers; ++i) shared.batches[i]->Close();
  }
}

void Reduce(Shared& shared, unsigned index) {
  std::unordered_map<std::string, Entry> dictionary;
  std::vector<std::unique_ptr<std::string>> digests;
  Batch* batch = nullptr;
  while (shared.batches[index]->Take(&batch, 1) != 0) {
    uint64_t total = 0;
    const std::string* longest = nullptr;
    for (const auto& [word, count] : batch->words) {
      Entry& entry = dictionary[word];  // copies the word if it is new
      if (entry.count == 0) entry.first_seen = batch->document;
      entry.count += count;
      total += count;
      if (longest == nullptr || word.size() > longest->size()) longest = &word;
    }
    if (longest != nullptr) {
      digests.push_back(std::make_unique<std::string>(std::to_string(total) + " " + *longest));
    }
    delete batch;
    shared.counted.fetch_add(total, std::memory_order_relaxed);
    if (shared.pending.fetch_sub(1) == 1) shared.pending.notify_all();
  }
  shared.distinct[index] = dictionary.size();
}

void Feed(Shared& shared, bench::Phases& phases, uint64_t& number, uint64_t count, size_t bytes) {
  const uint64_t before = shared.counted.load();
  shared.pending.fetch_add(count * shared.reducers);
  for (uint64_t i = 0; i < count; ++i) shared.jobs->Put(new Job{number++, bytes});
  while (const uint64_t left = shared.pending.load()) shared.pending.wait(left);
  phases.Worked(shared.counted.load() - before);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const bool quick = options.Count("quick", 0) != 0;
  const auto readers = static_cast<unsigned>(options.Count("readers", 32));
  const auto mappers = static_cast<unsigned>(options.Count("mappers", 128));
  const auto reducers = static_cast<unsigned>(options.Count("reducers", 64));
  const auto documents = static_cast<uint64_t>(options.Scaled("documents", quick ? 400 : 14000));
  const double rest = options.Number("rest", quick ? 0.5 : 4);
  options.RejectUnknown();
  const unsigned threads = readers + mappers + reducers;
  if (readers == 0 || mappers == 0 || reducers == 0 || reducers > kMostReducers ||
      threads + 1 > bench::kMaxThreads || documents < 10)
    bench::Die("at most 255 threads, 128 of them reducers; at least 10 documents");

  bench::Handoff<Job> jobs(kQueue);
  bench::Handoff<Document> texts(kQueue);
  Shared shared{reducers, &jobs, &texts, {}, {}, 0, readers, mappers};
  for (unsigned i = 0; i < reducers; ++i) shared.batches[i] = new bench::Handoff<Batch>(kQueue);
  bench::Phases phases("pipeline");

  bench::RunThreads(threads + 1, [&](unsigned index) {
    if (index < readers) {
      Read(shared);
    } else if (index < readers + mappers) {
      Map(shared);
    } else if (index < threads) {
      Reduce(shared, index - readers - mappers);
    } else {
      uint64_t number = 0;
      phases.Begin("warm-up", false);
      Feed(shared, phases, number, documents / 10, kDocument);
      phases.Begin("load", true);
      Feed(shared, phases, number, documents, kDocument);
      phases.Begin("burst", true);
      Feed(shared, phases, number, documents / 20, 8 * kDocument);
      shared.coverage = bench::HugepageCoverage();
      phases.Rest(rest);
      jobs.Close();
    }
    return bench::Tally{};
  });

  size_t distinct = 0;
  for (unsigned i = 0; i < reducers; ++i) {
    distinct += shared.distinct[i];
    delete shared.batches[i];
  }
  if (shared.counted.load() != shared.made.load()) bench::Die("words were lost");

  bench::Report report(phases.program());
  report.Add("threads=%u distinct=%zu coverage=%.4f", threads, distinct, shared.coverage);
  phases.AddTo(report);
  report.Finish();
  return 0;
}
