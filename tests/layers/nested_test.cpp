// Nested regions: what a parent's clear and end do to the heaps under it.
#include "strata/layers/combine/nested.h"

#include <gtest/gtest.h>

#include <memory>

#include "strata/layers/combine/bump.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/tool/count.h"

namespace strata::layers {
namespace {

using Region = Stack<Nested, Count, Bump<8192>, Mmap>;

size_t Out(Region& r) { return layer<Count>(r).counts().blocks(); }

TEST(Nested, ClearsThoseUnderneathFirst) {
  Region request;
  Region part(&request), detail(&part), other(&request);
  for (Region* r : {&request, &part, &detail, &other}) ASSERT_NE(r->allocate(100), nullptr);
  part.clear();
  EXPECT_EQ(Out(part), 0u);
  EXPECT_EQ(Out(detail), 0u);
  EXPECT_EQ(Out(other), 1u);
  EXPECT_EQ(Out(request), 1u);
  ASSERT_NE(detail.allocate(10), nullptr);
  request.clear();
  for (Region* r : {&request, &part, &detail, &other}) EXPECT_EQ(Out(*r), 0u);
  EXPECT_NE(detail.allocate(10), nullptr);  // and goes on
}

TEST(Nested, OutlivesItsParentEmpty) {
  auto parent = std::make_unique<Region>();
  Region child(parent.get()), grandchild(&child);
  ASSERT_NE(child.allocate(100), nullptr);
  ASSERT_NE(grandchild.allocate(100), nullptr);
  parent.reset();
  EXPECT_EQ(child.parent(), nullptr);
  EXPECT_EQ(grandchild.parent(), &child);
  EXPECT_EQ(Out(child), 0u);
  EXPECT_EQ(Out(grandchild), 0u);
  EXPECT_NE(child.allocate(100), nullptr);
}

TEST(Nested, LeavesItsParentWhenItEnds) {
  Region parent;
  auto first = std::make_unique<Region>(&parent);
  auto second = std::make_unique<Region>(&parent);
  auto third = std::make_unique<Region>(&parent);
  second.reset();
  third.reset();
  ASSERT_NE(first->allocate(10), nullptr);
  parent.clear();
  EXPECT_EQ(Out(*first), 0u);
  first.reset();
  parent.clear();
}

TEST(Nested, MovesToAnotherParent) {
  Region one, two, child(&one);
  child.set_parent(&two);
  ASSERT_NE(child.allocate(10), nullptr);
  one.clear();
  EXPECT_EQ(Out(child), 1u);
  two.clear();
  EXPECT_EQ(Out(child), 0u);
  child.set_parent(nullptr);
  ASSERT_NE(child.allocate(10), nullptr);
  two.clear();
  EXPECT_EQ(Out(child), 1u);
}

TEST(NestedDeathTest, RefusesACycle) {
  Region a, b(&a), c(&b);
  EXPECT_DEATH(a.set_parent(&c), "^strata: nested: a heap was to become its own parent");
  EXPECT_DEATH(a.set_parent(&a), "its own parent");
}

}  // namespace
}  // namespace strata::layers
