// Tight loop: allocate one object, write its first byte, free it at once. The best case of every
// cache; says what the fast path alone costs. --api=new uses operator new and sized delete.
#include <new>

#include "common.h"

namespace {

constexpr uint64_t kChunk = 4096;  // pairs between two looks at the clock

uint64_t MallocPairs(size_t size) {
  for (uint64_t i = 0; i < kChunk; ++i) {
    auto* p = static_cast<char*>(bench::CheckedMalloc(size));
    *p = 1;
    bench::Escape(p);
    free(p);
  }
  return kChunk;
}

uint64_t NewPairs(size_t size) {
  for (uint64_t i = 0; i < kChunk; ++i) {
    auto* p = static_cast<char*>(::operator new(size));
    *p = 1;
    bench::Escape(p);
    ::operator delete(p, size);
  }
  return kChunk;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const size_t size = options.Count("size", 64);
  const auto threads = static_cast<unsigned>(options.Count("threads", 1));
  const double seconds = options.Scaled("seconds", 1.0);
  const char* api = options.Text("api", "malloc");
  options.RejectUnknown();
  if (size == 0) bench::Die("--size must be above zero");
  const bool sized = strcmp(api, "new") == 0;

  const bench::Total total = bench::RunThreads(threads, [&](unsigned) {
    return bench::RunFor(seconds, [&] { return sized ? NewPairs(size) : MallocPairs(size); });
  });

  bench::Report report("tight");
  report.Add("size=%zu api=%s", size, api);
  report.Rate(total);
  report.Finish();
  return 0;
}
