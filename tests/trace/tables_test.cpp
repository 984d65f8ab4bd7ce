// The recorder's tables: addresses to objects, and stacks that are kept and written once.
#include <gtest/gtest.h>

#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "strata/trace/decode.h"
#include "trace/object_map.h"
#include "trace/stack_table.h"

namespace strata::trace {
namespace {

const void* Address(uintptr_t address) { return reinterpret_cast<const void*>(address); }

TEST(ObjectMap, AgainstAModel) {
  static ObjectMap map;
  std::map<uintptr_t, uint64_t> model;
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    // close together, and all over the address space
    const uintptr_t base = (random() % 5) * 0x1555'5555'0000 + (random() % 3 << 26);
    const uintptr_t address = base + 8 * (1 + random() % 2000);
    const uint64_t object = static_cast<uint64_t>(i) + 1;
    if (random() % 2 == 0) {
      map.Put(Address(address), object);
      model[address] = object;
    } else {
      const auto found = model.find(address);
      ASSERT_EQ(map.Has(Address(address)), found != model.end());
      ASSERT_EQ(map.Take(Address(address)), found == model.end() ? 0 : found->second);
      if (found != model.end()) model.erase(found);
    }
  }
  map.Clear();
  for (const auto& [address, object] : model) ASSERT_FALSE(map.Has(Address(address)));
  map.Put(Address(4096), 5);
  EXPECT_EQ(map.Take(Address(4096)), 5u);
}

TEST(ObjectMap, WhatLiesBeyondUserSpaceStaysUnknown) {
  static ObjectMap map;
  map.Put(Address(uintptr_t{1} << 47), 7);
  EXPECT_EQ(map.Take(Address(uintptr_t{1} << 47)), 0u);
  EXPECT_FALSE(map.Has(Address(UINTPTR_MAX - 7)));
}

// Threads that hand addresses on, as malloc and free do, and map leaves at the same time.
TEST(ObjectMap, ThreadsWithAddressesOfTheirOwn) {
  static ObjectMap map;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uintptr_t t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      for (uintptr_t i = 1; i < 100'000; ++i) {
        const void* p = Address((i % 40 << 26) + (t * 1000 + i % 1000) * 8 + 8);
        map.Put(p, i);
        if (map.Take(p) != i) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

using Frames = std::vector<uintptr_t>;

Frames RandomStack(std::mt19937_64& random) {
  Frames frames(1 + random() % 40);
  for (uintptr_t& frame : frames) frame = 0x5555'0000'0000 + random() % 50 * 16;
  // most begin as all do
  for (size_t i = 0; i < frames.size() && random() % 20 != 0; ++i)
    frames[frames.size() - 1 - i] = 0x7777'0000'0000 + i;
  return frames;
}

std::map<uint64_t, Frames> WrittenBy(StackTable& table, size_t capacity) {
  std::map<uint64_t, Frames> written;
  std::vector<uint8_t> buffer(capacity);
  table.WriteNew(buffer.data(), buffer.size(), [&](size_t size) {
    BlockReader reader(buffer.data(), size);
    Block block;
    EXPECT_TRUE(reader.Next(&block));
    EXPECT_EQ(block.kind, BlockKind::kStacks);
    const Wrong wrong = DecodeStacks(block, [&](uint64_t number, const uint64_t* frames,
                                                size_t depth) {
      EXPECT_FALSE(written.contains(number));
      written[number].assign(std::reverse_iterator(frames + depth), std::reverse_iterator(frames));
    });
    EXPECT_EQ(wrong, nullptr);
    return true;
  });
  return written;
}

TEST(StackTable, KeepsAndWritesEachStackOnce) {
  static StackTable table;
  std::map<Frames, uint32_t> model;
  std::map<uint64_t, Frames> written;
  std::mt19937_64 random(2);
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 3000; ++i) {
      const Frames frames = RandomStack(random);
      const uint32_t number = table.Intern(frames.data(), frames.size());
      const auto [known, is_new] = model.try_emplace(frames, number);
      ASSERT_EQ(known->second, number);
      if (is_new) {
        ASSERT_EQ(number, model.size());
      }
      ASSERT_EQ(table.Intern(frames.data(), frames.size()), number);
    }
    written.merge(WrittenBy(table, 5000));
    ASSERT_EQ(written.size(), model.size());
  }
  for (const auto& [frames, number] : model) ASSERT_EQ(written.at(number), frames);
  EXPECT_TRUE(WrittenBy(table, 5000).empty());
  table.Clear();
  const Frames frames{1, 2, 3};
  EXPECT_EQ(table.Intern(frames.data(), frames.size()), 1u);
  EXPECT_EQ(WrittenBy(table, 5000).at(1), frames);
}

TEST(StackTable, ThreadsAgreeOnTheNumbers) {
  static StackTable table;
  constexpr int kThreads = 4;
  std::vector<std::map<Frames, uint32_t>> seen(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t, &seen] {
      std::mt19937_64 random(7);  // the same stacks in all threads
      for (int i = 0; i < 5000; ++i) {
        const Frames frames = RandomStack(random);
        seen[static_cast<size_t>(t)][frames] = table.Intern(frames.data(), frames.size());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint32_t> numbers;
  for (const auto& [frames, number] : seen[0]) {
    numbers.insert(number);
    for (const auto& other : seen) ASSERT_EQ(other.at(frames), number);
  }
  EXPECT_EQ(numbers.size(), seen[0].size());
}

}  // namespace
}  // namespace strata::trace
