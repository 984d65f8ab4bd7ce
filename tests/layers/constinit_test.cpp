// Every layer that can stand in a preloaded library must be a constant there: malloc is called
// before any constructor has run. `constinit` has both compilers see to it, and the file's size
// shows that what is large lies in no file.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "strata/layers.h"

namespace strata::layers {
namespace {

template <class... Layers>
struct Early {
  static inline constinit Stack<Layers...> heap;
};

using Lists = Bins<Geometric<4096>, FreeList>;
using Stacks = testing::Types<
    Early<Locked, Bump<4096>, StaticBuffer<65536>>,
    Early<LockedWhenShared, SizeHeader, Bins<Steps<16, 512>, BoundedFreeList<8>>, Coalesce<>,
          Growing<>>,
    Early<Locked, ClassHeader, Lists, Bump<65536, 8>, Sbrk>,
    Early<Locked, Apart<65536, Mmap>, Coalesce<65536, FirstFit>, Sbrk>,
    Early<Locked, Coalesce<65536, TreeFit>, TryFirst<StaticBuffer<65536>>, Mmap>,
    Early<Hoard<>, AlignedMmap<65536>>, Early<ThreadBuffers<>, Hoard<>, AlignedMmap<65536>>,
    Early<Locked, OnlyLive, Reap<>, Mmap>, Early<Nested, Locked, DeferredPop, Obstack<>, Mmap>,
    Early<Locked, Count, Log, FailNth, Check, Zeroed, Header<long>, Listed, Mmap>,
    Early<Locked, Trace, Profile, GuardPages, Mmap>, Early<Bump<8192>, Mmap>,
    Early<PrivateHeaps<2, CpuIndex, Locked, Bins<Geometric<4096>, FreeList, Inbox>>, Locked, Bump<>,
          Mmap>,
    Early<PrivateHeaps<2, ThreadIndex, Bins<Geometric<4096>, FreeList>>, Locked, Bump<>, Mmap>,
    Early<Locked, Capped<65536>, Coalesce<>, Mmap>,
    Early<OwnedHeaps<2, CpuIndex, Locked, Coalesce<>>, Mmap>,
    Early<Locked, SplitAt<256, Lists, Bump<>>, Coalesce<>, Mmap>>;

template <class T>
class Constinit : public testing::Test {};
TYPED_TEST_SUITE(Constinit, Stacks);

TYPED_TEST(Constinit, ServesFromTheStart) {
  void* p = TypeParam::heap.allocate(100);
  ASSERT_NE(p, nullptr);
  TypeParam::heap.deallocate(p, 100);
}

constinit StaticBuffer<64 << 20> large;

TEST(StaticBuffer, TakesNoRoomInTheFile) {
  EXPECT_NE(large.allocate(64 << 20), nullptr);
  struct stat file;
  ASSERT_EQ(stat("/proc/self/exe", &file), 0);
  EXPECT_LT(file.st_size, 64 << 20);
}

}  // namespace
}  // namespace strata::layers
