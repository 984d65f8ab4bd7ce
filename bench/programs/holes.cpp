// What a free costs among many holes: blocks are taken, then freed one after the other, by glibc's
// malloc, a reap, plain free in a scope and Strata's malloc, in turn, each with the same sizes in
// the same order.
//   --load=random  blocks of 1 to 64 bytes, freed in random order
//   --load=every   blocks of 512 to 1023 bytes, of which every second one is freed
//   --load=order   blocks of 1 to 64 bytes, freed in the order in which they were taken
//   --blocks=N     how many
// Prints the least of --rounds, in ns a free. build/bench/holes --load=random --blocks=1e6
// build flags: -lstrata
#include <dlfcn.h>

#include <utility>

#include "common.h"
#include "strata/reap.h"
#include "strata/scope.h"

namespace {

class Glibc {
 public:
  void* Take(size_t size) { return malloc_(size); }
  void Free(void* p) { free_(p); }

 private:
  void* libc_ = dlopen("libc.so.6", RTLD_NOW);
  void* (*malloc_)(size_t) = reinterpret_cast<void* (*)(size_t)>(dlsym(libc_, "malloc"));
  void (*free_)(void*) = reinterpret_cast<void (*)(void*)>(dlsym(libc_, "free"));
};

class Reap {
 public:
  ~Reap() { strata_reap_destroy(reap_); }
  void* Take(size_t size) { return strata_reap_malloc(reap_, size); }
  void Free(void* p) { strata_reap_free(reap_, p); }

 private:
  strata_reap* reap_ = strata_reap_create(nullptr);
};

class Scope {
 public:
  Scope() : outer_(strata_scope_enter(scope_)) {}
  ~Scope() {
    strata_scope_enter(outer_);
    strata_scope_destroy(scope_);
  }
  void* Take(size_t size) { return malloc(size); }
  void Free(void* p) { free(p); }

 private:
  strata_scope* scope_ = strata_scope_create();
  strata_scope* outer_;
};

class Strata {
 public:
  void* Take(size_t size) { return malloc(size); }
  void Free(void* p) { free(p); }
};

struct Load {
  size_t blocks;
  size_t freed;  // how many of `order` are timed; the others go after
  const size_t* sizes;
  const size_t* order;
};

template <class Heap>
void Round(const Load& load, double* best) {
  bench::Array<void*> blocks(load.blocks);
  Heap heap;
  for (size_t i = 0; i < load.blocks; ++i) {
    blocks[i] = heap.Take(load.sizes[i]);
    if (blocks[i] == nullptr) bench::Die("memory is out");
    memset(blocks[i], 1, load.sizes[i] < 16 ? load.sizes[i] : 16);
  }
  const uint64_t start = bench::NowNs();
  for (size_t i = 0; i < load.freed; ++i) heap.Free(blocks[load.order[i]]);
  const double ns = bench::Since(start) * 1e9 / static_cast<double>(load.freed);
  for (size_t i = load.freed; i < load.blocks; ++i) heap.Free(blocks[load.order[i]]);
  if (*best == 0 || ns < *best) *best = ns;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const char* name = options.Text("load", "random");
  const auto blocks = static_cast<size_t>(options.Count("blocks", 100'000));
  const auto rounds = options.Count("rounds", blocks > 200'000 ? 5 : blocks > 10'000 ? 20 : 300);
  options.RejectUnknown();
  const bool every = strcmp(name, "every") == 0, random = strcmp(name, "random") == 0;
  if (!every && !random && strcmp(name, "order") != 0) bench::Die("--load: random, every or order");
  if (blocks < 2 || rounds == 0) bench::Die("two blocks and one round at least");

  bench::Random dice(1);
  bench::Array<size_t> sizes(blocks), order(blocks);
  for (size_t i = 0; i < blocks; ++i) {
    sizes[i] = every ? dice.Between(512, 1023) : dice.Between(1, 64);
    // Those at even places first, then the others.
    const size_t even = (blocks + 1) / 2;
    order[i] = !every ? i : i < even ? 2 * i : 2 * (i - even) + 1;
  }
  for (size_t i = blocks; random && i > 1; --i) std::swap(order[i - 1], order[dice.Below(i)]);
  const Load load{blocks, every ? blocks / 2 : blocks, &sizes[0], &order[0]};

  double glibc = 0, reap = 0, scope = 0, strata = 0;
  for (uint64_t i = 0; i < rounds; ++i) {
    Round<Glibc>(load, &glibc);
    Round<Reap>(load, &reap);
    Round<Scope>(load, &scope);
    Round<Strata>(load, &strata);
  }
  bench::Report report("holes");
  report.Add("load=%s blocks=%zu", name, blocks);
  report.Add("glibc_ns=%.1f reap_ns=%.1f scope_ns=%.1f strata_ns=%.1f", glibc, reap, scope, strata);
  report.Add("reap_over_glibc=%.2f scope_over_glibc=%.2f", reap / glibc, scope / glibc);
  report.Finish();
  return 0;
}
