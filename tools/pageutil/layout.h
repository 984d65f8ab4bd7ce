// The file that the plugin and `strata pageutil` share: sparse, in memory, mapped by the plugin
// whole. All that is known lies in it at every moment, so that the results survive whatever ends
// the program, SIGKILL too. python/strata/pageutil/shared.py reads it; where the areas begin stands
// in the header. Sits in tools/pageutil.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata::pageutil {

constexpr unsigned kPageShift = 12;
constexpr unsigned kLeafShift = 30;  // of addresses: one leaf describes 1 GiB
constexpr unsigned kAddressBits = 47;
constexpr unsigned kGrainShift = 3;  // owners are known by 8 bytes
constexpr uint64_t kPageBytes = uint64_t{1} << kPageShift;
constexpr uint64_t kLeafBytes = uint64_t{1} << kLeafShift;
constexpr size_t kRoots = size_t{1} << (kAddressBits - kLeafShift);
constexpr size_t kGrainsOfPage = kPageBytes >> kGrainShift;

// How many of each there is room for; address space is taken for all, memory for what is used.
constexpr size_t kMostLeaves = 512;
constexpr size_t kMostEpochs = size_t{1} << 20;
constexpr size_t kMostRecords = size_t{1} << 32;
constexpr size_t kMostEvents = size_t{1} << 22;
constexpr size_t kMostText = size_t{64} << 20;
constexpr size_t kMostTypes = size_t{1} << 22;
constexpr size_t kMostFrameWords = size_t{1} << 27;

constexpr uint64_t kMagic = 0x314c'4954'5547'4150;  // "PAGUTIL1"

struct Header {
  uint64_t magic;         // written last: the plugin runs
  uint64_t unit_shift;    // of what a bit stands for: 0, a byte, or 6, a cache line
  uint64_t areas[8];      // where each of Area begins in the file
  uint64_t leaf_stride;   // from one leaf to the next
  uint64_t leaf_bits[4];  // where each of LeafPart begins in a leaf
  uint64_t guest_base;    // what QEMU adds to an address of the program
  uint64_t stack;         // the first address that the program used: on its stack
  uint64_t start_ns;      // CLOCK_MONOTONIC
  uint64_t start_unix_ns;
  std::atomic<uint64_t> leaves;
  std::atomic<uint64_t> epochs;  // that have ended
  std::atomic<uint64_t>
      records;  // those behind the last epoch's belong to one that was being closed
  std::atomic<uint64_t> events;
  std::atomic<uint64_t> text;
  std::atomic<uint64_t> types;
  std::atomic<uint64_t> frame_words;
  std::atomic<uint64_t> forks;
  std::atomic<uint64_t> executes;  // attempts of the process itself
  std::atomic<uint64_t> lost;      // events, types or leaves for which there was no room
  std::atomic<uint64_t> told;      // the guest library told of allocations
};

enum Area : unsigned {
  kRootArea,
  kEpochArea,
  kRecordArea,
  kEventArea,
  kTextArea,
  kTypeArea,
  kFrameArea,
  kLeafArea
};
enum LeafPart : unsigned { kTouchedNow, kPagesNow, kTouchedEver, kOwners };

// Of an epoch's end; its records follow those of the epoch before it.
struct Epoch {
  uint64_t end_ns;
  uint64_t records_end;
  uint64_t events_end;  // mappings that were made until then
};

// A page that was touched in an epoch: its number, and how many units of it.
constexpr unsigned kCountBits = 13;
constexpr uint64_t Record(uint64_t page, uint64_t units) { return page << kCountBits | units; }

enum class EventKind : uint64_t { kMap = 1, kBreak = 2, kMove = 3, kSnapshot = 4 };

struct Event {
  EventKind kind;
  uint64_t start;  // kMove: of the new place
  uint64_t size;
  uint64_t flags;  // of mmap; kMove: the old place
  uint64_t offset;
  uint64_t text;         // a path, for a file; kSnapshot: /proc/self/maps
  uint64_t text_length;  // 0: no file
};

// A size class and who allocated.
struct Type {
  uint64_t size;   // usable
  uint64_t stack;  // where it begins in the frames: their number, then they; 0: none
  uint64_t allocations;
};

// What lies at 8 bytes of memory: the type's number plus one, and what is known of the block.
constexpr uint32_t kFreedBit = 1u << 31;      // nothing does any more
constexpr uint32_t kStartBit = 1u << 30;      // the block begins here
constexpr uint32_t kWholePageBit = 1u << 29;  // the other grains of the page as well
constexpr uint32_t kTypeMask = kWholePageBit - 1;

static_assert(sizeof(Header) == 30 * sizeof(uint64_t), "shared.py counts its words");

}  // namespace strata::pageutil
