// The trees of CrestDB when there is no memory: a Put that fails changes nothing, whichever of its
// allocations it was. The linker sends this file's calls of malloc to Wrapped below.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tree_kinds.h"

namespace {
thread_local int t_calls_left = -1;  // below 0: all succeed
}

extern "C" {
void* __real_malloc(size_t size);
void* __wrap_malloc(size_t size) {
  if (t_calls_left == 0) return nullptr;
  if (t_calls_left > 0) --t_calls_left;
  return __real_malloc(size);
}
}

namespace crest {
namespace {

template <class Kind>
class TreesMemory : public testing::Test {
 protected:
  void CheckAll() {
    typename Kind::Scope scope(tree_.values);
    std::map<std::string, std::string> seen;
    const size_t count = tree_.index->Scan(
        scope, "", model_.size() + 10,
        [&](std::string_view key, ValueView v) { seen[std::string(key)] = {v.data, v.size}; });
    ASSERT_EQ(count, model_.size());
    ASSERT_EQ(seen, model_);
  }
  typename Kind::Test tree_;
  std::map<std::string, std::string> model_;
};
using Kinds = testing::Types<TreeKind<CoarseBTree, PlainValues>, TreeKind<OccBTree, PlainValues>,
                             TreeKind<Masstree, PlainValues>, TreeKind<Art, PlainValues>>;
TYPED_TEST_SUITE(TreesMemory, Kinds);

TYPED_TEST(TreesMemory, AFailedPutChangesNothing) {
  std::mt19937_64 random(9);
  size_t failed = 0;
  int most = 0;
  for (const MakeKey make : kKeyKinds) {
    for (int i = 0; i < 500; ++i) {
      const std::string key = make(random() % 2000, random() % 3);
      const std::string value = std::to_string(random());
      // Fails at the first allocation, then at the second, until there are enough.
      for (int calls = 0;; ++calls) {
        typename TypeParam::Scope scope(this->tree_.values);
        t_calls_left = calls;
        const bool done = this->tree_.index->Put(scope, key, value);
        t_calls_left = -1;
        if (done) {
          this->model_[key] = value;
          most = std::max(most, calls);
          break;
        }
        ++failed;
        if (i % 10 == 0) this->CheckAll();
        if (this->HasFatalFailure()) return;
      }
      // A Remove needs none, or does without.
      if (i % 3 == 0) {
        typename TypeParam::Scope scope(this->tree_.values);
        const std::string gone = make(random() % 2000, random() % 3);
        t_calls_left = 0;
        const bool removed = this->tree_.index->Remove(scope, gone);
        t_calls_left = -1;
        ASSERT_EQ(removed, this->model_.erase(gone) != 0);
      }
    }
    this->CheckAll();
  }
  EXPECT_GT(failed, 2000u);
  EXPECT_GE(most, 3);  // record, value, and nodes
  for (const auto& pair : this->model_) {
    typename TypeParam::Scope scope(this->tree_.values);
    ASSERT_TRUE(this->tree_.index->Remove(scope, pair.first));
  }
}

}  // namespace
}  // namespace crest
