// A heap of layers in the hands of the standard library: allocators, pmr resources, and sources
// that take what the process or a pmr resource has; and the cap.
#include <gtest/gtest.h>

#include <list>
#include <map>
#include <memory_resource>
#include <string>
#include <vector>

#include "heap_model.h"
#include "strata/layers.h"

namespace strata::layers {
namespace {

using Lists = Stack<Count, Bins<Geometric<4096>, FreeList>, Bump<>, Mmap>;

size_t Out(Lists& heap) { return layer<Count>(heap).counts().blocks(); }

struct alignas(512) Wide {
  char bytes[512];
};

TEST(Allocator, GivesAHeapToContainers) {
  Lists heap;
  {
    std::vector<int, Allocator<int, Lists>> numbers(heap);
    std::map<int, int, std::less<>, Allocator<std::pair<const int, int>, Lists>> squares(heap);
    for (int i = 0; i < 1000; ++i) {
      numbers.push_back(i);
      squares[i] = i * i;
    }
    EXPECT_EQ(Out(heap), 1001u);
    EXPECT_EQ(numbers[999] * numbers[999], squares.at(999));
  }
  EXPECT_EQ(Out(heap), 0u);
  EXPECT_EQ(layer<Count>(heap).counts().bytes, 0u) << "sizes are told as they were asked for";
}

TEST(Allocator, GoesWithWhatIsMovedAndSwapped) {
  using Numbers = std::list<int, Allocator<int, Lists>>;
  Lists one, other;
  Numbers a({1, 2, 3}, one), b(other);
  const int* first = &a.front();
  b = std::move(a);
  EXPECT_EQ(&b.front(), first) << "taken over, not copied";
  EXPECT_EQ(&b.get_allocator().heap(), &one);
  EXPECT_NE((Allocator<int, Lists>(one)), (Allocator<long, Lists>(other)));
  Numbers copy(other);
  copy = b;
  EXPECT_EQ(&copy.get_allocator().heap(), &other);
  swap(copy, b);
  EXPECT_EQ(&copy.get_allocator().heap(), &one);
}

// By a heap that aligns, and by one that does not.
template <class H>
void AlignsBeyondTheHeap() {
  H heap;
  for (size_t count = 1; count < 20; ++count) {
    std::vector<Wide, Allocator<Wide, H>> wide(count, heap);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(wide.data()) % alignof(Wide), 0u);
    for (Wide& w : wide) memset(&w, 1, sizeof(w));
  }
}
TEST(Allocator, AlignsBeyondTheHeap) {
  AlignsBeyondTheHeap<Stack<Check, Bins<Geometric<4096>, FreeList>, Bump<>, Mmap>>();
  AlignsBeyondTheHeap<Stack<Check, Coalesce<>, Mmap>>();
}

TEST(Allocator, ThrowsWithoutMemory) {
  StaticBuffer<4096> heap;
  std::vector<char, Allocator<char, StaticBuffer<4096>>> bytes(heap);
  EXPECT_THROW(bytes.reserve(5000), std::bad_alloc);
  EXPECT_THROW(bytes.get_allocator().allocate(SIZE_MAX), std::bad_alloc);
  Allocator<int, StaticBuffer<4096>> numbers(heap);
  EXPECT_THROW(numbers.allocate(SIZE_MAX / sizeof(int) + 2), std::bad_alloc)
      << "4 bytes by overflow";
  bytes.reserve(4000);
}

TEST(Resource, HasAHeapOrSharesOne) {
  Resource<Lists> own;
  Lists heap;
  Resource shared(heap);
  static_assert(std::same_as<decltype(shared), Resource<Ref<Lists>>>);
  {
    std::pmr::vector<std::pmr::string> a(&own), b(&shared);
    for (int i = 0; i < 100; ++i) {
      a.emplace_back("a string that is too long for its own room");
      b.emplace_back("another string that is too long");
    }
    EXPECT_EQ(Out(own.heap()), 101u);
    EXPECT_EQ(Out(heap), 101u);
    std::pmr::vector<Wide> wide(3, &shared);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(wide.data()) % alignof(Wide), 0u);
  }
  EXPECT_EQ(Out(own.heap()), 0u);
  EXPECT_EQ(Out(heap), 0u);
  Resource again(heap), own_too(own.heap());
  EXPECT_TRUE(shared.is_equal(again)) << "a container would copy what it could take over";
  EXPECT_FALSE(shared.is_equal(own));
  EXPECT_FALSE(shared.is_equal(own_too));
  EXPECT_FALSE(own.is_equal(own_too));  // of another class
  EXPECT_FALSE(shared.is_equal(*std::pmr::new_delete_resource()));
  EXPECT_TRUE(shared.is_equal(shared));
  Ref<Lists> to_heap(heap);
  Resource<Ref<Lists>> by_copy(to_heap);  // a heap that may be copied is taken by its copy
  EXPECT_TRUE(by_copy.is_equal(shared));
  EXPECT_THROW(std::ignore = own.allocate(kMaxRequest), std::bad_alloc);
}

TEST(Upstream, TakesChunksFromAResourceAndNullForWhatItThrows) {
  std::pmr::monotonic_buffer_resource mono(std::pmr::null_memory_resource());
  EXPECT_EQ(Stack<Upstream>(&mono).allocate(100), nullptr);
  Resource<Lists> below;
  {
    Stack<Bins<Geometric<4096>, FreeList>, Bump<4096>, Upstream> heap(&below);
    RunModel(heap, 5000, 1, MixedSize);
    EXPECT_NE(Out(below.heap()), 0u);
    EXPECT_EQ(heap.next().next().resource(), &below);
  }
  EXPECT_EQ(Out(below.heap()), 0u) << "with the sizes that it gave";
}

TEST(Malloc, IsASourceWithAllThatMallocCanDo) {
  Stack<Check, Malloc> heap;
  RunFullModel(heap, 5000, 1, MixedSize);
  errno = 7;
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(heap.allocate(100, size_t{1} << 62), nullptr);
  EXPECT_EQ(errno, 7);
  void* p = heap.allocate(100);
  EXPECT_EQ(heap.remap(p, SIZE_MAX), nullptr);
  EXPECT_EQ(errno, 7);
  heap.deallocate(p);
}

TEST(Capped, RefusesWhatWouldBeTooMuch) {
  Stack<Capped<1000>, Bump<>, Mmap> heap;
  void* a = heap.allocate(600);
  EXPECT_EQ(heap.allocate(401), nullptr);
  void* b = heap.allocate(400);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(heap.out(), 1000u);
  EXPECT_EQ(heap.allocate(1), nullptr);
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
  heap.deallocate(a, 600);
  EXPECT_NE(heap.allocate(600), nullptr);
  heap.clear();
  EXPECT_EQ(heap.out(), 0u);
  heap.set_cap(0);
  EXPECT_NE(heap.allocate(1 << 20), nullptr);
}

// What a block holds counts, also where that is more than was asked for, and when it changes.
TEST(Capped, CountsWhatBlocksHold) {
  Stack<Capped<>, Coalesce<>, Mmap> heap;
  void* p = heap.allocate(1);
  const size_t least = heap.size_of(p);
  EXPECT_EQ(heap.out(), least);
  heap.set_cap(2 * least - 1);
  EXPECT_EQ(heap.allocate(1), nullptr) << "it would hold more than what was asked for";
  EXPECT_EQ(heap.out(), least);
  heap.set_cap(1000);
  EXPECT_TRUE(heap.resize(p, 900));
  EXPECT_EQ(heap.out(), heap.size_of(p));
  EXPECT_FALSE(heap.resize(p, 1500));
  EXPECT_TRUE(heap.resize(p, 10));
  heap.deallocate(p);
  EXPECT_EQ(heap.out(), 0u);
}

// A heap whose blocks, with the tag of 8 bytes in front, are of whole pages.
struct WholePages {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    using Through<Below>::Through;
    void* allocate(size_t size) { return this->next_.allocate(Whole(size)); }
    bool resize(void* p, size_t size) { return this->next_.resize(p, Whole(size)); }

   private:
    static size_t Whole(size_t size) { return RoundUp(size + 8, 4096) - 8; }
  };
};

TEST(Capped, IsNotPassedByWhatAResizedBlockIsRoundedTo) {
  Stack<Capped<>, WholePages, Coalesce<>, Mmap> heap;
  void* p = heap.allocate(1);
  const size_t least = heap.size_of(p);
  heap.set_cap(least + 100);
  EXPECT_FALSE(heap.resize(p, least + 50));
  EXPECT_EQ(heap.out(), least);
  EXPECT_EQ(heap.size_of(p), least) << "it is as it was";
  heap.set_cap(3 * least);
  EXPECT_TRUE(heap.resize(p, least + 50));
  EXPECT_EQ(heap.out(), heap.size_of(p));
  heap.set_cap(1);
  EXPECT_TRUE(heap.resize(p, 1)) << "a block may always shrink";
  EXPECT_EQ(heap.out(), least);
}

// A heap that gives each block some bytes more.
struct Pads {
  static constexpr size_t kMore = 512;
  template <Heap Below>
  class On : public Through<Below> {
   public:
    using Through<Below>::Through;
    void* allocate(size_t size) { return this->next_.allocate(size + kMore); }
    bool resize(void* p, size_t size) { return this->next_.resize(p, size + kMore); }
  };
};

TEST(Capped, SaysThatABlockGrewOnlyIfItHoldsWhatWasAskedFor) {
  Stack<Capped<>, Pads, Coalesce<>, Mmap> heap;
  void* p = heap.allocate(1000);
  const size_t before = heap.size_of(p), size = before + Pads::kMore + 88;
  heap.set_cap(size);
  EXPECT_FALSE(heap.resize(p, size)) << "it would hold more than the cap";
  EXPECT_EQ(heap.out(), heap.size_of(p)) << "put back, but for what is added each time";
  EXPECT_LT(heap.out(), size);
  EXPECT_GE(heap.out(), before);
}

// A heap of one block that can be made larger, and never smaller again.
struct OnlyGrows {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    using Through<Below>::Through;
    bool resize(void* p, size_t size) {
      return size > this->next_.size_of(p) && this->next_.resize(p, size + Pads::kMore);
    }
  };
};

TEST(Capped, CountsABlockThatCannotBePutBack) {
  Stack<Capped<>, OnlyGrows, Coalesce<>, Mmap> heap;
  void* p = heap.allocate(1000);
  const size_t size = heap.size_of(p) + 100;
  heap.set_cap(size);
  EXPECT_TRUE(heap.resize(p, size)) << "it has grown";
  EXPECT_GE(heap.size_of(p), size);
  EXPECT_EQ(heap.out(), heap.size_of(p));
}

TEST(Capped, IsNotPassedByWhatAMovedBlockIsRoundedTo) {
  Stack<Capped<>, Bins<PowersOfTwo<16, 1 << 20>, FreeList>, Malloc> heap;
  void* p = heap.allocate(1000);
  heap.set_cap(160'000);
  if (void* to = heap.remap(p, 132'000); to != nullptr) p = to;  // 262,144 bytes
  EXPECT_LE(heap.out(), heap.cap());
  heap.set_cap(0);
  EXPECT_EQ(heap.remap(p, SIZE_MAX / 9 * 8 + 10), nullptr) << "with an eighth more, a small number";
  p = heap.remap(p, 132'000);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(heap.out(), heap.size_of(p));
  heap.deallocate(p);
  EXPECT_EQ(heap.out(), 0u);
}

TEST(Capped, LetsABlockMoveToWhereItIsSmaller) {
  Stack<Capped<>, Malloc> heap;
  for (const size_t size : {size_t{1000}, size_t{100'000}, size_t{1} << 20}) {
    void* p = heap.allocate(size);
    heap.set_cap(heap.out());
    p = heap.remap(p, size - size / 100);
    ASSERT_NE(p, nullptr);
    p = heap.remap(p, size / 4);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(heap.out(), heap.size_of(p));
    EXPECT_LT(heap.out(), size);
    heap.deallocate(p);
    heap.set_cap(0);
  }
}

TEST(Capped, AsksItsFunction) {
  struct Program {
    Stack<Capped<1000>, Coalesce<>, Mmap> heap;
    void* spare = nullptr;
    int asked = 0;
  } program;
  const auto frees = [](void* context, size_t, size_t, size_t cap) {
    auto* p = static_cast<Program*>(context);
    ++p->asked;
    if (p->spare == nullptr) return 2 * cap;
    p->heap.deallocate(std::exchange(p->spare, nullptr));
    return cap;
  };
  program.heap.set_cap(1000, frees, &program);
  program.spare = program.heap.allocate(800);
  void* p = program.heap.allocate(700);  // in the spare block's place
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(program.asked, 1);
  EXPECT_EQ(program.heap.cap(), 1000u);
  EXPECT_NE(program.heap.allocate(900), nullptr);  // under a cap twice as high
  EXPECT_EQ(program.asked, 2);
  EXPECT_EQ(program.heap.cap(), 2000u);
}

TEST(Capped, AsksOnceWhereTheAnswerDoesNotHelp) {
  struct Answer {
    size_t cap;
    int asked = 0;
  };
  const auto answers = [](void* context, size_t, size_t, size_t) {
    auto* a = static_cast<Answer*>(context);
    if (++a->asked > 10) abort();
    return a->cap;
  };
  Stack<Capped<>, Coalesce<>, Mmap> heap;
  for (const size_t cap : {size_t{0}, size_t{1500}}) {  // no; and too little
    Answer answer{cap};
    heap.set_cap(1000, answers, &answer);
    EXPECT_EQ(heap.allocate(2000), nullptr);
    EXPECT_EQ(answer.asked, 1);
    EXPECT_EQ(heap.cap(), cap == 0 ? 1000u : cap);
  }
}

}  // namespace
}  // namespace strata::layers
