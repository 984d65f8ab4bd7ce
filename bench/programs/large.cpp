// Large blocks: random replacement over a few slots of 20 KB to 2 MB. --touch=ends writes the first
// and the last byte; --touch=pages writes one byte in each 4 KiB page, so that blocks that came
// from the kernel pay for their faults.
#include "common.h"

namespace {

struct Shape {
  size_t slots;
  uint64_t low;
  uint64_t high;
  bool touch_pages;
};

char* NewBlock(bench::Random& random, const Shape& shape) {
  const size_t size = random.Between(shape.low, shape.high);
  auto* p = static_cast<char*>(bench::CheckedMalloc(size));
  if (shape.touch_pages) {
    for (size_t at = 0; at < size; at += 4096) p[at] = 1;
  }
  p[0] = 1;
  p[size - 1] = 1;
  return p;
}

bench::Tally Work(const Shape& shape, double seconds, uint64_t seed) {
  constexpr uint64_t kChunk = 32;
  constexpr uint64_t kWarmUp = 8;  // replacements a slot before the clock starts
  bench::Random random(seed);
  bench::Array<char*> blocks(shape.slots);
  for (size_t i = 0; i < shape.slots; ++i) blocks[i] = NewBlock(random, shape);
  const auto replace = [&](uint64_t count) {
    for (uint64_t k = 0; k < count; ++k) {
      char*& slot = blocks[random.Below(shape.slots)];
      free(slot);
      slot = NewBlock(random, shape);
    }
    return count;
  };
  replace(kWarmUp * shape.slots);
  const bench::Tally tally = bench::RunFor(seconds, [&] { return replace(kChunk); });
  for (size_t i = 0; i < shape.slots; ++i) free(blocks[i]);
  return tally;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto threads = static_cast<unsigned>(options.Count("threads", 1));
  const size_t slots = options.Count("slots", 64);
  const double seconds = options.Scaled("seconds", 1.0);
  const char* touch = options.Text("touch", "ends");
  const uint64_t low = options.Count("min", 20'000);
  const uint64_t high = options.Count("max", 2'000'000);
  options.RejectUnknown();
  if (threads == 0 || slots / threads == 0) bench::Die("at least one slot a thread");
  if (low == 0 || high < low) bench::Die("--min must be 1 to --max");
  const Shape shape{slots / threads, low, high, strcmp(touch, "pages") == 0};

  const bench::Total total =
      bench::RunThreads(threads, [&](unsigned index) { return Work(shape, seconds, index + 1); });

  bench::Report report("large");
  report.Add("slots=%zu touch=%s", slots, touch);
  report.Rate(total);
  report.Finish();
  return 0;
}
