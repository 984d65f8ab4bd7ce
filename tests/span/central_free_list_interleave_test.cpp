// CentralFreeList where others run: at every call to the source, which is where its lock is
// dropped, one step of another thread is put in; each step at each place, and each two steps at
// each two places. Afterwards no object is out twice, none is lost, and the list's own accounts are
// right.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "fake_source.h"
#include "span/central_free_list.h"

namespace strata::test {
namespace {

constexpr size_t kSize = 1024;  // 32 objects a span, 4 a native page
constexpr size_t kPerSpan = 32;

constexpr size_t kFew = 6;
constexpr size_t kMoreThanABatch = IsolatedSpans::kSpans + 6;

// A list with spans that are full, half empty, empty and given back in part.
class Scene {
 public:
  explicit Scene(size_t spans = kFew) {
    list_.Init(ClassOfSize(kSize), &source_);
    list_.set_tick(2);
    Take(kPerSpan * spans);
    GiveWhere([=](size_t i) { return i / kPerSpan + 2 < spans && i % kPerSpan >= 4; });
    if (spans == kFew) ReleaseIdle();
    GiveWhere([=](size_t i) { return i / kPerSpan + 2 == spans && i % 2 == 0; });
    list_.set_tick(3);
    source_.on_call = [this] { AtCall(); };
  }
  ~Scene() { source_.on_call = nullptr; }

  // --- The steps, of one thread or of another.
  void Take(size_t n) {
    std::vector<void*> out(n);
    const size_t got = list_.Take(out.data(), n);
    for (size_t i = 0; i < got; ++i) {
      EXPECT_TRUE(live_.insert(out[i]).second) << "given out twice";
      EXPECT_FALSE(source_.Released(out[i])) << "given back under a live object";
    }
  }
  // Of the live objects, by address.
  void GiveWhere(const std::function<bool(size_t)>& which) {
    std::vector<void*> objects;
    size_t i = 0;
    for (void* p : live_) {
      if (which(i++)) objects.push_back(p);
    }
    for (void* p : objects) live_.erase(p);
    for (size_t at = 0; at < objects.size(); at += kMaxBatch)
      list_.Give(&objects[at], std::min(kMaxBatch, objects.size() - at));
  }
  void GiveFirst() {
    GiveWhere([](size_t i) { return i < 3; });
  }
  void GiveAll() {
    GiveWhere([](size_t) { return true; });
  }
  void GiveTwice() {
    if (live_.empty()) return;
    void* twice[] = {*live_.begin(), *live_.begin()};
    live_.erase(live_.begin());
    list_.Give(twice, 2);
    ++bad_;
  }
  void ReleaseEmpty() { list_.ReleaseEmpty(UINT32_MAX); }
  void ReleaseIdle() { list_.ReleaseIdle(UINT32_MAX, SIZE_MAX, Program::kRests); }
  void Survey() { list_.SurveyIdle(UINT32_MAX); }
  void SearchAnew() { list_.SearchAnew(); }

  // Runs `work` with each of the steps at the call of its number.
  struct Meanwhile {
    size_t call;
    void (*step)(Scene&);
  };
  size_t Run(void (*work)(Scene&), std::vector<Meanwhile> meanwhile) {
    meanwhile_ = std::move(meanwhile);
    calls_ = 0;
    work(*this);
    const size_t calls = calls_;
    meanwhile_.clear();
    Check();
    GiveAll();
    ReleaseEmpty();
    Check();
    EXPECT_TRUE(source_.live_spans.empty());
    EXPECT_EQ(source_.ReleasedPages(), 0u);
    return calls;
  }

 private:
  void AtCall() {
    ASSERT_FALSE(list_.lock().HeldByThisThread()) << "the source is called under the list's lock";
    if (in_step_) return;
    const size_t call = calls_++;
    in_step_ = true;
    for (const Meanwhile& m : meanwhile_) {
      if (m.call == call) m.step(*this);
    }
    in_step_ = false;
  }

  void Check() {
    const CentralStats s = list_.Stats();
    EXPECT_EQ(s.objects_out, live_.size());
    EXPECT_EQ(s.spans, source_.live_spans.size());
    EXPECT_EQ(s.objects_free, s.spans * kPerSpan - live_.size());
    EXPECT_EQ(source_.bad_frees.size(), bad_);
    for (Span* span : source_.live_spans) {
      EXPECT_EQ(span->state, SpanState::kSmall);
      size_t free = 0;
      for (size_t w = 0; w < span->bitmap_words; ++w)
        free += static_cast<size_t>(std::popcount(span->free_bits()[w]));
      EXPECT_EQ(free + span->allocated, kPerSpan);
    }
  }

  FakeSource source_;
  TestCentral list_;
  std::set<void*> live_;
  std::vector<Meanwhile> meanwhile_;
  size_t calls_ = 0;
  size_t bad_ = 0;
  bool in_step_ = false;
};

using Step = void (*)(Scene&);

// What one thread does, each with several calls to the source.
constexpr Step kWorks[] = {
    [](Scene& s) { s.Take(128); },
    [](Scene& s) { s.GiveAll(); },
    [](Scene& s) { s.GiveTwice(); },
    [](Scene& s) {
      s.GiveWhere([](size_t i) { return i % 3 != 0; });
      s.ReleaseIdle();
    },
    [](Scene& s) { s.Survey(); },
    [](Scene& s) {
      s.GiveAll();
      s.ReleaseEmpty();
    },
};
// What the others do meanwhile. Only the background releases and surveys, so no other does.
constexpr Step kMeanwhile[] = {
    [](Scene& s) { s.Take(5); },        [](Scene& s) { s.Take(100); },
    [](Scene& s) { s.GiveFirst(); },    [](Scene& s) { s.GiveAll(); },
    [](Scene& s) { s.ReleaseEmpty(); }, [](Scene& s) { s.SearchAnew(); },
};

TEST(CentralFreeListInterleave, AnyStepAtAnyCall) {
  for (size_t w = 0; w < std::size(kWorks); ++w) {
    const size_t calls = Scene().Run(kWorks[w], {});
    EXPECT_GT(calls, 0u) << w;
    for (size_t at = 0; at < calls; ++at) {
      for (size_t m = 0; m < std::size(kMeanwhile); ++m) {
        SCOPED_TRACE(testing::Message() << "work " << w << ", step " << m << " at call " << at);
        Scene().Run(kWorks[w], {{at, kMeanwhile[m]}});
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

// A search that goes on with the next batch finds its way, wherever the spans went meanwhile.
TEST(CentralFreeListInterleave, AnyStepBetweenTwoBatches) {
  constexpr Step kSearches[] = {[](Scene& s) { s.ReleaseIdle(); }, [](Scene& s) { s.Survey(); }};
  constexpr Step kMoves[] = {
      [](Scene& s) { s.GiveWhere([](size_t i) { return i % 4 == 0; }); },
      [](Scene& s) { s.GiveWhere([](size_t i) { return i % 4 != 0; }); },
      [](Scene& s) { s.GiveWhere([](size_t i) { return i < 12; }); },
      [](Scene& s) { s.GiveWhere([](size_t i) { return i >= 4 * IsolatedSpans::kSpans; }); },
      [](Scene& s) { s.Take(40); },
      [](Scene& s) { s.Take(kPerSpan * 20); },
      [](Scene& s) { s.GiveAll(); },
  };
  for (const Step search : kSearches) {
    const size_t calls = Scene(kMoreThanABatch).Run(search, {});
    EXPECT_GE(calls, 2u);
    for (size_t at = 0; at < calls; ++at) {
      for (size_t m = 0; m < std::size(kMoves); ++m) {
        SCOPED_TRACE(testing::Message() << "step " << m << " at call " << at);
        Scene(kMoreThanABatch).Run(search, {{at, kMoves[m]}});
      }
    }
  }
}

TEST(CentralFreeListInterleave, AnyTwoStepsAtAnyTwoCalls) {
  for (size_t w = 0; w < std::size(kWorks); ++w) {
    const size_t calls = Scene().Run(kWorks[w], {});
    for (size_t at = 0; at < calls; ++at) {
      for (size_t then = at; then <= calls; ++then) {
        for (const Step one : kMeanwhile) {
          for (const Step two : kMeanwhile) {
            SCOPED_TRACE(testing::Message() << "work " << w << " at " << at << " and " << then);
            Scene().Run(kWorks[w], {{at, one}, {then, two}});
            if (testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::test
