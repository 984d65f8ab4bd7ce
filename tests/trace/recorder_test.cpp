// The recorder under threads, for ThreadSanitizer as much as for the figures: some run before the
// recording begins, some end and others take their buffers over, blocks are freed by other threads
// than took them, and one goes on while the recording ends. A process has one recording, so there
// is one test; test_record.py has the rest, black-box.
#include "trace/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "strata/trace/decode.h"

namespace strata::trace {
namespace {

constexpr size_t kBoxes = 64;
constexpr unsigned kThreads = 4;
constexpr int kSteps = 10'000;

// What the preloaded functions do around the next library's.
void* Malloc(size_t size) {
  void* p = malloc(size);
  RecordAllocation(Operation::kMalloc, p, size);
  return p;
}
// So that the compiler does not mind that the old block's address is looked at afterwards.
void* (*volatile g_realloc)(void*, size_t) = realloc;
void* Resized(void* p, size_t size) {
  const uint64_t object = BeginRealloc(p);
  void* to = g_realloc(p, size);
  EndRealloc(object, p, to, size);
  return to;
}
void Free(void* p) {
  RecordFree(p);
  free(p);
}

std::atomic<void*> g_boxes[kBoxes];

void PassAround(unsigned seed, int steps) {
  std::mt19937 random(seed);
  for (int i = 0; i < steps; ++i) {
    void* p = Malloc(1 + random() % 500);
    if (random() % 4 == 0) p = Resized(p, 1 + random() % 1000);
    // acq_rel: hands the block over.
    Free(g_boxes[random() % kBoxes].exchange(p, std::memory_order_acq_rel));
  }
}

std::vector<uint8_t> Contents(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY);
  struct stat about{};
  EXPECT_TRUE(file >= 0 && fstat(file, &about) == 0) << path;
  std::vector<uint8_t> bytes(static_cast<size_t>(about.st_size));
  EXPECT_EQ(read(file, bytes.data(), bytes.size()), about.st_size);
  close(file);
  return bytes;
}

TEST(Recorder, KeepsEveryThreadsEventsInOneOrder) {
  const std::string path = testing::TempDir() + "recorder_test." + std::to_string(getpid());
  setenv("STRATATRACE_FILE", path.c_str(), 1);
  setenv("STRATATRACE_PARENT", std::to_string(getppid()).c_str(), 1);

  std::atomic<bool> over{false};
  std::thread early([&] {  // begins before the recording and goes on after it
    for (unsigned round = 1; !over; ++round) PassAround(round, 100);
  });
  StartRecording();
  for (unsigned round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t)
      threads.emplace_back(PassAround, 1000 + round * kThreads + t, kSteps);
    for (auto& t : threads) t.join();
  }
  FinishRecording();
  over = true;
  early.join();
  for (auto& box : g_boxes) free(box.load());

  // What each sequence number did: it is one event's, and an object ends once, after it began.
  const std::vector<uint8_t> bytes = Contents(path);
  std::map<uint64_t, Event> events;
  Totals totals;
  BlockReader reader(bytes.data(), bytes.size());
  for (Block block; reader.Next(&block);) {
    if (block.kind == BlockKind::kEnd) {
      EXPECT_EQ(DecodeEnd(block, &totals), nullptr);
    } else if (block.kind == BlockKind::kEvents) {
      EXPECT_EQ(DecodeEvents(block,
                             [&](const Event& e) {
                               EXPECT_TRUE(events.emplace(e.sequence, e).second) << e.sequence;
                             }),
                nullptr);
    }
  }
  EXPECT_EQ(reader.wrong(), nullptr) << "at " << reader.offset();
  EXPECT_EQ(totals.events, events.size());
  EXPECT_EQ(totals.lost, 0u);
  EXPECT_GE(events.size(), size_t{3} * kThreads * kSteps);
  std::map<uint64_t, uint64_t> ended;
  size_t across = 0;
  for (const auto& [sequence, event] : events) {
    if (event.object == 0) continue;
    EXPECT_TRUE(ended.emplace(event.object, sequence).second) << "ended twice: " << event.object;
    const auto began = events.find(event.object);
    ASSERT_NE(began, events.end()) << "object " << event.object << " never began";
    across += began->second.thread != event.thread;
  }
  EXPECT_GT(across, 0u);  // what is in the boxes after a round at least
  unlink(path.c_str());
}

}  // namespace
}  // namespace strata::trace
