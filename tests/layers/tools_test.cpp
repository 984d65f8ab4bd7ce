// The Trace and Profile layers against a model: what the file says is what was called.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "strata/layers/combine/bump.h"
#include "strata/layers/combine/coalesce.h"
#include "strata/layers/combine/header.h"
#include "strata/layers/source/mmap.h"
#include "strata/layers/thread/locked.h"
#include "strata/layers/tool/profile.h"
#include "strata/layers/tool/trace.h"
#include "strata/trace/decode.h"

namespace strata::layers {
namespace {

struct Decoded {
  std::vector<trace::Event> events;
  trace::Totals totals;
  bool ended = false;
};

std::string Contents(const std::string& path) {
  FILE* file = fopen(path.c_str(), "rb");
  std::string bytes;
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof(part), file)) != 0;) bytes.append(part, n);
  fclose(file);
  return bytes;
}

Decoded Decode(const std::string& path) {
  const std::string bytes = Contents(path);
  Decoded decoded;
  trace::BlockReader reader(bytes.data(), bytes.size());
  trace::Block block;
  trace::FileHeader header;
  trace::Bytes command;
  EXPECT_TRUE(reader.Next(&block));
  EXPECT_EQ(trace::DecodeHeader(block, &header, &command), nullptr);
  while (reader.Next(&block)) {
    if (block.kind == trace::BlockKind::kEvents) {
      EXPECT_EQ(
          trace::DecodeEvents(block, [&](const trace::Event& e) { decoded.events.push_back(e); }),
          nullptr);
    } else if (block.kind == trace::BlockKind::kEnd) {
      EXPECT_EQ(trace::DecodeEnd(block, &decoded.totals), nullptr);
      decoded.ended = true;
    }
  }
  EXPECT_EQ(reader.wrong(), nullptr);
  return decoded;
}

std::string TemporaryPath() {
  std::string path = testing::TempDir() + "strata-trace-XXXXXX";
  const int fd = mkstemp(path.data());
  EXPECT_GE(fd, 0);
  close(fd);
  return path;
}

TEST(TraceLayer, WritesWhatWasCalled) {
  const std::string path = TemporaryPath();
  struct Block {
    void* p;
    size_t size;
    uint64_t object;
  };
  std::vector<trace::Event> expected;
  {
    Stack<Locked, Trace, Coalesce<>, Mmap> heap;
    void* before = heap.allocate(10);
    ASSERT_TRUE(layer<Trace>(heap).trace_to(path.c_str()));
    heap.deallocate(before, 10);  // unknown to the file
    std::mt19937 random(4);
    std::vector<Block> blocks;
    for (int i = 0; i < 20'000; ++i) {
      trace::Event event;
      event.sequence = expected.size() + 1;
      if (blocks.empty() || random() % 5 < 3) {
        event.size = random() % 3000;
        blocks.push_back({heap.allocate(event.size), event.size, event.sequence});
        ASSERT_NE(blocks.back().p, nullptr);
      } else {
        std::swap(blocks[random() % blocks.size()], blocks.back());
        event.operation = trace::Operation::kFree;
        event.object = blocks.back().object;
        heap.deallocate(blocks.back().p, blocks.back().size);
        blocks.pop_back();
      }
      expected.push_back(event);
    }
    EXPECT_EQ(layer<Trace>(heap).stop_trace(), 0);
    for (const Block& block : blocks) heap.deallocate(block.p, block.size);
  }
  const Decoded decoded = Decode(path);
  ASSERT_TRUE(decoded.ended);
  EXPECT_EQ(decoded.totals.events, expected.size());
  EXPECT_EQ(decoded.totals.unknown_frees, 1u);
  ASSERT_EQ(decoded.events.size(), expected.size());
  uint64_t time = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const trace::Event& e = decoded.events[i];
    ASSERT_EQ(e.sequence, expected[i].sequence);
    ASSERT_EQ(e.operation, expected[i].operation);
    ASSERT_EQ(e.size, expected[i].size);
    ASSERT_EQ(e.object, expected[i].object);
    ASSERT_GE(e.time, time);
    ASSERT_EQ(e.thread, decoded.events[0].thread);
    time = e.time;
  }
  unlink(path.c_str());
}

TEST(TraceLayer, ClearEndsAllBlocks) {
  const std::string path = TemporaryPath();
  Stack<Trace, Bump<>, Mmap> heap;
  ASSERT_TRUE(heap.trace_to(path.c_str()));
  for (int i = 0; i < 3; ++i) heap.allocate(7);
  heap.clear();
  EXPECT_EQ(heap.stop_trace(), 0);
  const Decoded decoded = Decode(path);
  ASSERT_EQ(decoded.events.size(), 6u);
  std::vector<bool> ended(4);
  for (size_t i = 3; i < 6; ++i) {
    EXPECT_EQ(decoded.events[i].operation, trace::Operation::kFree);
    ended.at(decoded.events[i].object) = true;
  }
  EXPECT_TRUE(ended[1] && ended[2] && ended[3]);
  unlink(path.c_str());
}

TEST(TraceLayer, AFileThatCannotBeWrittenStopsNothing) {
  Stack<Trace, SizeHeader, Coalesce<>, Mmap> heap;
  errno = 0;
  EXPECT_FALSE(heap.trace_to("/nonexistent/trace"));
  EXPECT_EQ(errno, ENOENT);
  // The header is what does not fit on a full disk.
  EXPECT_FALSE(heap.trace_to("/dev/full"));
  EXPECT_EQ(errno, ENOSPC);
  void* p = heap.allocate(5);
  ASSERT_NE(p, nullptr);
  heap.deallocate(p);
  EXPECT_EQ(heap.stop_trace(), ENOSPC);
}

using Profiled = Stack<Profile, SizeHeader, Coalesce<>, Mmap>;

[[gnu::noinline]] void* Caller(Profiled& heap, size_t size) {
  void* p = heap.allocate(size);
  asm volatile("" : : "r"(p) : "memory");  // no tail call, which would leave no trace of Caller
  return p;
}
[[gnu::noinline]] void* Other(Profiled& heap, size_t size) {
  void* p = heap.allocate(size);
  asm volatile("# not the same as Caller" : : "r"(p) : "memory");
  return p;
}

TEST(ProfileLayer, CountsBySizeSiteAndLifetime) {
  Profiled heap;
  void* kept = Caller(heap, 100);
  void* a = Caller(heap, 64);
  heap.deallocate(a);  // nothing was allocated meanwhile
  void* b = Other(heap, 127);
  void* c = Other(heap, 5000);
  heap.deallocate(b);                     // 5000 bytes later
  EXPECT_EQ(heap.by_size(7).blocks, 3u);  // 64 to 127
  EXPECT_EQ(heap.by_size(7).bytes, 291u);
  EXPECT_EQ(heap.by_size(7).live_blocks, 1u);
  EXPECT_EQ(heap.by_size(7).live_bytes, 100u);
  EXPECT_EQ(heap.by_size(13).blocks, 1u);
  EXPECT_EQ(heap.by_lifetime(0), 1u);
  EXPECT_EQ(heap.by_lifetime(13), 1u);
  std::vector<ProfileRow> rows;
  heap.for_each_site([&](const void* site, const ProfileRow& row) {
    EXPECT_NE(site, nullptr);
    rows.push_back(row);
  });
  ASSERT_EQ(rows.size(), 2u);  // where Caller and where Other call
  EXPECT_EQ(rows[0].blocks, 2u);
  EXPECT_EQ(rows[0].bytes + rows[1].bytes, 5291u);
  heap.deallocate(kept);
  heap.deallocate(c);
}

TEST(ProfileLayer, ReportNamesSizesSitesAndLifetimes) {
  Profiled heap;
  heap.deallocate(Caller(heap, 100));
  Caller(heap, 1000);
  const std::string path = TemporaryPath();
  const int fd = open(path.c_str(), O_RDWR | O_TRUNC);
  heap.write_report(fd);
  close(fd);
  const std::string text = Contents(path);
  for (const char* part : {"size up to", "127 ", "1023 ", "call site", "_test+0x", "lifetime"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  unlink(path.c_str());
}

TEST(AddressMap, AgainstAModel) {
  trace::AddressMap<uint64_t> map;
  std::map<uintptr_t, uint64_t> model;
  std::mt19937_64 random(9);
  for (int i = 0; i < 200'000; ++i) {
    const uintptr_t key = (random() % 5000 + 1) * 16;
    const auto* p = reinterpret_cast<void*>(key);
    if (random() % 2 == 0) {
      ASSERT_TRUE(map.Put(p, static_cast<uint64_t>(i)));
      model[key] = static_cast<uint64_t>(i);
    } else {
      uint64_t value = 0;
      const auto found = model.find(key);
      ASSERT_EQ(map.Take(p, &value), found != model.end());
      if (found != model.end()) {
        ASSERT_EQ(value, found->second);
        model.erase(found);
      }
    }
    ASSERT_EQ(map.size(), model.size());
  }
  size_t seen = 0;
  map.ForEach([&](const void* p, uint64_t value) {
    ASSERT_EQ(model.at(reinterpret_cast<uintptr_t>(p)), value);
    ++seen;
  });
  EXPECT_EQ(seen, model.size());
}

}  // namespace
}  // namespace strata::layers
