// Reads a trace into a plan. See plan.h.
#include "plan.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include <algorithm>

#include "strata/trace/decode.h"

namespace strata::replay {
namespace {

using trace::Block;
using trace::BlockReader;
using trace::Event;

// What sequences may leave out, at most: the buffers of threads that were killed with the program.
constexpr uint64_t kMostGaps = uint64_t{1} << 26;
constexpr uint64_t kMostEvents = UINT32_MAX - 1;

class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) Fail(path, ": cannot be read");
    size_ = static_cast<size_t>(info.st_size);
    if (size_ != 0) data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (size_ == 0 || data_ == MAP_FAILED) Fail(path, ": empty, or not a file");
    close(fd);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() { munmap(data_, size_); }
  const void* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

struct Extent {
  uint64_t events = 0;
  uint64_t last = 0;      // the highest sequence
  uint64_t good_end = 0;  // of the file: blocks from here on are not used
  trace::Wrong wrong = nullptr;
};

bool IsKnown(trace::BlockKind kind) {
  return kind >= trace::BlockKind::kHeader && kind <= trace::BlockKind::kEnd;
}

// Looks at all blocks once, so that the arrays can be made and the second round meets no surprise.
Extent Measure(const char* path, const MappedFile& file) {
  BlockReader reader(file.data(), file.size());
  Block block;
  trace::FileHeader header;
  trace::Bytes command;
  if (!reader.Next(&block)) Fail(path, ": not a trace of Strata's");
  if (trace::DecodeHeader(block, &header, &command) != nullptr) {
    Fail(path, header.version > trace::kVersion ? ": written by a later version of the format"
                                                : ": not a trace of Strata's");
  }
  Extent extent;
  extent.good_end = reader.offset();
  bool ended = false;
  while (reader.Next(&block)) {
    if (IsKnown(block.kind) && !trace::Columns().Parse(block.payload)) {
      extent.wrong = "a block whose columns make no sense";
      return extent;
    }
    if (block.kind == trace::BlockKind::kEvents) {
      if (ended) {
        extent.wrong = "calls behind the trace's end";
        return extent;
      }
      Extent with = extent;
      extent.wrong = trace::DecodeEvents(block, [&](const Event& event) {
        ++with.events;
        with.last = std::max(with.last, event.sequence);
      });
      if (extent.wrong != nullptr) return extent;
      extent = with;
    }
    // What is not needed is read too: all readers stop at the same block.
    if (block.kind == trace::BlockKind::kEnd) {
      ended = true;
      trace::Totals totals;
      extent.wrong = trace::DecodeEnd(block, &totals);
      if (extent.wrong != nullptr) return extent;
    }
    if (block.kind == trace::BlockKind::kStacks) {
      extent.wrong = trace::DecodeStacks(block, [](uint64_t, const uint64_t*, size_t) {});
      if (extent.wrong != nullptr) return extent;
    }
    extent.good_end = reader.offset();
  }
  extent.wrong = reader.wrong();
  return extent;
}

// Gives the objects slots, in the order of the calls.
class SlotTable {
 public:
  SlotTable(size_t events, Slots kind) : kind_(kind) {
    of_object_.Make(events + 1);
    free_.Make(events + 1);
  }
  uint32_t Begin(uint64_t object) {
    const uint32_t slot = free_count_ != 0 ? free_[--free_count_] : next_++;
    of_object_[object] = slot + 1;
    return slot;
  }
  // kNoSlot: the object is not known, or ended before.
  uint32_t End(uint64_t object) {
    const uint32_t slot = of_object_[object];
    if (slot == 0) return kNoSlot;
    of_object_[object] = 0;
    if (kind_ == Slots::kReused) free_[free_count_++] = slot - 1;
    return slot - 1;
  }
  size_t used() const { return next_; }

 private:
  Slots kind_;
  Array<uint32_t> of_object_;  // slot plus one; 0: none
  Array<uint32_t> free_;
  size_t free_count_ = 0;
  uint32_t next_ = 0;
};

// Sequences are nearly dense, so each event has its place, and nothing is to be sorted. `from` is
// an object until the slots are known. False: a block has the numbers of others before it, and the
// extent ends there now; the plan is to be filled anew.
bool Fill(const MappedFile& file, Extent* extent, Plan* plan) {
  plan->most_thread = 0;
  plan->events = 0;
  for (size_t i = 0; i < plan->count; ++i) plan->steps[i] = Step();
  BlockReader reader(file.data(), extent->good_end);
  for (Block block; reader.Next(&block);) {
    if (block.kind != trace::BlockKind::kEvents) continue;
    bool repeated = false;
    trace::DecodeEvents(block, [&](const Event& event) {
      Step& step = plan->steps[event.sequence - 1];
      repeated |= step.operation != Step::kNothing;
      step.size = std::min(event.size, (uint64_t{1} << Step::kSizeBits) - 1);
      step.operation = static_cast<uint8_t>(event.operation) & 0xf;
      step.alignment_log2 = event.alignment_log2 & 0x3f;
      step.from = static_cast<uint32_t>(event.object);
      plan->threads[event.sequence - 1] = event.thread;
      plan->most_thread = std::max(plan->most_thread, event.thread);
      ++plan->events;
    });
    if (repeated) {
      extent->good_end = block.offset;
      extent->wrong = "calls with the numbers of others";
      return false;
    }
  }
  return true;
}

}  // namespace

void Load(const char* path, Slots slots, Plan* plan) {
  const MappedFile file(path);
  Extent extent = Measure(path, file);
  if (extent.last > kMostEvents || extent.last > extent.events * 2 + kMostGaps)
    Fail(path, ": more calls than can be replayed");
  plan->count = extent.last;
  plan->steps.Make(plan->count);
  plan->threads.Make(plan->count);
  if (!Fill(file, &extent, plan)) Fill(file, &extent, plan);
  if (extent.wrong != nullptr) {
    char text[256];
    const int n =
        snprintf(text, sizeof(text),
                 "strata-replay: %.100s: damaged at byte %llu: %s; replaying what is before it\n",
                 path, static_cast<unsigned long long>(extent.good_end), extent.wrong);
    [[maybe_unused]] const ssize_t ignored = write(2, text, static_cast<size_t>(n));
  }
  SlotTable table(plan->count, slots);
  Array<uint64_t> sizes;  // of what is in each slot
  sizes.Make(plan->count);
  uint64_t live = 0;
  for (size_t i = 0; i < plan->count; ++i) {
    Step& step = plan->steps[i];
    if (step.operation == Step::kNothing) continue;
    const auto operation = static_cast<trace::Operation>(step.operation);
    step.from = trace::NamesObject(operation) ? table.End(step.from) : kNoSlot;
    if (step.from != kNoSlot) live -= sizes[step.from];
    if (trace::Allocates(operation)) {
      step.slot = table.Begin(i + 1);
      live += sizes[step.slot] = step.size;
      plan->peak_live = std::max(plan->peak_live, live);
    } else if (step.from == kNoSlot) {
      step.operation = Step::kNothing;
      ++plan->ignored;
    }
  }
  plan->slots = table.used();
}

}  // namespace strata::replay
