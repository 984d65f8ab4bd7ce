// The trees of CrestDB when there is no memory: a Put that fails changes nothing, whichever of its
// allocations it was. The linker sends this file's calls of malloc to Wrapped below.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "any_index.h"
#include "key_kinds.h"

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

class TreesMemory : public testing::TestWithParam<IndexKind> {
 protected:
  void CheckAll() {
    AnyIndex::Scope scope(*tree_);
    std::map<std::string, std::string> seen;
    const size_t count = scope.Scan("", model_.size() + 10, [&](std::string_view key, ValueView v) {
      seen[std::string(key)] = {v.data, v.size};
    });
    ASSERT_EQ(count, model_.size());
    ASSERT_EQ(seen, model_);
  }
  const std::unique_ptr<AnyIndex> tree_ = GetParam().make();
  std::map<std::string, std::string> model_;
};
INSTANTIATE_TEST_SUITE_P(All, TreesMemory, testing::ValuesIn(PlainTrees()), kNameOfKind);

TEST_P(TreesMemory, AFailedPutChangesNothing) {
  std::mt19937_64 random(9);
  size_t failed = 0;
  int most = 0;
  for (const MakeKey make : kKeyKinds) {
    for (int i = 0; i < 500; ++i) {
      const std::string key = make(random() % 2000, random() % 3);
      const std::string value = std::to_string(random());
      // Fails at the first allocation, then at the second, until there are enough.
      for (int calls = 0;; ++calls) {
        AnyIndex::Scope scope(*tree_);
        t_calls_left = calls;
        const bool done = scope.Put(key, value);
        t_calls_left = -1;
        if (done) {
          model_[key] = value;
          most = std::max(most, calls);
          break;
        }
        ++failed;
        if (i % 10 == 0) CheckAll();
        if (HasFatalFailure()) return;
      }
      // A Remove needs none, or does without.
      if (i % 3 == 0) {
        AnyIndex::Scope scope(*tree_);
        const std::string gone = make(random() % 2000, random() % 3);
        t_calls_left = 0;
        const bool removed = scope.Remove(gone);
        t_calls_left = -1;
        ASSERT_EQ(removed, model_.erase(gone) != 0);
      }
    }
    CheckAll();
  }
  EXPECT_GT(failed, 2000u);
  EXPECT_GE(most, 3);  // record, value, and nodes
  for (const auto& pair : model_) {
    AnyIndex::Scope scope(*tree_);
    ASSERT_TRUE(scope.Remove(pair.first));
  }
}

}  // namespace
}  // namespace crest
