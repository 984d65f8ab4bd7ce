// IntrusiveList against std::list, by random operations.
#include "base/intrusive_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <vector>

namespace strata {
namespace {

struct Node : ListNode<Node> {
  bool listed = false;
};
using List = IntrusiveList<Node>;

// The same elements in the same order, walked from both ends.
void ExpectSame(const List& list, const std::list<Node*>& model) {
  ASSERT_EQ(list.empty(), model.empty());
  ASSERT_EQ(list.first(), model.empty() ? nullptr : model.front());
  ASSERT_EQ(list.last(), model.empty() ? nullptr : model.back());
  Node* at = list.first();
  for (Node* n : model) {
    ASSERT_EQ(at, n);
    at = List::Next(at);
  }
  ASSERT_EQ(at, nullptr);
  at = list.last();
  for (auto it = model.rbegin(); it != model.rend(); ++it) {
    ASSERT_EQ(at, *it);
    at = List::Previous(at);
  }
  ASSERT_EQ(at, nullptr);
}

TEST(IntrusiveList, AgreesWithAModel) {
  std::mt19937 random(7);
  std::vector<Node> nodes(12);
  List list;
  std::list<Node*> model;
  size_t emptied = 0;
  for (int step = 0; step < 20'000; ++step) {
    Node& n = nodes[random() % nodes.size()];
    if (n.listed) {
      list.Remove(&n);
      model.remove(&n);
      EXPECT_EQ(n.list_next, nullptr);
      EXPECT_EQ(n.list_prev, nullptr);
      n.listed = false;
    } else if (random() % 2 == 0) {
      list.PushFront(&n);
      model.push_front(&n);
      n.listed = true;
    } else {
      list.PushBack(&n);
      model.push_back(&n);
      n.listed = true;
    }
    if (random() % 4 == 0) {
      Node* popped = list.PopFront();
      ASSERT_EQ(popped, model.empty() ? nullptr : model.front());
      if (popped != nullptr) {
        model.pop_front();
        popped->listed = false;
      }
    }
    emptied += model.empty();
    ExpectSame(list, model);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(emptied, 10u);
}

TEST(IntrusiveList, PopFrontOfAnEmptyListIsNull) {
  List list;
  EXPECT_EQ(list.PopFront(), nullptr);
  EXPECT_TRUE(list.empty());
}

#ifndef NDEBUG
TEST(IntrusiveListDeathTest, RemovingAnUnlistedElementIsCaught) {
  List list;
  Node a;
  Node b;
  list.PushBack(&a);
  EXPECT_DEATH(list.Remove(&b), "strata: check failed");
}
#endif

}  // namespace
}  // namespace strata
