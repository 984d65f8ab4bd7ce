// What a model says becomes evidence until the process knows better: with a model that is sure of
// stacks with `Staying` on them (tests/lifetime/make_golden.py), made-up stacks and names.
#include "heaps/model_answers.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>

#include "../lifetime/golden.h"
#include "../profile/sample_fixture.h"

namespace strata::test {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kMostWaitedFor = 1000 * kMs;
constexpr size_t kSize = 500;
constexpr uintptr_t kPasses = 0x10, kStays = 0x20, kMaybe = 0x30, kSeldom = 0x40, kMostly = 0x50,
                    kOuter = 0x99;

class MadeUpNames : public FrameNamer {
 public:
  MadeUpNames() : FrameNamer(NameFrames) {}
  std::map<uintptr_t, std::string> names{{kPasses, "passes"}, {kStays, "_ZN4some7StayingEv"},
                                         {kMaybe, "Maybe"},   {kSeldom, "Seldom"},
                                         {kMostly, "Mostly"}, {kOuter, "main"}};
  size_t asked = 0;
  bool fails = false;

 private:
  static bool NameFrames(FrameNamer& self, const uintptr_t* frames, size_t n,
                         FrameNames::Sink& sink) {
    auto& made_up = static_cast<MadeUpNames&>(self);
    if (made_up.fails) return false;
    for (size_t i = 0; i < n; ++i) {
      const std::string& name = made_up.names[frames[i]];
      sink.Take(frames[i], name.data(), name.size());
      ++made_up.asked;
    }
    return true;
  }
};

class ModelAnswersTest : public testing::Test {
 protected:
  ModelAnswersTest() { EXPECT_EQ(model_.Open(bytes_.data(), bytes_.size()), ModelError::kNone); }
  uintptr_t Allocate(uintptr_t caller, uintptr_t outer = kOuter, size_t size = kSize) {
    const uintptr_t p = next_;
    next_ += kPageSize;
    const uintptr_t stack[] = {0x1, caller, outer};
    sites_.push_back({Raw(KeyOf(caller, 0, ClassOfSize(size))), {11, 22}});
    SampleEvent e = heap_.At(p);
    e.site = &sites_.back();
    EXPECT_TRUE(heap_.sampler.Add(e, size, static_cast<double>(size), stack, 3));
    return p;
  }
  void Meet(uintptr_t caller) {
    const uintptr_t stack[] = {0x1, caller, kOuter};
    heap_.sampler.NotePlace({Raw(KeyOf(caller, 0, ClassOfSize(kSize))), {11, 22}}, kSize, stack, 3);
  }
  void Live(uintptr_t caller, uint64_t ns) {
    const uintptr_t p = Allocate(caller);
    heap_.now_ns += ns;
    EXPECT_TRUE(heap_.sampler.Remove(heap_.At(p)));
  }
  void Look() {
    asked_ = answers_.AskNew(model_, heap_.sampler, names_);
    EXPECT_TRUE(evidence_.Gather(heap_.sampler, heap_.now_ns));
    answers_.AddTo(evidence_);
  }
  const SiteEvidence& Of(uintptr_t caller) {
    const SiteKey key = KeyOf(caller, 0, ClassOfSize(kSize));
    for (size_t i = 0; i < evidence_.size(); ++i) {
      if (evidence_.rows()[i].site == key) return evidence_.rows()[i];
    }
    static const SiteEvidence none;
    return none;
  }

  std::string bytes_ = GoldenBytes("sure.model");
  Model model_;
  MadeUpNames names_;
  SampledHeap heap_{1};
  LifetimeEvidence evidence_;
  ModelAnswers answers_;
  std::deque<SampleSite> sites_;
  uintptr_t next_ = SampledHeap::kBase;
  size_t asked_ = 0;
};

TEST_F(ModelAnswersTest, WhatOutlivesTheUsualByTheModelLasts) {
  for (int i = 0; i < 5; ++i) Allocate(kPasses);
  Allocate(kStays);
  Look();
  EXPECT_EQ(asked_, 2u);
  EXPECT_EQ(answers_.stats().sure, 2u);
  EXPECT_GE(Of(kStays).lasted, 2);  // enough for the learner
  EXPECT_EQ(Of(kStays).passed, 0);
  EXPECT_GE(Of(kPasses).passed, 2);
  EXPECT_EQ(Of(kPasses).lasted, 0);
}

TEST_F(ModelAnswersTest, APlaceThatWasNeverSampledIsAskedAbout) {
  for (int i = 0; i < 5; ++i) Allocate(kPasses);
  Meet(kStays);
  Look();
  EXPECT_EQ(asked_, 2u);
  EXPECT_GE(Of(kStays).lasted, 2);
}

TEST_F(ModelAnswersTest, WhatIsAloneInItsSizeIsUsualThere) {
  Meet(kStays);
  Look();
  EXPECT_EQ(asked_, 1u);
  EXPECT_EQ(Of(kStays).lasted, 0);
}

TEST_F(ModelAnswersTest, WithoutAQuestionThereIsNothingToAdd) {
  Allocate(kPasses);
  EXPECT_TRUE(evidence_.Gather(heap_.sampler, heap_.now_ns));
  answers_.AddTo(evidence_);
  EXPECT_EQ(Of(kPasses).passed, 0);
}

TEST_F(ModelAnswersTest, EachStackIsAskedAboutOnce) {
  Allocate(kPasses);
  Look();
  EXPECT_EQ(asked_, 1u);
  Allocate(kPasses);
  Look();
  EXPECT_EQ(asked_, 0u);
  Allocate(kStays);
  Look();
  EXPECT_EQ(asked_, 1u);
  EXPECT_EQ(answers_.stats().asked, 2u);
  EXPECT_EQ(answers_.stats().misses, 2u);
  EXPECT_EQ(answers_.stats().hits, 1u);
  EXPECT_EQ(names_.asked, 4u);  // the frames in common once
  answers_.ForgetFrames();
  Allocate(kMaybe);
  Look();
  EXPECT_EQ(names_.asked, 7u);
}

TEST_F(ModelAnswersTest, ForgottenFramesTakeNoMemoryUntilAStackIsNew) {
  Allocate(kPasses);
  Look();
  const size_t before = answers_.bytes();
  answers_.ForgetFrames();
  const size_t without = answers_.bytes();
  EXPECT_LE(without + 4096 * 16, before);
  Look();
  EXPECT_EQ(answers_.bytes(), without);
  Allocate(kStays);
  Look();
  EXPECT_EQ(asked_, 1u);
  EXPECT_EQ(answers_.bytes(), before);
}

TEST_F(ModelAnswersTest, WhatIsMappedCounts) {
  Allocate(kPasses);
  Look();
  EXPECT_EQ(answers_.bytes() % kNativePageSize, 0u);
  EXPECT_GE(evidence_.bytes(), 4 * kNativePageSize);
  EXPECT_EQ(evidence_.bytes() % kNativePageSize, 0u);
}

TEST_F(ModelAnswersTest, AModelThatIsNotSureHasNoSay) {
  for (int i = 0; i < 5; ++i) Allocate(kPasses);
  Allocate(kMaybe);
  Look();
  EXPECT_EQ(Of(kMaybe).lasted, 0);
  EXPECT_EQ(Of(kMaybe).passed, 0);
  EXPECT_EQ(answers_.stats().sure, 1u);  // of the other
}

TEST_F(ModelAnswersTest, AClassThatFewObjectsMakeDoesNotMakeThemLast) {
  for (int i = 0; i < 5; ++i) Allocate(kPasses);
  Allocate(kSeldom);
  Look();
  EXPECT_EQ(answers_.stats().sure, 2u);
  EXPECT_EQ(Of(kSeldom).lasted, 0);
  EXPECT_GE(Of(kSeldom).passed, 2);
}

TEST_F(ModelAnswersTest, APlaceMostOfWhoseObjectsOutliveTheUsualLasts) {
  for (int i = 0; i < 5; ++i) Allocate(kPasses);
  Allocate(kMostly);
  Look();
  EXPECT_EQ(answers_.stats().sure, 1u);  // of the other
  EXPECT_GE(Of(kMostly).lasted, 2);
  EXPECT_EQ(Of(kMostly).passed, 0);
}

TEST_F(ModelAnswersTest, WhatIsUsualIsSoForObjectsNotForTheirClass) {
  for (int i = 0; i < 5; ++i) Allocate(kSeldom);
  Allocate(kStays);
  Look();
  EXPECT_GE(Of(kStays).lasted, 2);
}

TEST_F(ModelAnswersTest, WhereAllLastNothingDoes) {
  for (int i = 0; i < 5; ++i) Allocate(kStays);
  Look();
  EXPECT_EQ(Of(kStays).lasted, 0);
}

TEST_F(ModelAnswersTest, WhatTheProcessSawCounts) {
  Allocate(kStays);
  for (int i = 0; i < 20; ++i) Live(kPasses, 100 * kMs);
  for (int i = 0; i < 6; ++i) Live(kStays, 100 * kMs);
  Look();
  EXPECT_GE(Of(kStays).passed, 4);
  EXPECT_LE(Of(kStays).lasted, 1);
  EXPECT_EQ(answers_.stats().disagreements, 1u);
}

TEST_F(ModelAnswersTest, WhatDiesFirstDoesNotMakeTheRestOfABurstSeemToLast) {
  // The model says 1 s for most of them.
  for (int i = 0; i < 10; ++i) Live(kPasses, 20 * kMs);
  for (int i = 0; i < 20; ++i) Allocate(kPasses);
  Allocate(kStays);
  heap_.now_ns += 500 * kMs;
  Look();
  Look();
  EXPECT_EQ(Of(kPasses).lasted, 0);
  EXPECT_GE(Of(kStays).lasted, 2);
  heap_.now_ns += kMostWaitedFor;
  Look();
  EXPECT_GT(Of(kPasses).lasted, 10);
}

TEST_F(ModelAnswersTest, OfAStackThatIsNotKnownItSaysNothing) {
  names_.names[0x77] = "strata_allocated_before_stacks_were_known";
  for (int i = 0; i < 5; ++i) Allocate(kPasses);
  Allocate(kStays, 0x77);
  Look();
  EXPECT_EQ(Of(kStays).lasted, 0);
  EXPECT_EQ(answers_.stats().asked, 1u);
}

TEST_F(ModelAnswersTest, WhatWasSeenOnceCountsForEver) {
  for (int i = 0; i < 20; ++i) Live(kPasses, 100 * kMs);
  for (int i = 0; i < 6; ++i) Live(kStays, 100 * kMs);
  Look();
  EXPECT_EQ(Of(kStays).lasted, 0);
  for (int i = 0; i < 10; ++i) {
    heap_.now_ns += 20'000 * kMs;  // of which nothing is left soon
    Look();
    EXPECT_EQ(Of(kStays).lasted, 0);
    EXPECT_EQ(answers_.stats().disagreements, 1u);
  }
}

TEST_F(ModelAnswersTest, SlowDeathsCountAsWell) {
  for (int i = 0; i < 20; ++i) {
    Live(kPasses, 100 * kMs);
    Live(kStays, 100 * kMs);
    heap_.now_ns += 20'000 * kMs;
    Look();
  }
  EXPECT_EQ(Of(kStays).lasted, 0);
}

TEST_F(ModelAnswersTest, OddsThatAreNoNumbersSayNothing) {
  const std::string bytes = GoldenBytes("nan.model");
  ASSERT_EQ(model_.Open(bytes.data(), bytes.size()), ModelError::kNone);
  for (int i = 0; i < 5; ++i) Allocate(kPasses);
  Allocate(kStays);
  Look();
  EXPECT_EQ(asked_, 0u);
  EXPECT_EQ(answers_.stats().asked, 0u);
  EXPECT_EQ(Of(kStays).lasted, 0);
  EXPECT_EQ(Of(kPasses).passed, 0);
}

TEST_F(ModelAnswersTest, WithoutNamesItIsAskedAnotherTime) {
  Allocate(kStays);
  for (int i = 0; i < 5; ++i) Allocate(kPasses);
  names_.fails = true;
  Look();
  EXPECT_EQ(asked_, 0u);
  names_.fails = false;
  Look();
  EXPECT_EQ(asked_, 2u);
  EXPECT_GE(Of(kStays).lasted, 2);
}

TEST_F(ModelAnswersTest, MoreFramesThanThereIsRoomForGoInRounds) {
  for (uintptr_t i = 0; i < 5000; ++i) Allocate(0x10000 + i, 0x100000 + i);
  size_t all = 0;
  for (int rounds = 0; rounds < 40 && all < 5000; ++rounds) {
    Look();
    all += asked_;
  }
  EXPECT_EQ(all, 5000u);
}

TEST_F(ModelAnswersTest, TheRowSaysWhatWasPredicted) {
  Allocate(kStays);
  Allocate(kPasses);
  Look();
  size_t eights = 0, threes = 0;
  heap_.sampler.VisitRows([&](const SampleRow& row, const SampleSums&) {
    eights += row.predicted.load() == 8;
    threes += row.predicted.load() == 3;
  });
  EXPECT_EQ(eights, 1u);
  EXPECT_EQ(threes, 1u);
}

}  // namespace
}  // namespace strata::test
