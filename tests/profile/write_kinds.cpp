// Writes one kind of profile of a day that is always the same to stdout, for the goldens:
//   write_kinds KIND MAPS [window]
// A sampler is told what happens, by a clock that is a number; MAPS is the text of /proc/PID/maps.
// With `window`, the profile begins twenty seconds into the day. tests/profile/test_golden.py knows
// the day too, and what the figures must be.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "profile/sample_profiles.h"
#include "sample_fixture.h"

namespace {

using namespace strata;

constexpr size_t kInterval = 256;
constexpr uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;
constexpr size_t kRequest = 200, kPage = 4096, kPlugin = 1 << 20;

// Innermost first, in the mappings of golden/maps.txt.
using Stack = std::vector<uintptr_t>;
const Stack kServe = {0x460010, 0x455000, 0x7f1000028100};
const Stack kCache = {0x470020, 0x455000, 0x7f1000028100};
const Stack kLoad = {0x7f1000200010, 0x456000};

class Day {
 public:
  Sampler& sampler() { return heap_->sampler; }
  uint64_t now_ns() const { return heap_->now_ns; }

  uintptr_t Take(size_t size, const Stack& stack) {
    const uintptr_t block = next_;
    next_ += RoundUp(size, kPageSize);
    const double expected = static_cast<double>(size) / kInterval;
    sampler().Add(heap_->At(block), size, expected, stack.data(), stack.size());
    return block;
  }
  void Give(uintptr_t block, uint32_t thread, uint32_t cpu) {
    sampler().Remove({block, now_ns(), thread, cpu});
  }
  void Grow(uintptr_t block, size_t from, size_t to) {
    sampler().Move(block, block, to, static_cast<double>(to - from) / kInterval);
  }
  void Pass(uint64_t ns) { heap_->now_ns += ns; }

  // 20 s: a cache that stays, requests of 1 to 50 ms of which another thread frees each second, and
  // a plugin that makes the peak.
  void Morning() {
    std::vector<uintptr_t> cached, plugin;
    for (int i = 0; i < 30; ++i) cached.push_back(Take(kPage, kCache));
    for (int i = 0; i < 4; ++i) plugin.push_back(Take(kPlugin, kLoad));
    for (uint32_t i = 1; i <= 50; ++i) {
      const uintptr_t request = Take(kRequest, kServe);
      Pass(i * kMs);
      Give(request, 1 + i % 2, 0);
    }
    for (const uintptr_t block : plugin) Give(block, 1, 0);
    Grow(cached[0], kPage, 2 * kPage);
    Pass(20 * kSecond - now_ns());
  }

  // Ten requests of 2 ms, freed on another CPU; two that nobody frees, just before the end.
  void Afternoon() {
    for (int i = 0; i < 10; ++i) {
      const uintptr_t request = Take(kRequest, kServe);
      Pass(2 * kMs);
      Give(request, 1, 3);
    }
    Pass(130 * kSecond - now_ns());
    for (int i = 0; i < 2; ++i) Take(kRequest, kServe);
  }

 private:
  // The page map of 64 Ki pages is large for a stack.
  std::unique_ptr<test::SampledHeap> heap_ = std::make_unique<test::SampledHeap>(kInterval);
  uintptr_t next_ = test::SampledHeap::kBase;
};

// What a heap would say of each block.
PinnedBytes Pins(void*, uintptr_t) { return {64, 1024}; }

}  // namespace

int main(int argc, char** argv) {
  ProfileKind kind;
  if (argc < 3 || !FindProfileKind(argv[1], kind)) {
    std::cerr << "usage: write_kinds KIND MAPS [window]\n";
    return 2;
  }
  std::ifstream file(argv[2], std::ios::binary);
  const std::string maps((std::istreambuf_iterator<char>(file)), {});
  const bool window = argc > 3;

  Day day;
  day.Morning();
  SampleSnapshot since;
  if (!since.Take(day.sampler(), kind, day.now_ns())) return 1;
  day.Afternoon();

  NoMemory nothing;
  const ProfileShape shape = ShapeOf(kind);
  PprofHeader header;
  header.time_ns = 1'790'000'000'000'000'000;
  header.duration_ns = window ? 110'000'000'000 : 0;
  header.period_type = {"space", "bytes"};
  header.period = kInterval;
  header.default_type = shape.default_type;
  header.mappings = {maps.data(), maps.size(), &nothing, 1};
  PprofWriter writer(STDOUT_FILENO, shape.types, shape.types_n, header);
  AddProfileRows(writer, kind, day.sampler(), window ? &since : nullptr, day.now_ns(),
                 {Pins, nullptr});
  if (writer.Finish()) return 0;
  std::cerr << strerror(errno) << "\n";
  return 1;
}
