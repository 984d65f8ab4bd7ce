// The machine's own ceiling: threadtest's loop over a list of free blocks that each thread has to
// itself, in memory of its own, without a lock. Nothing is shared, so what two threads do here more
// than one is all that the machine has to give; other programs' speed-ups are read against it.
// Takes threadtest's options. --work computes so many turns for each call, in registers and with
// four independent chains, which keeps a core's units as busy as an allocator's fast path does:
// of two CPUs that share a core, the list alone, which waits for memory, would not tell.
#include "common.h"

namespace {

struct Block {
  Block* next;
};

// The blocks of a thread, in order of address: the newest freed is taken first.
class FreeBlocks {
 public:
  FreeBlocks(size_t count, size_t size) : memory_(count * size) {
    for (size_t i = count; i-- > 0;) Give(&memory_[i * size]);
  }
  [[gnu::noinline]] char* Take() {
    Block* b = first_;
    first_ = b->next;
    return reinterpret_cast<char*>(b);
  }
  [[gnu::noinline]] void Give(char* p) {
    auto* b = reinterpret_cast<Block*>(p);
    b->next = first_;
    first_ = b;
  }

 private:
  bench::Array<char> memory_;
  Block* first_ = nullptr;
};

uint64_t Compute(uint64_t turns, uint64_t seed) {
  uint64_t a = seed, b = seed + 1, c = seed + 2, d = seed + 3;
  for (uint64_t i = 0; i < turns; ++i) {
    a += a << 3 ^ i;
    b += b << 5 ^ i;
    c += c << 7 ^ i;
    d += d << 9 ^ i;
  }
  return a ^ b ^ c ^ d;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const auto threads = static_cast<unsigned>(options.Count("threads", 1));
  const size_t size = (options.Count("size", 8) + 15) / 16 * 16;
  const size_t count = options.Count("count", 100'000);
  const uint64_t work = options.Count("work", 0);
  const double seconds = options.Scaled("seconds", 1.0);
  options.RejectUnknown();
  if (threads == 0 || count / threads == 0) bench::Die("at least one object a thread");
  const size_t share = count / threads;

  const bench::Total total = bench::RunThreads(threads, [&](unsigned) {
    bench::Array<char*> objects(share);
    FreeBlocks blocks(share, size);
    uint64_t result = 0;
    const auto pass = [&]() -> uint64_t {
      for (size_t i = 0; i < share; ++i) {
        result += Compute(work, result);
        objects[i] = blocks.Take();
        *objects[i] = 1;
      }
      for (size_t i = 0; i < share; ++i) {
        result += Compute(work, result);
        blocks.Give(objects[i]);
      }
      bench::Escape(&result);
      return share;
    };
    pass();
    return bench::RunFor(seconds, pass);
  });

  bench::Report report("alone");
  report.Add("size=%zu count=%zu work=%llu", size, count, static_cast<unsigned long long>(work));
  report.Rate(total);
  report.Finish();
  return 0;
}
