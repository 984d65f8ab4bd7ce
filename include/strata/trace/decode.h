// Reads a trace that lies in memory. Nothing in the bytes is trusted: what is wrong ends the
// reading with one phrase and the offset, and what came before it stays good. See format.h.
#pragma once

#include <type_traits>

#include "strata/trace/format.h"

namespace strata::trace {

struct Bytes {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

struct Block {
  BlockKind kind = BlockKind::kHeader;
  uint64_t offset = 0;  // in the file
  Bytes payload;
};

// Null: good. Else what is wrong, for a message such as "FILE: damaged at byte N: ...".
using Wrong = const char*;

class VarintReader {
 public:
  explicit VarintReader(Bytes bytes) : at_(bytes.data), end_(bytes.data + bytes.size) {}
  // 0 when there is none, and failed() from then on.
  uint64_t Next() {
    uint64_t n = 0;
    for (unsigned shift = 0; shift < 70 && at_ != end_; shift += 7) {
      const uint8_t byte = *at_++;
      if (shift == 63 && byte > 1) break;  // would not fit 64 bits
      n |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return n;
    }
    failed_ = true;
    at_ = end_;
    return 0;
  }
  bool failed() const { return failed_; }
  bool done() const { return !failed_ && at_ == end_; }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
  bool failed_ = false;
};

inline uint32_t LoadWord(const uint8_t* p) {
  return uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
}

class BlockReader {
 public:
  BlockReader(const void* data, size_t size)
      : data_(static_cast<const uint8_t*>(data)), size_(size) {}

  // False at the end, and where something is wrong: then wrong() says what, and offset() where.
  bool Next(Block* block) {
    if (offset_ == size_ || wrong_ != nullptr) return false;
    const uint8_t* header = data_ + offset_;
    const size_t left = size_ - offset_;
    if (left < kBlockHeaderBytes) return Fail("cut off within a block's header");
    if (LoadWord(header) != kBlockMagic) return Fail("no block begins here");
    const size_t length = LoadWord(header + 8);
    if (length > kMostPayloadBytes) return Fail("an impossible block length");
    if (length > left - kBlockHeaderBytes) return Fail("cut off within a block");
    const uint8_t* payload = header + kBlockHeaderBytes;
    if (Crc32(payload, length, Crc32(header, 12)) != LoadWord(header + 12))
      return Fail("a block's checksum is wrong");
    *block = {static_cast<BlockKind>(header[4]), offset_, {payload, length}};
    offset_ += kBlockHeaderBytes + length;
    return true;
  }
  Wrong wrong() const { return wrong_; }
  uint64_t offset() const { return offset_; }

 private:
  bool Fail(Wrong what) {
    wrong_ = what;
    return false;
  }

  const uint8_t* data_;
  size_t size_;
  size_t offset_ = 0;
  Wrong wrong_ = nullptr;
};

// The columns of a payload by id; of two with one id the first counts.
class Columns {
 public:
  static constexpr size_t kMost = 16;  // those with higher ids are unknown to this version

  // False: the payload is not a sequence of columns.
  bool Parse(Bytes payload) {
    while (payload.size != 0) {
      if (payload.size < 5) return false;
      const uint8_t id = payload.data[0];
      const size_t length = LoadWord(payload.data + 1);
      if (length > payload.size - 5) return false;
      if (id < kMost && columns_[id].data == nullptr) columns_[id] = {payload.data + 5, length};
      payload = {payload.data + 5 + length, payload.size - 5 - length};
    }
    return true;
  }
  bool has(uint8_t id) const { return columns_[id].data != nullptr; }
  Bytes operator[](uint8_t id) const { return columns_[id]; }

 private:
  Bytes columns_[kMost];
};

inline Wrong DecodeHeader(const Block& block, FileHeader* header, Bytes* command) {
  if (block.kind != BlockKind::kHeader) return "does not begin with a trace's header";
  Columns columns;
  if (!columns.Parse(block.payload)) return "a header that makes no sense";
  VarintReader scalars(columns[column::kScalars]);
  header->version = scalars.Next();
  if (!scalars.failed() && header->version > kVersion) return "written by a later version";
  for (uint64_t* field : {&header->pid, &header->parent, &header->start_realtime,
                          &header->start_monotonic, &header->flags})
    *field = scalars.Next();
  if (scalars.failed()) return "a header that makes no sense";
  *command = columns[column::kText];
  return nullptr;
}

inline Wrong DecodeEnd(const Block& block, Totals* totals) {
  Columns columns;
  if (!columns.Parse(block.payload)) return "an end that makes no sense";
  VarintReader scalars(columns[column::kScalars]);
  for (uint64_t* field : {&totals->events, &totals->unknown_frees, &totals->lost})
    *field = scalars.Next();
  return scalars.failed() ? "a block without its figures" : nullptr;
}

namespace internal {

// The lifetimes of a block's allocations, where it has them.
class LifetimeReader {
 public:
  explicit LifetimeReader(const Columns& columns)
      : there_(columns.has(column::kLifetimes) && columns.has(column::kLifetimeBytes)),
        nanoseconds_(columns[column::kLifetimes]),
        bytes_(columns[column::kLifetimeBytes]) {}
  // Null: the trace does not say.
  const Lifetime* Next() {
    if (!there_) return nullptr;
    const uint64_t nanoseconds = nanoseconds_.Next(), bytes = bytes_.Next();
    wrong_ |= (nanoseconds == 0) != (bytes == 0);
    now_.ended = nanoseconds != 0;
    now_.nanoseconds = nanoseconds - now_.ended;
    now_.bytes = bytes - now_.ended;
    return &now_;
  }
  bool failed() const { return there_ && (wrong_ || nanoseconds_.failed() || bytes_.failed()); }
  bool done() const { return !there_ || (nanoseconds_.done() && bytes_.done()); }

 private:
  bool there_;
  bool wrong_ = false;
  VarintReader nanoseconds_, bytes_;
  Lifetime now_;
};

}  // namespace internal

// Hands each event to `take(const Event&)`, or to `take(const Event&, const Lifetime*)`, null where
// there is none. Of a block that turns out wrong some events may have been handed over before that
// was seen.
template <class Take>
Wrong DecodeEvents(const Block& block, Take&& take) {
  constexpr Wrong kSenseless = "events that make no sense";
  Columns columns;
  if (!columns.Parse(block.payload)) return kSenseless;
  VarintReader scalars(columns[column::kScalars]);
  const uint64_t count = scalars.Next();
  Event event;
  uint64_t thread = scalars.Next();
  event.sequence = scalars.Next();
  event.time = scalars.Next();
  const Bytes operations = columns[column::kOperations], alignments = columns[column::kAlignments];
  if (scalars.failed() || operations.size != count || event.time > kMostTime) return kSenseless;
  VarintReader sequence(columns[column::kSequence]), times(columns[column::kTimes]),
      sizes(columns[column::kSizes]), objects(columns[column::kObjects]),
      stacks(columns[column::kStackIds]), threads(columns[column::kThreads]);
  internal::LifetimeReader lifetimes(columns);
  const bool has_stacks = columns.has(column::kStackIds), mixed = columns.has(column::kThreads);
  size_t aligned = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (operations.data[i] >= kOperations) return kSenseless;
    event.operation = static_cast<Operation>(operations.data[i]);
    const uint64_t step = sequence.Next();
    if ((i != 0 && step == 0) || step > UINT64_MAX - event.sequence) return kSenseless;
    event.sequence += step;
    const uint64_t passed = times.Next();
    if (passed > kMostTime - event.time) return kSenseless;
    event.time += passed;
    event.size = Allocates(event.operation) ? sizes.Next() : 0;
    event.object = NamesObject(event.operation) ? event.sequence - objects.Next() : 0;
    event.stack =
        has_stacks && Allocates(event.operation) ? static_cast<uint32_t>(stacks.Next()) : 0;
    if (mixed) thread = threads.Next();
    event.thread = static_cast<uint32_t>(thread);
    const Lifetime* lifetime = Allocates(event.operation) ? lifetimes.Next() : nullptr;
    event.alignment_log2 = 0;
    if (event.operation == Operation::kAligned) {
      if (aligned == alignments.size || alignments.data[aligned] > 63) return kSenseless;
      event.alignment_log2 = alignments.data[aligned++];
    }
    if (event.sequence == 0 || thread == 0 || thread > UINT32_MAX ||
        event.object > event.sequence - 1)
      return kSenseless;
    if (sequence.failed() || times.failed() || sizes.failed() || objects.failed() ||
        (has_stacks && stacks.failed()) || (mixed && threads.failed()) || lifetimes.failed())
      return kSenseless;
    if constexpr (std::is_invocable_v<Take&, const Event&, const Lifetime*>) {
      take(static_cast<const Event&>(event), lifetime);
    } else {
      take(static_cast<const Event&>(event));
    }
  }
  if (!sequence.done() || !times.done() || !sizes.done() || !objects.done() || !stacks.done() ||
      !threads.done() || !lifetimes.done() || aligned != alignments.size)
    return kSenseless;
  return nullptr;
}

// Hands each stack to `take(uint64_t number, const uint64_t* frames, size_t depth)`, its outermost
// frame first.
template <class Take>
Wrong DecodeStacks(const Block& block, Take&& take) {
  constexpr Wrong kSenseless = "stacks that make no sense";
  Columns columns;
  if (!columns.Parse(block.payload)) return kSenseless;
  VarintReader scalars(columns[column::kScalars]);
  const uint64_t count = scalars.Next(), first = scalars.Next();
  VarintReader depths(columns[column::kDepths]), shared(columns[column::kShared]),
      frames(columns[column::kFrames]);
  if (scalars.failed() || count > columns[column::kDepths].size) return kSenseless;
  uint64_t stack[kMostStackFrames];
  uint64_t frame = 0, depth_before = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t depth = depths.Next(), same = shared.Next();
    if (depths.failed() || shared.failed() || depth > kMostStackFrames || same > depth ||
        same > depth_before)
      return kSenseless;
    for (uint64_t at = same; at < depth; ++at)
      stack[at] = frame += static_cast<uint64_t>(UnZigZag(frames.Next()));
    if (frames.failed()) return kSenseless;
    take(first + i, static_cast<const uint64_t*>(stack), static_cast<size_t>(depth));
    depth_before = depth;
  }
  return depths.done() && shared.done() && frames.done() ? nullptr : kSenseless;
}

}  // namespace strata::trace
