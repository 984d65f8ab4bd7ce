// Objects in groups, over a fake kernel: spans of their own, the page map's bit that sends their
// frees to the slow path, and memory that goes back. A random program checks all of it against a
// model of who has which page.
#include "heaps/grouped_lists.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "../hugepage/test_arena.h"
#include "heaps/strata.h"
#include "test_kernel.h"

namespace strata::test {
namespace {

using Heap = StrataHeap<TestKernel>;

size_t bad_frees = 0;
void NoteBadFree(BadFree, void*) { ++bad_frees; }

class GroupedListsTest : public testing::Test {
 protected:
  GroupedListsTest() { bad_frees = 0; }

  auto& groups() { return heap_->central().groups(); }
  PageId PageOf(const void* p) const {
    return PageId((reinterpret_cast<uintptr_t>(p) - kernel_.base()) >> kPageShift);
  }
  static uintptr_t HugePageOfObject(const void* p) {
    return reinterpret_cast<uintptr_t>(p) >> kHugePageShift;
  }
  void Give(SizeClass c, ObjectGroup g, void* p) { groups().Of(c, g).Give(&p, 1); }
  void Tick(size_t times) {
    for (; times > 0; --times) {
      kernel_.Advance(1000);
      heap_->Tick(Giving::kOn);
    }
  }

  TestArena memory_;
  TestKernel kernel_{HugePages(512)};
  std::unique_ptr<Heap> heap_ =
      std::make_unique<Heap>(kernel_, memory_.arena(), PageHeapOptions{}, NoteBadFree);
  const SizeClass class_ = ClassOfSize(100);
};

TEST_F(GroupedListsTest, PagesOfAGroupSendFreesToTheSlowPath) {
  void* p = groups().Take(class_, ObjectGroup::kHot);
  ASSERT_NE(p, nullptr);
  const PageMap& map = heap_->page_map();
  for (size_t i = 0; i < InfoOf(class_).pages; ++i)
    EXPECT_TRUE(IsSampledPage(map.EntryOf(PageOf(p) + Pages(i))));
  EXPECT_EQ(map.ClassOf(PageOf(p)), class_);
  const PageId page = PageOf(p);
  Give(class_, ObjectGroup::kHot, p);
  heap_->EmptyCaches();
  EXPECT_EQ(map.EntryOf(page), SizeClass::kNone);
  EXPECT_EQ(heap_->page_heap().used(), Pages(0));
}

TEST_F(GroupedListsTest, AListTakesNoObjectOfAnotherGroup) {
  void* hot = groups().Take(class_, ObjectGroup::kHot);
  void* cold = groups().Take(class_, ObjectGroup::kCold);
  void* plain = nullptr;  // so that the class has a list of its own, too
  ASSERT_EQ(heap_->central().Take(class_, &plain, 1), 1u);
  ASSERT_TRUE(hot != nullptr && cold != nullptr);
  Give(class_, ObjectGroup::kCold, hot);
  EXPECT_EQ(bad_frees, 1u);
  heap_->central().Give(class_, &hot, 1);
  EXPECT_EQ(bad_frees, 2u);
  EXPECT_EQ(groups().BytesIn(ObjectGroup::kHot), InfoOf(class_).size);
  Give(class_, ObjectGroup::kHot, hot);
  EXPECT_EQ(groups().BytesIn(ObjectGroup::kHot), 0u);
  EXPECT_EQ(bad_frees, 2u);
  Give(class_, ObjectGroup::kHot, hot);
  EXPECT_EQ(bad_frees, 3u) << "a double free";
}

// A few cold objects do not cost a hugepage; many have some to themselves.
TEST_F(GroupedListsTest, ManyColdObjectsLieOnHugepagesOfTheirOwn) {
  void* few = groups().Take(class_, ObjectGroup::kCold);
  void* hot = groups().Take(class_, ObjectGroup::kHot);
  EXPECT_EQ(HugePageOfObject(few), HugePageOfObject(hot));
  void* last = few;
  for (size_t bytes = 0; bytes < 2 * kHugePageSize; bytes += InfoOf(class_).size)
    last = groups().Take(class_, ObjectGroup::kCold);
  EXPECT_NE(HugePageOfObject(last), HugePageOfObject(hot));
  hot = groups().Take(ClassOfSize(1000), ObjectGroup::kHot);
  EXPECT_NE(HugePageOfObject(last), HugePageOfObject(hot));
}

TEST_F(GroupedListsTest, NothingIsTakenWhereTheKernelRefuses) {
  kernel_.map_limit = HugePages(0);
  EXPECT_EQ(groups().Take(class_, ContextGroup(kMostContexts - 1)), nullptr);
}

TEST_F(GroupedListsTest, ARandomProgramNeverMixesGroupsOnAPage) {
  std::mt19937 random(1);
  const auto below = [&random](size_t n) { return random() % n; };
  constexpr size_t kSizes[] = {8, 48, 100, 1024, 5000, 20000, 100000};
  const ObjectGroup all[] = {ObjectGroup::kNone, ObjectGroup::kHot, ObjectGroup::kCold,
                             ContextGroup(0), ContextGroup(kMostContexts - 1)};
  struct Object {
    SizeClass c;
    ObjectGroup g;
  };
  std::map<void*, Object> live;
  std::map<size_t, std::pair<ObjectGroup, size_t>> pages;  // whose, and how many objects start
  const auto free_one = [&](std::map<void*, Object>::iterator it) {
    auto [p, o] = *it;
    live.erase(it);
    const size_t page = PageOf(p).raw();
    if (--pages.at(page).second == 0) pages.erase(page);
    if (o.g == ObjectGroup::kNone) {
      heap_->central().Give(o.c, &p, 1);
    } else {
      Give(o.c, o.g, p);
    }
  };
  for (size_t step = 0; step < 30'000; ++step) {
    if (below(1000) == 0) Tick(1 + below(40));
    if (below(3000) == 0) heap_->ReleaseNow(SIZE_MAX);
    if (!live.empty() && below(100) < (step / 3000 % 2 == 0 ? 40u : 60u)) {
      const auto after = live.lower_bound(reinterpret_cast<void*>(kernel_.base() + random()));
      free_one(after == live.end() ? live.begin() : after);
      continue;
    }
    const SizeClass c = ClassOfSize(kSizes[below(std::size(kSizes))]);
    const ObjectGroup g = all[below(std::size(all))];
    void* p = nullptr;
    if (g == ObjectGroup::kNone) {
      heap_->central().Take(c, &p, 1);
    } else {
      p = groups().Take(c, g);
    }
    ASSERT_NE(p, nullptr);
    ASSERT_TRUE(live.emplace(p, Object{c, g}).second) << "handed out twice";
    auto& [owner, count] = pages.emplace(PageOf(p).raw(), std::pair{g, 0}).first->second;
    ASSERT_EQ(owner, g);
    ++count;
    ASSERT_EQ(IsSampledPage(heap_->page_map().EntryOf(PageOf(p))), g != ObjectGroup::kNone);
  }
  std::map<ObjectGroup, size_t> bytes;
  for (const auto& [p, o] : live) bytes[o.g] += InfoOf(o.c).size;
  for (const ObjectGroup g : all) {
    if (g == ObjectGroup::kNone) continue;
    EXPECT_EQ(groups().BytesIn(g), bytes[g]);
  }
  while (!live.empty()) free_one(live.begin());
  EXPECT_EQ(bad_frees, 0u);
  heap_->EmptyCaches();
  EXPECT_EQ(heap_->page_heap().used(), Pages(0));
}

TEST_F(GroupedListsTest, ThreadsThatMakeTheSameListsShareThem) {
  using Objects = std::vector<std::pair<ObjectGroup, void*>>;
  std::vector<Objects> kept(4);
  std::vector<std::thread> threads;
  for (Objects& mine : kept) {
    threads.emplace_back([this, &mine] {
      for (size_t i = 0; i < 2000; ++i) {
        const ObjectGroup g = ContextGroup(i * 7 % kMostContexts);
        mine.emplace_back(g, groups().Take(class_, g));
        if (i % 2 == 0) continue;
        std::swap(mine[i * 31 % mine.size()], mine.back());
        Give(class_, mine.back().first, mine.back().second);
        mine.pop_back();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<void*> places;
  for (const Objects& mine : kept)
    for (auto [g, p] : mine) EXPECT_TRUE(places.insert(p).second);
  size_t lists = 0;
  groups().ForEach([&lists](auto&) { ++lists; });
  EXPECT_EQ(lists, kMostContexts);
  for (const Objects& mine : kept)
    for (auto [g, p] : mine) Give(class_, g, p);
  heap_->EmptyCaches();
  EXPECT_EQ(heap_->page_heap().used(), Pages(0));
  EXPECT_EQ(bad_frees, 0u);
}

// What lies idle inside spans of a group goes back by the clock, and is not missed.
TEST_F(GroupedListsTest, IdlePagesInsideSpansGoBack) {
  std::vector<void*> objects;
  for (size_t i = 0; i < 40'000; ++i) {
    objects.push_back(groups().Take(class_, ContextGroup(3)));
    ASSERT_NE(objects.back(), nullptr);
  }
  for (size_t i = 0; i < objects.size(); ++i)
    if (i % 300 != 0) Give(class_, ContextGroup(3), objects[i]);
  Tick(200);
  const auto filler = heap_->large().PageStats().filler;
  EXPECT_GT(filler.in_use_released + filler.released, size_t{2} << 20);
  for (size_t i = 0; i < objects.size(); i += 300) Give(class_, ContextGroup(3), objects[i]);
  heap_->EmptyCaches();
  EXPECT_EQ(heap_->page_heap().used(), Pages(0));
  EXPECT_EQ(bad_frees, 0u);
}

}  // namespace
}  // namespace strata::test
