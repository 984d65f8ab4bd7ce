// The five kinds of heap for many threads that Berger's talk tells apart, each composed from layers
// and measured alike: speed with one and two threads, how much more memory is held than was in use
// at most, and how much of what two threads have lies in shared cache lines. --kind, or the
// environment's HEAP_KIND: serial, concurrent, private, owners, hoard. All take runs of 64 KiB from
// one source that counts them; the program's own malloc does not matter. Who calls is a number that
// the thread sets, so one thread can play many where only memory is measured.
#include "common.h"
#include "counted_runs.h"
#include "strata/layers/combine/bins.h"
#include "strata/layers/combine/bump.h"
#include "strata/layers/combine/free_list.h"
#include "strata/layers/thread/hoard.h"
#include "strata/layers/thread/locked.h"
#include "strata/layers/thread/per_thread.h"

namespace {

using namespace strata::layers;

constexpr size_t kUnit = 65536;
constexpr size_t kProcessors = 8;
using Classes = SuperblockClasses<kUnit>;

struct Who {
  static constexpr bool exclusive = true;
  static inline thread_local size_t who = 0;
  static size_t index() { return who; }
};

using Source = bench::CountedRuns<kUnit>;

struct Traits : HoardTraits<kUnit> {
  static constexpr size_t heaps = kProcessors;
  using Which = Who;
};
using Lists = Bins<Classes, FreeList>;
using Chunks = Bump<kUnit>;
using Serial = Stack<Locked, Lists, Chunks, Source>;
using Concurrent = Stack<Bins<Classes, Locked, FreeList>, Locked, Chunks, Source>;
using Private = Stack<PrivateHeaps<kProcessors, Who, Lists, Chunks>, Locked, Source>;
using Owners = Stack<OwnedHeaps<kProcessors, Who, Locked, Lists, Chunks>, Locked, Source>;
using Thresholds = Stack<Hoard<Traits>, Locked, Source>;

template <class H>
Source& SourceOf(H& heap) {
  if constexpr (std::same_as<H, Source>) {
    return heap;
  } else {
    return SourceOf(heap.next());
  }
}

// threadtest: each thread takes its share of the objects and frees them, again and again; each has
// a size of its own, so that a lock for each class can show what it is good for.
template <class H>
double Speed(unsigned threads, double seconds) {
  H heap;
  constexpr size_t kObjects = 50'000;
  const size_t share = kObjects / threads;
  const bench::Total total = bench::RunThreads(threads, [&](unsigned index) {
    Who::who = index;
    const size_t size = 64 + 32 * index;
    bench::Array<void*> objects(share);
    const auto pass = [&]() -> uint64_t {
      for (size_t i = 0; i < share; ++i) {
        objects[i] = heap.allocate(size);
        if (objects[i] == nullptr) bench::Die("memory is out");
        *static_cast<char*>(objects[i]) = 1;
      }
      for (size_t i = 0; i < share; ++i) heap.deallocate(objects[i], size);
      return share;
    };
    pass();
    return bench::RunFor(seconds, pass);
  });
  return static_cast<double>(total.ops) / total.longest * 1e-6;
}

template <class H>
double BlowUp(H& heap, size_t most_in_use) {
  return static_cast<double>(SourceOf(heap).most()) / static_cast<double>(most_in_use);
}

// Every processor in turn takes as much and frees it itself.
template <class H>
double InTurn() {
  H heap;
  constexpr size_t kObjects = 40'000, kSize = 96;
  bench::Array<void*> objects(kObjects);
  for (Who::who = 0; Who::who < kProcessors; ++Who::who) {
    for (size_t i = 0; i < kObjects; ++i) objects[i] = heap.allocate(kSize);
    for (size_t i = 0; i < kObjects; ++i) heap.deallocate(objects[i], kSize);
  }
  return BlowUp(heap, kObjects * kSize);
}

// One allocates, another frees, with so many on their way.
template <class H>
double OneWay(size_t objects) {
  H heap;
  constexpr size_t kOnTheWay = 40'000, kSize = 96;
  bench::Array<void*> ring(kOnTheWay);
  for (size_t i = 0; i < objects; ++i) {
    if (i >= kOnTheWay) {
      Who::who = 1;
      heap.deallocate(ring[i % kOnTheWay], kSize);
    }
    Who::who = 0;
    ring[i % kOnTheWay] = heap.allocate(kSize);
  }
  return BlowUp(heap, kOnTheWay * kSize);
}

// Of the lines that hold objects of thread 0 or 1, those that hold objects of both, in percent.
double SharedLines(bench::Array<void*>& zero, bench::Array<void*>& one) {
  constexpr uintptr_t kLine = 64;
  size_t lines = 0, shared = 0;
  const auto count = [&](bench::Array<void*>& of, bench::Array<void*>& others, bool add_shared) {
    for (size_t i = 0; i < of.size(); ++i) {
      const uintptr_t line = reinterpret_cast<uintptr_t>(of[i]) / kLine;
      bool first = true, both = false;
      for (size_t k = 0; k < i && first; ++k)
        first = reinterpret_cast<uintptr_t>(of[k]) / kLine != line;
      if (!first) continue;
      for (size_t k = 0; k < others.size() && !both; ++k)
        both = reinterpret_cast<uintptr_t>(others[k]) / kLine == line;
      if (both && !add_shared) continue;
      ++lines;
      shared += both;
    }
  };
  count(zero, one, true);
  count(one, zero, false);
  return 100.0 * static_cast<double>(shared) / static_cast<double>(lines);
}

constexpr size_t kSmall = 8, kEach = 1000;

// Active: two threads take objects by turns.
template <class H>
double ActiveSharing() {
  H heap;
  bench::Array<void*> of[2] = {bench::Array<void*>(kEach), bench::Array<void*>(kEach)};
  for (size_t i = 0; i < kEach; ++i) {
    for (Who::who = 0; Who::who < 2; ++Who::who) of[Who::who][i] = heap.allocate(kSmall);
  }
  return SharedLines(of[0], of[1]);
}

// Passive: a third thread took them and gave them to the two by turns; each frees what it got and
// takes as many.
template <class H>
double PassiveSharing() {
  H heap;
  bench::Array<void*> of[2] = {bench::Array<void*>(kEach), bench::Array<void*>(kEach)};
  Who::who = 2;
  for (size_t i = 0; i < kEach; ++i) {
    for (size_t w = 0; w < 2; ++w) of[w][i] = heap.allocate(kSmall);
  }
  for (Who::who = 0; Who::who < 2; ++Who::who) {
    bench::Array<void*>& mine = of[Who::who];
    for (size_t i = 0; i < kEach; ++i) heap.deallocate(mine[i], kSmall);
    for (size_t i = 0; i < kEach; ++i) mine[i] = heap.allocate(kSmall);
  }
  return SharedLines(of[0], of[1]);
}

template <class H>
void Measure(const char* kind, double seconds, double scale) {
  bench::Report report("taxonomy");
  report.Add("kind=%s", kind);
  const double one = Speed<H>(1, seconds);
  const double two = Speed<H>(2, seconds);
  report.Add("mops_1=%.4f mops_2=%.4f speedup=%.4f", one, two, two / one);
  report.Add("in_turn=%.4f", InTurn<H>());
  report.Add("one_way=%.4f", OneWay<H>(static_cast<size_t>(1e6 * scale)));
  report.Add("one_way_long=%.4f", OneWay<H>(static_cast<size_t>(4e6 * scale)));
  report.Add("active=%.2f passive=%.2f", ActiveSharing<H>(), PassiveSharing<H>());
  report.Finish();
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const char* from_environment = getenv("HEAP_KIND");
  const char* kind = options.Text("kind", from_environment == nullptr ? "hoard" : from_environment);
  const double seconds = options.Scaled("seconds", 0.5);
  const double scale = options.Scaled("length", 1.0);
  options.RejectUnknown();
  const auto is = [kind](const char* name) { return strcmp(kind, name) == 0; };
  if (is("serial")) {
    Measure<Serial>(kind, seconds, scale);
  } else if (is("concurrent")) {
    Measure<Concurrent>(kind, seconds, scale);
  } else if (is("private")) {
    Measure<Private>(kind, seconds, scale);
  } else if (is("owners")) {
    Measure<Owners>(kind, seconds, scale);
  } else if (is("hoard")) {
    Measure<Thresholds>(kind, seconds, scale);
  } else {
    bench::Die("--kind is serial, concurrent, private, owners or hoard");
  }
  return 0;
}
