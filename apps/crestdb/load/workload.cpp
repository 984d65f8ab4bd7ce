// Draws the requests of YCSB's mixes A to F.
#include "load/workload.h"

#include <algorithm>

namespace crest {
namespace {

struct Share {
  Operation operation;
  double share;
};
struct Mix {
  char name;
  std::string_view distribution;
  Share first, second;
};
constexpr Mix kMixes[] = {
    {'A', "zipfian", {Operation::kRead, 0.5}, {Operation::kUpdate, 0.5}},
    {'B', "zipfian", {Operation::kRead, 0.95}, {Operation::kUpdate, 0.05}},
    {'C', "zipfian", {Operation::kRead, 1}, {Operation::kRead, 0}},
    {'D', "latest", {Operation::kRead, 0.95}, {Operation::kInsert, 0.05}},
    {'E', "zipfian", {Operation::kScan, 0.95}, {Operation::kInsert, 0.05}},
    {'F', "zipfian", {Operation::kRead, 0.5}, {Operation::kReadModifyWrite, 0.5}},
};
constexpr uint8_t kLongestScan = 100;

const Mix* Find(char name) {
  for (const Mix& m : kMixes) {
    if (m.name == name) return &m;
  }
  return nullptr;
}

uint64_t Mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace

bool IsMix(char mix) { return Find(mix) != nullptr; }
std::string_view DistributionOf(char mix) { return Find(mix)->distribution; }

std::vector<Request> DrawRequests(char mix, const DistributionSpec& spec, uint64_t keys,
                                  size_t count, uint64_t seed) {
  const Mix& m = *Find(mix);
  RankSource ranks(spec, keys, seed);
  const Scatter scatter(keys);
  std::mt19937_64 random(seed ^ 0x5eed);
  std::vector<Request> requests(count);
  for (Request& r : requests) {
    const double u = std::uniform_real_distribution<double>(0, 1)(random);
    r.operation = u < m.first.share ? m.first.operation : m.second.operation;
    const uint64_t rank = ranks.Next();
    // The newest keys are those with the highest numbers, wherever they lie.
    r.key = static_cast<uint32_t>(spec.popularity == Popularity::kLatest ? rank : scatter(rank));
    r.length = static_cast<uint8_t>(1 + random() % kLongestScan);
  }
  return requests;
}

KeyText::KeyText(uint64_t number) {
  constexpr std::string_view kPrefix = "user000000";
  std::memcpy(text_.data(), kPrefix.data(), kPrefix.size());
  uint64_t rest = Mixed(number);
  for (size_t at = kBytes; at-- > kPrefix.size(); rest /= 10)
    text_[at] = static_cast<char>('0' + rest % 10);
}

void FillValue(uint64_t number, uint64_t version, size_t bytes, std::string& value) {
  const uint64_t head[2] = {number, version};
  value.resize(bytes);
  for (size_t at = 0; at < bytes; at += sizeof head)
    std::memcpy(value.data() + at, head, std::min(sizeof head, bytes - at));
}

}  // namespace crest
