// Makes blocks of a trace in a buffer that the caller brings: usable inside malloc. See format.h.
#pragma once

#include <cstring>

#include "strata/trace/format.h"

namespace strata::trace {

// One block: columns are begun and filled in turn. When the buffer is too small, Finish says 0.
class BlockBuilder {
 public:
  BlockBuilder(uint8_t* buffer, size_t capacity, BlockKind kind)
      : buffer_(buffer), capacity_(capacity), used_(kBlockHeaderBytes), kind_(kind) {
    if (capacity < kBlockHeaderBytes) failed_ = true;
  }

  void Column(uint8_t id) {
    CloseColumn();
    if (!Fits(5)) return;
    buffer_[used_] = id;
    used_ += 5;
    column_ = used_;
  }
  void Byte(uint8_t byte) {
    if (Fits(1)) buffer_[used_++] = byte;
  }
  void Bytes(const void* data, size_t size) {
    if (!Fits(size)) return;
    memcpy(buffer_ + used_, data, size);
    used_ += size;
  }
  void Varint(uint64_t n) {
    if (!Fits(10)) return;
    while (n >= 0x80) {
      buffer_[used_++] = static_cast<uint8_t>(n | 0x80);
      n >>= 7;
    }
    buffer_[used_++] = static_cast<uint8_t>(n);
  }
  size_t room() const { return failed_ ? 0 : capacity_ - used_; }

  // The whole block's size, from the start of the buffer.
  size_t Finish() {
    CloseColumn();
    if (failed_ || used_ - kBlockHeaderBytes > kMostPayloadBytes) return 0;
    Word(0, kBlockMagic);
    Word(4, static_cast<uint8_t>(kind_));
    Word(8, static_cast<uint32_t>(used_ - kBlockHeaderBytes));
    Word(12, Crc32(buffer_ + kBlockHeaderBytes, used_ - kBlockHeaderBytes, Crc32(buffer_, 12)));
    return used_;
  }

 private:
  bool Fits(size_t bytes) {
    failed_ |= bytes > capacity_ - used_;
    return !failed_;
  }
  void CloseColumn() {
    if (failed_ || column_ == 0) return;
    Word(column_ - 4, static_cast<uint32_t>(used_ - column_));
    column_ = 0;
  }
  void Word(size_t at, uint32_t word) {
    for (size_t i = 0; i < 4; ++i) buffer_[at + i] = static_cast<uint8_t>(word >> (8 * i));
  }

  uint8_t* buffer_;
  size_t capacity_;
  size_t used_;
  size_t column_ = 0;  // where the open column's bytes begin; 0: none is open
  BlockKind kind_;
  bool failed_ = false;
};

// What EncodeEvents needs at most: for the block, and for each event.
inline constexpr size_t kBlockOverhead = 160;
inline constexpr size_t kMostEventBytes = 64;
inline constexpr size_t kMostLifetimeBytes = 20;  // more for each event, with lifetimes

// Events in the order of their sequence; `count` is not 0. Lifetimes: one for each event, if any;
// those of events that allocate nothing are not looked at.
inline size_t EncodeEvents(const Event* events, size_t count, uint8_t* buffer, size_t capacity,
                           const Lifetime* lifetimes = nullptr) {
  BlockBuilder block(buffer, capacity, BlockKind::kEvents);
  bool mixed = false, stacks = false;
  for (size_t i = 0; i < count; ++i) {
    mixed |= events[i].thread != events[0].thread;
    stacks |= events[i].stack != 0;
  }
  block.Column(column::kScalars);
  block.Varint(count);
  block.Varint(events[0].thread);
  block.Varint(events[0].sequence);
  block.Varint(events[0].time);
  const auto each = [&](uint8_t id, auto&& put) {
    block.Column(id);
    for (size_t i = 0; i < count; ++i) put(events[i], events[i == 0 ? 0 : i - 1]);
  };
  each(column::kOperations,
       [&](const Event& e, const Event&) { block.Byte(static_cast<uint8_t>(e.operation)); });
  each(column::kSequence,
       [&](const Event& e, const Event& last) { block.Varint(e.sequence - last.sequence); });
  // A clock that steps back between CPUs is not worth a signed column.
  each(column::kTimes, [&, time = events[0].time](const Event& e, const Event&) mutable {
    block.Varint(e.time > time ? e.time - time : 0);
    if (e.time > time) time = e.time;
  });
  each(column::kSizes, [&](const Event& e, const Event&) {
    if (Allocates(e.operation)) block.Varint(e.size);
  });
  each(column::kObjects, [&](const Event& e, const Event&) {
    if (NamesObject(e.operation)) block.Varint(e.sequence - e.object);
  });
  each(column::kAlignments, [&](const Event& e, const Event&) {
    if (e.operation == Operation::kAligned) block.Byte(e.alignment_log2);
  });
  if (stacks) {
    each(column::kStackIds, [&](const Event& e, const Event&) {
      if (Allocates(e.operation)) block.Varint(e.stack);
    });
  }
  if (mixed) each(column::kThreads, [&](const Event& e, const Event&) { block.Varint(e.thread); });
  if (lifetimes != nullptr) {
    const auto put = [&](const Event& e, uint64_t Lifetime::* field) {
      const Lifetime& l = lifetimes[&e - events];
      if (Allocates(e.operation)) block.Varint(l.ended ? l.*field + 1 : 0);
    };
    each(column::kLifetimes, [&](const Event& e, const Event&) { put(e, &Lifetime::nanoseconds); });
    each(column::kLifetimeBytes, [&](const Event& e, const Event&) { put(e, &Lifetime::bytes); });
  }
  return block.Finish();
}

inline size_t EncodeHeader(const FileHeader& header, const char* command, size_t command_size,
                           uint8_t* buffer, size_t capacity) {
  BlockBuilder block(buffer, capacity, BlockKind::kHeader);
  block.Column(column::kScalars);
  for (const uint64_t n : {header.version, header.pid, header.parent, header.start_realtime,
                           header.start_monotonic, header.flags})
    block.Varint(n);
  block.Column(column::kText);
  block.Bytes(command, command_size);
  return block.Finish();
}

inline size_t EncodeEnd(const Totals& totals, uint8_t* buffer, size_t capacity) {
  BlockBuilder block(buffer, capacity, BlockKind::kEnd);
  block.Column(column::kScalars);
  for (const uint64_t n : {totals.events, totals.unknown_frees, totals.lost}) block.Varint(n);
  return block.Finish();
}

}  // namespace strata::trace
