// A walk in a hostile process: files whose headers and frames the fuzzer has changed, its text of
// the maps, and its stack. Nothing outside of the stack's pages is read, the walk ends, a second
// one with a warm cache and known pages finds the same, and tables of files that went are freed.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../unwind/fake_process.h"
#include "base/check.h"
#include "profile/unwind/frame_walker.h"

namespace {

using namespace strata;

constexpr uintptr_t kFiles[] = {0x7f0000000000, 0x7f0000100000};
constexpr size_t kFunctions = 20;
constexpr size_t kStackBytes = 2 * kNativePageSize;

// Under AddressSanitizer, which sees whoever leaves a table.
void* Map(size_t bytes) { return calloc(1, bytes); }
void Unmap(void* p, size_t) { free(p); }

// Pages between others that nobody may touch.
uintptr_t StackBegin() {
  static const uintptr_t begin = [] {
    void* p = mmap(nullptr, kStackBytes + 2 * kNativePageSize, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    STRATA_CHECK(p != MAP_FAILED);
    char* pages = static_cast<char*>(p) + kNativePageSize;
    STRATA_CHECK(mprotect(pages, kStackBytes, PROT_READ | PROT_WRITE) == 0);
    return reinterpret_cast<uintptr_t>(pages);
  }();
  return begin;
}

// A word of the stack: as it is, or an address in the code or on the stack.
uintptr_t Meant(uint64_t word) {
  switch (word >> 61) {
    case 1:
    case 2:
      return kFiles[word & 1] + test::kImageCode + (word >> 1) % (kFunctions * 64 + 64);
    case 3:
      return StackBegin() + word % (kStackBytes + 64);
    case 4:
      return StackBegin() + word % kStackBytes / 8 * 8;
    default:
      return word;
  }
}

// Bytes in the first page of a file: a place and what to put there, until a place out of bounds.
size_t Patch(test::FakeProcess& process, const uint8_t* data, size_t size) {
  size_t at = 0;
  while (size - at >= 3) {
    const size_t place = data[at] | size_t{data[at + 1]} << 8;
    at += 3;
    if (place >= 2 * test::kImagePage) break;
    process.image(kFiles[place / test::kImagePage])[place % test::kImagePage] = data[at - 1];
  }
  return at;
}

struct Walk {
  uintptr_t frames[64];
  size_t count;
  WalkEnd end;
  KnownPages known;
};

Walk WalkFrom(const UnwindIndex& index, FrameRegisters at, KnownPages known) {
  Walk walk{};
  StackReader stack(known, at.sp);
  WalkPosition position(at);
  walk.end = WalkFrames(index, position, {}, stack, walk.frames, std::size(walk.frames));
  walk.count = position.count;
  walk.known = stack.known();
  STRATA_CHECK(walk.count <= std::size(walk.frames));
  return walk;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static UnwindTables tables(TableMemory{Map, Unmap});  // never ends
  test::FakeProcess process;
  process.Open(kFiles[0], kFunctions, 32, 7);
  process.Open(kFiles[1], kFunctions, 48, 8);
  const size_t used = Patch(process, data, size);
  data += used;
  size -= used;
  const size_t text = size > 0 && data[0] > 200 ? size / 2 : 0;
  const std::string maps = process.Maps() + std::string(reinterpret_cast<const char*>(data), text);
  STRATA_CHECK(tables.Refresh(test::Reading(maps), process));
  data += text;
  size -= text;

  uint64_t words[kStackBytes / 8] = {};
  memcpy(words, data, size < sizeof(words) ? size : sizeof(words));
  auto* stack = reinterpret_cast<uintptr_t*>(StackBegin());
  for (size_t i = 0; i < std::size(words); ++i) stack[i] = Meant(words[i]);
  {
    const UnwindTables::Pin pin(tables);
    FrameRegisters at;
    at.pc = kFiles[0] + test::kImageCode + 5;
    at.sp = StackBegin();
    at.bp = stack[0];
    const Walk first = WalkFrom(*pin.index(), at, {});
    const Walk again = WalkFrom(*pin.index(), at, first.known);
    STRATA_CHECK(again.count == first.count && again.end == first.end);
    STRATA_CHECK(memcmp(again.frames, first.frames, sizeof(first.frames)) == 0);
    uintptr_t out[64];
    StackReader reader(KnownPages{}, at.sp);
    STRATA_CHECK(WalkFramePointers(at, {}, reader, out, std::size(out)) <= std::size(out));
  }
  // Nothing is left of the files but one empty index, and its cache with those of the last ones.
  STRATA_CHECK(tables.Refresh(test::Reading(std::string()), process));
  STRATA_CHECK(tables.bytes() < size_t{1} << 20);
  return 0;
}
