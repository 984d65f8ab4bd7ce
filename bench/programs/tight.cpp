// Tight loop: allocate one object, write its first byte, free it at once. The best case of every
// cache; says what the fast path alone costs. --api=new uses operator new and sized delete.
#include <new>

#include "pairs.h"

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const char* api = options.Text("api", "malloc");
  const bench::PairsPlan plan = bench::PairsOptions(options);

  const bench::Total total =
      strcmp(api, "new") == 0
          ? bench::RunPairs(
                plan, [](size_t size) { return ::operator new(size); },
                [](char* p, size_t size) { ::operator delete(p, size); })
          : bench::RunPairs(plan, bench::CheckedMalloc, [](char* p, size_t) { free(p); });

  bench::Report report("tight");
  report.Add("size=%zu api=%s", plan.size, api);
  report.Rate(total);
  report.Finish();
  return 0;
}
