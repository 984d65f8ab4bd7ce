// Predictions of the golden models: those of Python, on every kernel that this machine can run; and
// the kernels against plain loops in double.
#include "lifetime/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "golden.h"

namespace strata {
namespace {

class OnEachKernel : public testing::TestWithParam<const Kernels*> {
 protected:
  void SetUp() override {
    if (!CanRun(*GetParam())) GTEST_SKIP() << "this processor has no " << GetParam()->name;
  }
};

Forecast Ask(const Model& model, const std::vector<std::string>& stack, size_t bytes) {
  std::vector<FrameRow> rows(stack.size());
  std::vector<const FrameRow*> pointers;
  for (size_t i = 0; i < stack.size(); ++i) {
    RowOf(model, stack[i].data(), stack[i].size(), &rows[i]);
    pointers.push_back(&rows[i]);
  }
  return Predict(model, pointers.data(), pointers.size(), bytes);
}

void PredictsAsPython(const std::string& kind, const Kernels& kernels) {
  const std::string bytes = GoldenBytes(kind + ".model");
  Model model;
  ASSERT_EQ(model.Open(bytes.data(), bytes.size(), kernels), ModelError::kNone);
  const auto rows = GoldenRows(kind + ".txt");
  ASSERT_GE(rows.size(), 7U);
  for (const auto& row : rows) {
    const auto stack = row.at(2).empty() ? std::vector<std::string>{} : SplitAt(row.at(2), ';');
    const Forecast asked = Ask(model, stack, std::stoull(row.at(0)));
    const auto expected = SplitAt(row.at(1), ' ');
    size_t best = 0;
    for (size_t i = 0; i < kLifetimeClasses; ++i) {
      EXPECT_NEAR(asked.odds[i], std::stod(expected.at(i)), 1e-5) << row.at(2);
      EXPECT_NEAR(asked.shares[i], std::stod(expected.at(kLifetimeClasses + i)), 1e-5) << row.at(2);
      if (std::stod(expected.at(i)) > std::stod(expected.at(best))) best = i;
    }
    EXPECT_EQ(asked.likeliest, static_cast<LifetimeClass>(best + 1));
  }
}

TEST_P(OnEachKernel, FloatsPredictAsPython) { PredictsAsPython("f32", *GetParam()); }
TEST_P(OnEachKernel, BytesPredictAsPython) { PredictsAsPython("int8", *GetParam()); }

std::vector<float> Random(std::mt19937& random, size_t n, float width) {
  std::uniform_real_distribution<float> number(-width, width);
  std::vector<float> numbers(n);
  for (float& x : numbers) x = number(random);
  return numbers;
}

TEST_P(OnEachKernel, ProductsAreThoseOfPlainLoops) {
  std::mt19937 random(7);
  for (const size_t columns : {kGates, kHeadColumns}) {
    const auto weights = Random(random, kHidden * columns, 1);
    const auto scales = Random(random, columns, 1);
    const auto x = Random(random, kHidden, 2);
    std::vector<int8_t> small(weights.size());
    for (int8_t& weight : small) weight = static_cast<int8_t>(random());
    auto floats = Random(random, columns, 1);
    auto bytes = floats;
    const auto before = floats;
    const auto raw = [](const auto& v) { return reinterpret_cast<const unsigned char*>(v.data()); };
    const auto order = columns == kGates ? RowOrder::kFromLast : RowOrder::kFromFirst;
    GetParam()->add_product(raw(weights), x.data(), kHidden, columns, order, floats.data());
    GetParam()->add_product8(raw(small), raw(scales), x.data(), kHidden, columns, order,
                             bytes.data());
    for (size_t c = 0; c < columns; ++c) {
      double sum = before[c];
      double sum8 = 0;
      for (size_t r = 0; r < kHidden; ++r) {
        sum += double{x[r]} * weights[r * columns + c];
        sum8 += double{x[r]} * small[r * columns + c];
      }
      EXPECT_NEAR(floats[c], sum, 1e-4);
      EXPECT_NEAR(bytes[c], before[c] + sum8 * scales[c], 0.02);
    }
  }
}

TEST_P(OnEachKernel, GatesAreThoseOfPlainLoops) {
  std::mt19937 random(8);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  for (const float width : {0.1F, 1.0F, 10.0F, 200.0F}) {
    const auto row = Random(random, kGates, width);
    const auto back = Random(random, kGates, width);
    const auto before = Random(random, kHidden, 1);
    auto state = before;
    GetParam()->gates(row.data(), back.data(), state.data());
    for (size_t i = 0; i < kHidden; ++i) {
      const double reset = sigmoid(double{row[i]} + back[i]);
      const double update = sigmoid(double{row[kHidden + i]} + back[kHidden + i]);
      const double fresh = std::tanh(row[2 * kHidden + i] + reset * back[2 * kHidden + i]);
      // Of sums of hundreds a float keeps four digits behind the point.
      EXPECT_NEAR(state[i], (1 - update) * fresh + update * before[i], width > 100 ? 1e-4 : 2e-6);
    }
  }
}

TEST_P(OnEachKernel, ExponentialsAreExact) {
  for (float begin = -86; begin <= 0; begin += 0.37F) {
    float x[kHeadColumns];
    for (size_t i = 0; i < kHeadColumns; ++i) x[i] = begin + 0.02F * static_cast<float>(i);
    float y[kHeadColumns];
    memcpy(y, x, sizeof(y));
    GetParam()->exponentials(y);
    for (size_t i = 0; i < kHeadColumns; ++i) {
      EXPECT_NEAR(y[i] / std::exp(double{x[i]}), 1, 1e-6) << x[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Model, OnEachKernel,
                         testing::ValuesIn(AllKernels().begin(), AllKernels().end()),
                         [](const auto& one) { return std::string(one.param->name); });

TEST(Model, IsOpenOnlyWhileItsBytesAreAModel) {
  const std::string bytes = GoldenBytes("f32.model");
  Model model;
  EXPECT_FALSE(model.is_open());
  ASSERT_EQ(model.Open(bytes.data(), bytes.size()), ModelError::kNone);
  EXPECT_TRUE(model.is_open());
  EXPECT_EQ(model.Open(bytes.data(), 400), ModelError::kTooShort);
  EXPECT_FALSE(model.is_open());
}

TEST(Model, AKnownStackIsOfTheClassWithinWhichMostDiedAndHasItsShares) {
  const std::string bytes = GoldenBytes("f32.model");
  Model model;
  ASSERT_EQ(model.Open(bytes.data(), bytes.size()), ModelError::kNone);
  const Forecast asked = Ask(model, {"known", "late"}, 64);
  EXPECT_EQ(asked.likeliest, LifetimeClass::kLong);
  const float shares[kLifetimeClasses] = {200, 0, 0, 0, 0, 0, 50, 5};
  for (size_t i = 0; i < kLifetimeClasses; ++i) {
    EXPECT_EQ(asked.odds[i], i == 6 ? 1 : 0);
    EXPECT_FLOAT_EQ(asked.shares[i], shares[i] / 255);
  }
  EXPECT_LT(Ask(model, {"late", "known"}, 64).odds[6], 1);
  EXPECT_LT(Ask(model, {"known", "late"}, 80).odds[6], 1);
  EXPECT_LT(Ask(model, {"known", "late", "known"}, 64).odds[6], 1);
}

TEST(Model, FramesBeyondTheInnermostDoNotCount) {
  const std::string bytes = GoldenBytes("f32.model");
  Model model;
  ASSERT_EQ(model.Open(bytes.data(), bytes.size()), ModelError::kNone);
  std::vector<std::string> stack(kMostFrames, "sds_new_len");
  const Forecast inner = Ask(model, stack, 64);
  stack.resize(kMostFrames + 20, "main");
  EXPECT_EQ(memcmp(Ask(model, stack, 64).odds, inner.odds, sizeof(inner.odds)), 0);
  EXPECT_NE(memcmp(Ask(model, stack, 640).odds, inner.odds, sizeof(inner.odds)), 0);
}

}  // namespace
}  // namespace strata
