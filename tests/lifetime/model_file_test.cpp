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

// The section's place in the file.
size_t OffsetOf(const std::string& bytes, size_t section) {
  uint64_t offset;
  memcpy(&offset, bytes.data() + 64 + section * 16, sizeof(offset));
  return offset;
}

std::string Signed(std::string bytes) {
  memset(&bytes[24], 0, sizeof(uint64_t));
  uint64_t value = 0xCBF29CE484222325;
  for (const char byte : bytes) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  memcpy(&bytes[24], &value, sizeof(value));
  return bytes;
}

TEST(ModelFile, KnownStacksAreInOrderAndHaveClassesAndShares) {
  const std::string bytes = GoldenBytes("int8.model");
  const size_t known = OffsetOf(bytes, 13), shares = OffsetOf(bytes, 14),
               classes = OffsetOf(bytes, 15);
  uint64_t stacks[3];
  memcpy(stacks, &bytes[known], sizeof(stacks));
  ModelFile file;
  ASSERT_EQ(file.Open(bytes.data(), bytes.size()), ModelError::kNone);
  for (const uint64_t stack : stacks) {
    EXPECT_NE(file.FindStack(stack).shares, nullptr);
    EXPECT_EQ(file.FindStack(stack + 1).shares, nullptr);
    EXPECT_EQ(file.FindStack(stack - 1).shares, nullptr);
  }
  EXPECT_EQ(OpenError(Signed(bytes)), ModelError::kNone);
  std::string swapped = bytes;
  std::swap(stacks[0], stacks[1]);
  memcpy(&swapped[known], stacks, sizeof(stacks));
  EXPECT_EQ(OpenError(Signed(swapped)), ModelError::kDamaged);
  for (const char none : {'\0', '\x9'}) {
    std::string changed = bytes;
    changed[classes + 2] = none;
    EXPECT_EQ(OpenError(Signed(changed)), ModelError::kDamaged);
  }
  for (const char share : {'\x1', '\xff'}) {  // one too many, one too few
    std::string changed = bytes;
    changed[shares + 2 * 8 + 1] = static_cast<char>(changed[shares + 2 * 8 + 1] + share);
    EXPECT_EQ(OpenError(Signed(changed)), ModelError::kDamaged);
  }
  for (const size_t section : {13, 14, 15}) {  // one more or less than the others have
    std::string changed = bytes;
    ++changed[64 + section * 16 + 8];
    EXPECT_EQ(OpenError(Signed(changed)), ModelError::kDamaged) << section;
  }
}

TEST(ModelFile, OtherFilesAndOtherVersionsAreNamed) {
  std::string bytes = GoldenBytes("f32.model");
  EXPECT_EQ(OpenError("#!/bin/sh\n"), ModelError::kNotAModel);
  EXPECT_EQ(OpenError(std::string(5000, '\0')), ModelError::kNotAModel);
  bytes[8] = 3;
  EXPECT_EQ(OpenError(bytes), ModelError::kOtherVersion);
  EXPECT_EQ(ModelVersionOf(bytes.data()), 3);
  bytes[8] = 5;
  EXPECT_EQ(OpenError(bytes), ModelError::kOtherVersion);
  EXPECT_STREQ(TextOf(ModelError::kOtherVersion), "of another version of strata train");
}

}  // namespace
}  // namespace strata
