// The trace format: what a file of allocation events consists of. One definition for everything
// that writes it (the recorder, the Trace layer) and that reads it (the replayer, the tests).
// docs/trace-format.md describes it for others. Header only, allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace strata::trace {

inline constexpr uint32_t kVersion = 1;
// "STB1", as the four bytes lie in the file. Every block begins with it.
inline constexpr uint32_t kBlockMagic = 0x31425453;
// Before each payload: magic, kind, three zero bytes, payload length, CRC of the 12 bytes before
// and of the payload. All numbers of fixed width are little endian.
inline constexpr size_t kBlockHeaderBytes = 16;
inline constexpr size_t kMostPayloadBytes = size_t{64} << 20;  // a reader may rely on it

enum class BlockKind : uint8_t {
  kHeader = 1,    // the first block: version, process, clock
  kEvents = 2,    // events of one thread, or of several with a column of thread numbers
  kStacks = 3,    // call stacks, each once
  kMappings = 4,  // what code is mapped where, to name the frames
  kEnd = 5,       // the recording ended in order; totals
};

// A payload is a sequence of columns: id (one byte), length (four bytes), that many bytes. A
// reader passes over columns and blocks that it does not know.
namespace column {
inline constexpr uint8_t kScalars = 0;  // in every kind: varints, those known first
inline constexpr uint8_t kText = 1;     // kHeader: the command line; kMappings: lines of maps
// kEvents
inline constexpr uint8_t kOperations = 1;   // a byte an event
inline constexpr uint8_t kSequence = 2;     // varint: how much more than the event before
inline constexpr uint8_t kTimes = 3;        // varint: nanoseconds since the event before
inline constexpr uint8_t kSizes = 4;        // varint, for each event that allocates
inline constexpr uint8_t kObjects = 5;      // varint, realloc and free: sequence minus object
inline constexpr uint8_t kAlignments = 6;   // a byte, for each kAligned: its log2
inline constexpr uint8_t kStackIds = 7;     // varint, for each event that allocates; may lack
inline constexpr uint8_t kThreads = 8;      // varint an event; lacks in a block of one thread
inline constexpr uint8_t kPredictions = 9;  // reserved: varint, predicted class of each allocation
// For each event that allocates, in an annotated trace: 0 if the object did not end, else one more
// than its lifetime.
inline constexpr uint8_t kLifetimes = 10;      // varint, in nanoseconds
inline constexpr uint8_t kLifetimeBytes = 11;  // varint, in bytes allocated meanwhile
// kStacks
inline constexpr uint8_t kDepths = 1;  // varint a stack
inline constexpr uint8_t kFrames = 2;  // varint, zigzag: difference to the frame before it
inline constexpr uint8_t kShared = 3;  // varint a stack: outermost frames of the stack before
}  // namespace column

inline constexpr size_t kMostStackFrames = 1024;
inline constexpr uint64_t kMostTime = INT64_MAX;  // nanoseconds; differences are signed

enum class Operation : uint8_t { kMalloc, kCalloc, kAligned, kRealloc, kFree };
inline constexpr uint8_t kOperations = 5;
constexpr bool Allocates(Operation op) { return op != Operation::kFree; }
constexpr bool NamesObject(Operation op) { return op >= Operation::kRealloc; }

// One call that succeeded. `sequence` numbers the calls of the process from 1; an object is known
// by the sequence of the call that made it, so no two ever have the same, and replay needs no
// addresses.
struct Event {
  uint64_t sequence = 0;
  uint64_t time = 0;    // nanoseconds since the recording began
  uint64_t size = 0;    // asked for; 0 for free
  uint64_t object = 0;  // realloc, free: the object that ended; 0: one the recording did not see
  uint32_t stack = 0;   // of the call; 0: not recorded
  uint32_t thread = 0;  // from 1, in the order of their first events
  Operation operation = Operation::kMalloc;
  uint8_t alignment_log2 = 0;  // kAligned
};

// How long the object of an event that allocates was there. Nothing that records knows it; it is
// added to a trace that is whole (strata trace --annotate).
struct Lifetime {
  bool ended = false;
  uint64_t nanoseconds = 0;  // UINT64_MAX is not kept
  uint64_t bytes = 0;        // allocated between its own allocation and its end; likewise
};

struct FileHeader {
  uint64_t version = kVersion;
  uint64_t pid = 0;
  uint64_t parent = 0;
  uint64_t start_realtime = 0;   // nanoseconds since 1970
  uint64_t start_monotonic = 0;  // nanoseconds; the zero of Event::time
  uint64_t flags = 0;
};
inline constexpr uint64_t kHasStacks = 1;

struct Totals {
  uint64_t events = 0;
  uint64_t unknown_frees = 0;  // of blocks that were there before the recording
  uint64_t lost = 0;           // events that could not be recorded
};

namespace internal {
constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
    table[i] = crc;
  }
  return table;
}
inline constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();
}  // namespace internal

// CRC-32 as gzip and zlib have it; `crc` is that of what went before.
inline uint32_t Crc32(const void* data, size_t size, uint32_t crc = 0) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ internal::kCrcTable[(crc ^ bytes[i]) & 0xff];
  return ~crc;
}

constexpr uint64_t ZigZag(int64_t n) {
  return (static_cast<uint64_t>(n) << 1) ^ static_cast<uint64_t>(n >> 63);
}
constexpr int64_t UnZigZag(uint64_t n) {
  return static_cast<int64_t>(n >> 1) ^ -static_cast<int64_t>(n & 1);
}

}  // namespace strata::trace
