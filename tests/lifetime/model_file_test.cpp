// What ModelFile lets through: whole models. Every cut and many changed bytes are refused.
#include "lifetime/model_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "golden.h"

namespace strata {
namespace {

ModelError OpenError(const std::string& bytes) {
  const std::vector<char> exact(bytes.begin(), bytes.end());  // so that asan sees its end
  return ModelFile().Open(exact.data(), exact.size());
}

TEST(ModelFile, ReadsWhatPythonWrote) {
  const std::string bytes = GoldenBytes("int8.model");
  ModelFile file;
  ASSERT_EQ(file.Open(bytes.data(), bytes.size()), ModelError::kNone);
  EXPECT_TRUE(file.is_int8());
  ASSERT_EQ(file.builds(), 1U);
  EXPECT_STREQ(file.build(0), "abababababababababababababababababababab");
  EXPECT_STREQ(file.class_name(0), "10 ms");
  EXPECT_STREQ(file.class_name(7), "never freed");
}

TEST(ModelFile, ACutFileIsTooShort) {
  const std::string bytes = GoldenBytes("f32.model");
  for (size_t n = 0; n < bytes.size(); n += n < 400 ? 1 : 997) {
    EXPECT_EQ(OpenError(bytes.substr(0, n)), ModelError::kTooShort) << n;
  }
  EXPECT_EQ(OpenError(bytes + "x"), ModelError::kDamaged);
}

TEST(ModelFile, AChangedByteIsDamage) {
  const std::string bytes = GoldenBytes("f32.model");
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string changed = bytes;
    changed[24 + random() % (bytes.size() - 24)] ^= static_cast<char>(1 << random() % 8);
    EXPECT_EQ(OpenError(changed), ModelError::kDamaged);
  }
}

TEST(ModelFile, OtherFilesAndOtherVersionsAreNamed) {
  std::string bytes = GoldenBytes("f32.model");
  EXPECT_EQ(OpenError("#!/bin/sh\n"), ModelError::kNotAModel);
  EXPECT_EQ(OpenError(std::string(5000, '\0')), ModelError::kNotAModel);
  bytes[8] = 3;
  EXPECT_EQ(OpenError(bytes), ModelError::kNewer);
  EXPECT_STREQ(TextOf(ModelError::kNewer), "of another version of strata train");
}

}  // namespace
}  // namespace strata
