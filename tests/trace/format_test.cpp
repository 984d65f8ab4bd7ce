// The trace format: what is written is read back the same, and no damage to a file goes unseen or
// does harm.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "random_events.h"
#include "strata/trace/decode.h"
#include "strata/trace/encode.h"

namespace strata::trace {

static bool operator==(const Event& a, const Event& b) {
  return a.sequence == b.sequence && a.time == b.time && a.size == b.size && a.object == b.object &&
         a.stack == b.stack && a.thread == b.thread && a.operation == b.operation &&
         a.alignment_log2 == b.alignment_log2;
}

namespace {

std::vector<uint8_t> Encode(const std::vector<Event>& events, size_t a_block) {
  std::vector<uint8_t> file(4096);
  FileHeader header;
  header.pid = 77;
  header.start_monotonic = UINT64_MAX;
  file.resize(EncodeHeader(header, "a\0b", 4, file.data(), file.size()));
  for (size_t i = 0; i < events.size(); i += a_block) {
    const size_t n = std::min(a_block, events.size() - i), begin = file.size();
    file.resize(begin + kBlockOverhead + n * kMostEventBytes);
    const size_t size = EncodeEvents(&events[i], n, file.data() + begin, file.size() - begin);
    EXPECT_NE(size, 0u);
    file.resize(begin + size);
  }
  return file;
}

struct Decoded {
  std::vector<Event> events;
  Wrong wrong = nullptr;
  bool has_header = false;
};

// As the readers do: events of a block count only if the whole block is good.
Decoded Decode(const std::vector<uint8_t>& file) {
  Decoded decoded;
  // A copy of the exact size, so that AddressSanitizer sees a read past the end.
  const std::vector<uint8_t> exact(file.begin(), file.end());
  BlockReader reader(exact.data(), exact.size());
  Block block;
  FileHeader header;
  Bytes command;
  if (!reader.Next(&block)) {
    decoded.wrong = reader.wrong();
    return decoded;
  }
  decoded.wrong = DecodeHeader(block, &header, &command);
  decoded.has_header = decoded.wrong == nullptr;
  while (decoded.wrong == nullptr && reader.Next(&block)) {
    const size_t good = decoded.events.size();
    if (block.kind != BlockKind::kEvents) continue;
    decoded.wrong =
        DecodeEvents(block, [&](const Event& event) { decoded.events.push_back(event); });
    if (decoded.wrong != nullptr) decoded.events.resize(good);
  }
  if (decoded.wrong == nullptr) decoded.wrong = reader.wrong();
  return decoded;
}

TEST(TraceFormat, EventsComeBackTheSame) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto events = RandomEvents(seed, 1 + seed * seed, seed % 4 + 1);
    const Decoded decoded = Decode(Encode(events, 1 + seed * 7 % 300));
    ASSERT_EQ(decoded.wrong, nullptr) << decoded.wrong;
    ASSERT_TRUE(decoded.events == events) << "seed " << seed;
  }
}

TEST(TraceFormat, LifetimesComeBackTheSame) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto events = RandomEvents(seed, 1 + seed * 40, 3);
    const auto lifetimes = RandomLifetimes(seed, events.size());
    std::vector<uint8_t> file = Encode({}, 1);
    const size_t begin = file.size();
    file.resize(begin + kBlockOverhead + events.size() * (kMostEventBytes + kMostLifetimeBytes));
    const size_t size = EncodeEvents(events.data(), events.size(), file.data() + begin,
                                     file.size() - begin, lifetimes.data());
    ASSERT_NE(size, 0u);
    file.resize(begin + size);
    ASSERT_TRUE(Decode(file).events == events) << "who does not ask for lifetimes sees none";
    BlockReader reader(file.data(), file.size());
    Block block;
    ASSERT_TRUE(reader.Next(&block) && reader.Next(&block));
    size_t i = 0;
    const Wrong wrong = DecodeEvents(block, [&](const Event& event, const Lifetime* lifetime) {
      const Lifetime& expected = lifetimes[i++];
      ASSERT_EQ(lifetime != nullptr, Allocates(event.operation));
      if (lifetime == nullptr) return;
      ASSERT_EQ(lifetime->ended, expected.ended);
      ASSERT_EQ(lifetime->nanoseconds, expected.nanoseconds);
      ASSERT_EQ(lifetime->bytes, expected.bytes);
    });
    EXPECT_EQ(wrong, nullptr);
    EXPECT_EQ(i, events.size());
  }
}

TEST(TraceFormat, HeaderComesBackTheSame) {
  const std::vector<uint8_t> file = Encode({}, 1);
  BlockReader reader(file.data(), file.size());
  Block block;
  FileHeader header;
  Bytes command;
  ASSERT_TRUE(reader.Next(&block));
  ASSERT_EQ(DecodeHeader(block, &header, &command), nullptr);
  EXPECT_EQ(header.pid, 77u);
  EXPECT_EQ(header.start_monotonic, UINT64_MAX);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(command.data), command.size),
            std::string("a\0b", 4));
  EXPECT_FALSE(reader.Next(&block));
  EXPECT_EQ(reader.wrong(), nullptr);
}

// The buffers of the recorder are as large as EncodeEvents says it needs, and no byte larger.
TEST(TraceFormat, TheWidestEventsFitTheBound) {
  std::vector<Event> events(64);
  for (size_t i = 0; i < events.size(); ++i) {
    Event& e = events[i];
    e.operation = i % 2 == 0 ? Operation::kRealloc : Operation::kAligned;
    e.sequence = i + 1 == events.size() ? UINT64_MAX : i + 1;
    e.time = i + 1 == events.size() ? kMostTime : 0;
    e.size = UINT64_MAX;
    e.stack = e.thread = UINT32_MAX - static_cast<uint32_t>(i);
    e.alignment_log2 = i % 2 == 0 ? 0 : 63;
  }
  const Decoded decoded = Decode(Encode(events, events.size()));
  ASSERT_EQ(decoded.wrong, nullptr) << decoded.wrong;
  EXPECT_TRUE(decoded.events == events);
  uint8_t small[200];
  EXPECT_EQ(EncodeEvents(events.data(), events.size(), small, sizeof(small)), 0u);
}

TEST(TraceFormat, ATruncatedFileKeepsItsGoodBlocks) {
  constexpr size_t kBlock = 50;
  const auto events = RandomEvents(3, 400, 2);
  const std::vector<uint8_t> file = Encode(events, kBlock);
  size_t most = 0;
  for (size_t size = 0; size < file.size(); ++size) {
    const Decoded decoded = Decode({file.begin(), file.begin() + static_cast<long>(size)});
    const size_t kept = decoded.events.size();
    ASSERT_EQ(kept % kBlock, 0u);
    ASSERT_GE(kept, most);
    most = kept;
    ASSERT_TRUE(std::equal(decoded.events.begin(), decoded.events.end(), events.begin()));
  }
  EXPECT_EQ(most, events.size() - kBlock);
}

TEST(TraceFormat, EveryFlippedBitIsSeen) {
  const auto events = RandomEvents(5, 60, 3);
  std::vector<uint8_t> file = Encode(events, 20);
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    file[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const Decoded decoded = Decode(file);
    ASSERT_NE(decoded.wrong, nullptr) << "bit " << bit;
    ASSERT_TRUE(std::equal(decoded.events.begin(), decoded.events.end(), events.begin()));
    file[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
}

// Behind a right checksum: what a wrong writer, or somebody who means harm, could have made.
TEST(TraceFormat, NonsenseBehindARightChecksumDoesNoHarm) {
  std::mt19937 random(8);
  const std::vector<uint8_t> file = Encode(RandomEvents(6, 200, 2), 100);
  size_t refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<uint8_t> changed = file;
    for (size_t at = 0; at < changed.size();) {
      const size_t length = LoadWord(&changed[at + 8]);
      if (length != 0 && random() % 2 == 0)
        changed[at + kBlockHeaderBytes + random() % length] = static_cast<uint8_t>(random());
      uint8_t* block = &changed[at];
      const uint32_t crc = Crc32(block + kBlockHeaderBytes, length, Crc32(block, 12));
      for (size_t i = 0; i < 4; ++i) block[12 + i] = static_cast<uint8_t>(crc >> (8 * i));
      at += kBlockHeaderBytes + length;
    }
    const Decoded decoded = Decode(changed);
    refused += decoded.wrong != nullptr;
    for (const Event& event : decoded.events) {
      ASSERT_NE(event.sequence, 0u);
      ASSERT_NE(event.thread, 0u);
      ASSERT_LT(event.object, event.sequence);
    }
  }
  EXPECT_GT(refused, 1000u);
}

TEST(TraceFormat, UnknownBlocksAndColumnsArePassedOver) {
  std::vector<uint8_t> file = Encode({}, 1);
  uint8_t buffer[512];
  BlockBuilder foreign(buffer, sizeof(buffer), static_cast<BlockKind>(200));
  foreign.Column(3);
  foreign.Varint(12345);
  size_t size = foreign.Finish();
  file.insert(file.end(), buffer, buffer + size);
  BlockBuilder events(buffer, sizeof(buffer), BlockKind::kEvents);
  events.Column(column::kScalars);
  for (const uint64_t n : {1, 1, 1, 0, 99}) events.Varint(n);  // one more than we know
  events.Column(250);
  events.Bytes("unknown", 7);
  for (const uint8_t id : {column::kOperations, column::kSequence, column::kTimes}) {
    events.Column(id);
    events.Byte(0);
  }
  events.Column(column::kSizes);
  events.Varint(300);
  size = events.Finish();
  file.insert(file.end(), buffer, buffer + size);
  const Decoded decoded = Decode(file);
  ASSERT_EQ(decoded.wrong, nullptr) << decoded.wrong;
  ASSERT_EQ(decoded.events.size(), 1u);
  EXPECT_EQ(decoded.events[0].size, 300u);
}

TEST(TraceFormat, ALaterVersionIsRefused) {
  uint8_t buffer[256];
  FileHeader header;
  header.version = kVersion + 1;
  const size_t size = EncodeHeader(header, "", 0, buffer, sizeof(buffer));
  BlockReader reader(buffer, size);
  Block block;
  Bytes command;
  ASSERT_TRUE(reader.Next(&block));
  EXPECT_STREQ(DecodeHeader(block, &header, &command), "written by a later version");
}

TEST(TraceFormat, CrcIsThatOfGzip) {
  EXPECT_EQ(Crc32("123456789", 9), 0xcbf43926u);
  EXPECT_EQ(Crc32("56789", 5, Crc32("1234", 4)), 0xcbf43926u);
}

}  // namespace
}  // namespace strata::trace
