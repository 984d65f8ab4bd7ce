// LLAMA's heap as a layer: random programs under the Check oracle, and what a predictor is told:
// from where it was called, what came of it, and what is freed.
#include <gtest/gtest.h>

#include "../lifetime/fake_outside.h"
#include "heap_program.h"
#include "heaps/llama.h"

namespace strata {
namespace {

template <class Predictor>
using LlamaOnFakes = layers::Stack<ByLifetime<Predictor, test::FakeClock>, test::FakeSource>;

TEST(LlamaHeap, KeepsARandomProgramsBlocksApart) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<uint8_t> bytes = test::RandomBytes(seed, 20'000);
    test::RunHeapProgram<LlamaOnFakes<UnknownPredictor>>(test::ProgramBytes(bytes));
    test::RunHeapProgram<LlamaOnFakes<CallSitePredictor<test::FakeClock>>>(
        test::ProgramBytes(bytes));
  }
}

struct Recorder {
  LifetimeClass ClassOf(size_t bytes, uintptr_t call_site) {
    asked_bytes = bytes;
    asked = call_site;
    return answer;
  }
  void Allocated(void* p, size_t, uintptr_t call_site) {
    allocated = p;
    EXPECT_EQ(call_site, asked);
  }
  void Freed(void* p) { freed = p; }

  LifetimeClass answer = LifetimeClass::kUnder1S;
  size_t asked_bytes = 0;
  uintptr_t asked = 0;
  void* allocated = nullptr;
  void* freed = nullptr;
};
using Recorded = LlamaOnFakes<Recorder>;

// As malloc is: what asks, itself, from where it was called.
[[gnu::noinline]] void* Malloc(Recorded& heap, size_t size) { return heap.allocate(size); }
[[gnu::noinline]] void* OneCaller(Recorded& heap) {
  void* p = Malloc(heap, 100);
  asm volatile("" ::: "memory");  // a call, not a jump
  return p;
}
[[gnu::noinline]] void* AnotherCaller(Recorded& heap) {
  void* p = Malloc(heap, 100);
  asm volatile("nop" ::: "memory");
  return p;
}
[[gnu::noinline]] void* Deeper(Recorded& heap) {
  char room[256];
  asm volatile("" : : "r"(room) : "memory");
  void* p = OneCaller(heap);
  asm volatile("" : : "r"(room) : "memory");
  return p;
}

TEST(LlamaHeap, TellsItsPredictorWhereItWasCalled) {
  Recorded heap;
  Recorder& recorder = heap.predictor();
  void* p[5];
  uintptr_t sites[5];
  for (int i = 0; i < 2; ++i) {  // the same calls
    p[i] = OneCaller(heap);
    sites[i] = recorder.asked;
  }
  p[2] = AnotherCaller(heap);
  sites[2] = recorder.asked;
  p[3] = Deeper(heap);
  sites[3] = recorder.asked;
  EXPECT_EQ(sites[0], sites[1]);
  EXPECT_NE(sites[0], sites[2]);
  EXPECT_NE(sites[0], sites[3]) << "the same call, deeper in the stack";
  EXPECT_EQ(recorder.asked_bytes, 100u);
  EXPECT_EQ(recorder.allocated, p[3]);
  for (int i = 0; i < 4; ++i) {
    heap.deallocate(p[i]);
    EXPECT_EQ(recorder.freed, p[i]);
  }
}

TEST(LlamaHeap, PlacesAsPredicted) {
  Recorded heap;
  void* p = heap.allocate(100);
  EXPECT_EQ(heap.heap().RungAt(p), 2);
  heap.predictor().answer = LifetimeClass::kForever;
  void* q = heap.allocate(100, 4096);
  EXPECT_EQ(heap.heap().RungAt(q), kLongest);
  heap.deallocate(p);
  heap.deallocate(q);
}

TEST(LlamaHeap, RefusesWhatIsEnormous) {
  Recorded heap;
  for (size_t size : {SIZE_MAX, SIZE_MAX - 4096, size_t{PTRDIFF_MAX}, size_t{1} << 60}) {
    EXPECT_EQ(heap.allocate(size), nullptr);
    EXPECT_EQ(heap.allocate(size, 4096), nullptr);
  }
  EXPECT_EQ(heap.allocate(10, size_t{1} << 62), nullptr);
}

}  // namespace
}  // namespace strata
