// The rows of the profiles by themselves: the value types in their order, and what a window of time
// leaves out. Samples stand for themselves here, or for a known number of others.
#include "profile/sample_profiles.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "inflate.h"
#include "proto_fields.h"
#include "sample_fixture.h"

namespace strata {
namespace {

using test::SampledHeap;
constexpr uintptr_t kBase = SampledHeap::kBase;
constexpr uint64_t kSecond = 1'000'000'000;

struct Row {
  std::vector<int64_t> values;
  std::map<std::string, std::string> labels;
};

class SampleProfiles : public testing::Test {
 protected:
  std::vector<Row> Rows(ProfileKind kind, const SampleSnapshot* since = nullptr,
                        PinnedBytesOf pinned = {}) {
    const ProfileShape shape = ShapeOf(kind);
    const int fd = memfd_create("profile", MFD_CLOEXEC);
    static NoMemory no_memory;
    PprofHeader header;
    header.mappings = {"", 0, &no_memory, 1};
    PprofWriter writer(fd, shape.types, shape.types_n, header);
    EXPECT_TRUE(AddProfileRows(writer, kind, heap.sampler, since, heap.now_ns, pinned));
    EXPECT_TRUE(writer.Finish());
    std::string packed(static_cast<size_t>(lseek(fd, 0, SEEK_CUR)), '\0');
    EXPECT_EQ(pread(fd, packed.data(), packed.size(), 0), static_cast<ssize_t>(packed.size()));
    close(fd);
    const auto profile = test::Fields(test::Inflate(packed).value_or(""));
    const std::vector<std::string> strings = test::All(profile, 6);
    std::vector<Row> rows;
    for (const std::string& sample : test::All(profile, 2)) {
      const auto fields = test::Fields(sample);
      Row row;
      for (const uint64_t n : test::Packed(fields, 2)) row.values.push_back(int64_t(n));
      for (const std::string& label : test::All(fields, 3)) {
        const auto parts = test::Fields(label);
        row.labels[strings.at(test::NumberOf(parts, 1))] =
            parts.count(2) != 0 ? strings.at(test::NumberOf(parts, 2))
                                : std::to_string(test::NumberOf(parts, 3));
      }
      rows.push_back(row);
    }
    return rows;
  }
  // The values of the only row.
  std::vector<int64_t> Only(ProfileKind kind, const SampleSnapshot* since = nullptr) {
    const std::vector<Row> rows = Rows(kind, since);
    EXPECT_EQ(rows.size(), 1u);
    return rows.empty() ? std::vector<int64_t>(20) : rows[0].values;
  }

  // Of a lifetime profile's row.
  static std::vector<int64_t> ByClass(const std::vector<int64_t>& values) {
    EXPECT_EQ(values.size(), 20u);
    return {values.begin() + 13, values.end() - 1};
  }

  SampledHeap heap{1};
};

TEST_F(SampleProfiles, AHeapsWindowShowsWhatCameInIt) {
  ASSERT_TRUE(heap.Sample(kBase, 1024, 1));
  heap.now_ns += kSecond;
  SampleSnapshot since;
  ASSERT_TRUE(since.Take(heap.sampler, ProfileKind::kHeap, heap.now_ns));
  heap.now_ns += kSecond;
  for (uintptr_t i = 1; i <= 3; ++i) ASSERT_TRUE(heap.Sample(kBase + i * 2048, 1024, 1));
  ASSERT_TRUE(heap.Free(kBase + 2048));
  EXPECT_EQ(Only(ProfileKind::kHeap), (std::vector<int64_t>{4, 4096, 3, 3072, 3}));
  EXPECT_EQ(Only(ProfileKind::kHeap, &since), (std::vector<int64_t>{3, 3072, 2, 2048, 2}));
  EXPECT_EQ(Only(ProfileKind::kPeak), (std::vector<int64_t>{4, 4096, 4}));
}

// Lives of 1 s and then of 100 s, freed by others in the first window and at home in the second.
TEST_F(SampleProfiles, ALifetimesWindowForgetsWhatWasBefore) {
  const auto live = [&](uint64_t ns, int n) {
    for (int i = 0; i < n; ++i) {
      ASSERT_TRUE(heap.Sample(kBase, 1024, 1));
      heap.now_ns += ns;
      const uint32_t thread = heap.thread, cpu = heap.cpu;
      if (ns == kSecond) heap.thread = 77, heap.cpu = 3;
      ASSERT_TRUE(heap.Free(kBase));
      heap.thread = thread;
      heap.cpu = cpu;
    }
  };
  live(kSecond, 10);
  SampleSnapshot since;
  ASSERT_TRUE(since.Take(heap.sampler, ProfileKind::kLifetime, heap.now_ns));
  live(100 * kSecond, 20);
  ASSERT_TRUE(heap.Sample(kBase, 1024, 1));

  const std::vector<int64_t> all = Only(ProfileKind::kLifetime);
  EXPECT_EQ(all[0], 30);
  EXPECT_EQ(all[1], 30 * 1024);
  EXPECT_EQ(all[2], int64_t(kSecond));
  EXPECT_EQ(all[3], int64_t(67 * kSecond));
  EXPECT_EQ(all[4], int64_t(100 * kSecond));
  // A third at 1, two thirds at 100.
  EXPECT_NEAR(double(all[5]) / kSecond, std::sqrt(10 * 66.0 * 66 + 20 * 33.0 * 33) / std::sqrt(30),
              1e-3);
  EXPECT_EQ(all[10], 33);
  EXPECT_EQ(all[11], 33);
  EXPECT_EQ(all[12], 1);
  // What lived for a whole second is of the class that begins there.
  EXPECT_EQ(ByClass(all), (std::vector<int64_t>{0, 0, 0, 10, 0, 20}));

  const std::vector<int64_t> window = Only(ProfileKind::kLifetime, &since);
  EXPECT_EQ(window[0], 20);
  EXPECT_EQ(window[3], int64_t(100 * kSecond));
  EXPECT_EQ(window[5], 0);
  for (const size_t quantile : {2, 4, 6, 7, 8, 9})  // to the width of a bucket
    EXPECT_NEAR(double(window[quantile]) / (100.0 * kSecond), 1, 0.42) << quantile;
  EXPECT_EQ(window[10], 0);
  EXPECT_EQ(window[11], 0);
  EXPECT_EQ(ByClass(window), (std::vector<int64_t>{0, 0, 0, 0, 0, 20}));
}

// To the nanosecond on either side of each edge; what lives longer than the last is left over.
TEST_F(SampleProfiles, LifetimesAreCountedByClass) {
  for (uint64_t edge = kSecond / 100; edge <= 1000 * kSecond; edge *= 10) {
    for (const uint64_t ns : {edge - 1, edge, edge}) {
      ASSERT_TRUE(heap.Sample(kBase, 1024, 1));
      heap.now_ns += ns;
      ASSERT_TRUE(heap.Free(kBase));
    }
  }
  const std::vector<int64_t> all = Only(ProfileKind::kLifetime);
  EXPECT_EQ(all[0], 18);
  EXPECT_EQ(ByClass(all), (std::vector<int64_t>{1, 3, 3, 3, 3, 3}));
}

PinnedBytes Share(void*, uintptr_t) { return {1000, 50'000}; }

TEST_F(SampleProfiles, PinnedBytesByAgeAndByWeight) {
  heap.sampler.SetInterval(1024);
  const double weight = 1 / -std::expm1(-1.0);
  heap.now_ns = 100'000 * kSecond;
  const uint64_t ages[] = {0,
                           kSecond - 1,
                           kSecond,
                           10 * kSecond - 1,
                           10 * kSecond,
                           999 * kSecond,
                           1000 * kSecond,
                           90'000 * kSecond};
  const uint64_t end = heap.now_ns;
  for (size_t i = 0; i < std::size(ages); ++i) {
    heap.now_ns = end - ages[i];
    ASSERT_TRUE(heap.Sample(kBase + i * 2048, 1024, 1));
  }
  heap.now_ns = end;
  std::map<std::string, std::map<std::string, std::vector<int64_t>>> found;
  for (const Row& row : Rows(ProfileKind::kFragmentation, nullptr, {Share, nullptr}))
    found[row.labels.at("level")][row.labels.at("age_s")] = row.values;
  for (const auto& [level, share] : {std::pair("page", 1000), std::pair("hugepage", 50'000)}) {
    const std::map<std::string, int> expected = {
        {"1", 2}, {"10", 1}, {"100", 1}, {"1000", 1}, {"10000", 1}};
    EXPECT_EQ(found[level].size(), expected.size());
    for (const auto& [age, n] : expected) {
      ASSERT_EQ(found[level].count(age), 1u) << age;
      EXPECT_NEAR(double(found[level][age][0]), n * weight * share, 1) << age;
      EXPECT_NEAR(double(found[level][age][1]), n * weight * 1024, 1) << age;
    }
  }
}

// A single sample may stand for many objects, beside fewer neighbours than that.
TEST_F(SampleProfiles, PinsNoMoreThanIsFree) {
  heap.sampler.SetInterval(1024);
  ASSERT_TRUE(heap.Sample(kBase, 64, 1));
  ASSERT_TRUE(heap.Sample(kBase + 2048, 64, 1));
  heap.now_ns += 2 * kSecond;
  const PinnedBytesOf pinned{Share, nullptr, {3000, 1e9}};
  std::map<std::string, int64_t> wasted;
  for (const Row& row : Rows(ProfileKind::kFragmentation, nullptr, pinned))
    wasted[row.labels.at("level")] += row.values[0];
  EXPECT_EQ(wasted["page"], 3000);
  EXPECT_GT(wasted["hugepage"], 1'000'000) << "of which there is enough";
}

}  // namespace
}  // namespace strata
