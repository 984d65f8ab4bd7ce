// Rules out of mapped files. See loaded_code.h.
#include "profile/unwind/loaded_code.h"

#include <dlfcn.h>

#include "base/arch.h"
#include "base/check.h"
#include "os/libc_symbol.h"
#include "profile/unwind/eh_frame.h"

namespace strata {
namespace {

constexpr uintptr_t kAddressEnd = uintptr_t{1} << arch::kAddressBits;

// Keeps the last rule that begins at or before an address.
class RuleAt final : public RuleSink {
 public:
  explicit RuleAt(uintptr_t pc) : pc_(pc) {}
  bool Add(uintptr_t pc, UnwindRule rule) override {
    if (pc > pc_) return false;  // rules come in the order of their addresses
    rule_ = rule;
    return true;
  }
  UnwindRule rule() const { return rule_; }

 private:
  uintptr_t pc_;
  UnwindRule rule_;
};

// The one layout that linkers write: pairs (code, entry), both 4 bytes from the index's begin,
// sorted by code.
struct IndexRow {
  int32_t code;
  int32_t entry;
};
constexpr uint8_t kUnsigned4 = 0x03;
constexpr uint8_t kSigned4FromIndex = 0x3b;

// The offset of the last row that begins at or before `code`, from the index.
bool FindRow(DwarfCursor rows, uint64_t count, int64_t code, int64_t* entry) {
  if (count == 0 || count > rows.left() / sizeof(IndexRow)) return false;
  const auto row = [&rows](uint64_t i) {
    IndexRow r;
    __builtin_memcpy(&r, rows.at() + i * sizeof(r), sizeof(r));
    return r;
  };
  if (row(0).code > code) return false;
  uint64_t first = 0;  // row(first).code <= code, and the row looked for is one of the next n
  for (uint64_t n = count; n > 1;) {
    const uint64_t half = n / 2;
    if (row(first + half).code <= code) first += half;
    n -= half;
  }
  *entry = row(first).entry;
  return true;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
using FindObject = int (*)(void* pc, dl_find_object* found);

// Looked up once; where there is none, each time again.
FindObject FindObjectFunction() {
  static FindObject function = nullptr;
  FindObject found = __atomic_load_n(&function, __ATOMIC_RELAXED);
  if (found == nullptr) {
    found = reinterpret_cast<FindObject>(FindInLibc("_dl_find_object"));
    __atomic_store_n(&function, found, __ATOMIC_RELAXED);
  }
  return found;
}
#endif

}  // namespace

bool CanFindLoadedCode() {
#ifdef DLFO_STRUCT_HAS_EH_DBASE
  return FindObjectFunction() != nullptr;
#else
  return false;
#endif
}

bool FindFrameIndex(uintptr_t pc, FrameIndex* index) {
#ifdef DLFO_STRUCT_HAS_EH_DBASE
  const FindObject find = pc < kAddressEnd ? FindObjectFunction() : nullptr;
  dl_find_object found;
  if (find == nullptr || find(reinterpret_cast<void*>(pc), &found) != 0) return false;
  if (found.dlfo_eh_frame == nullptr) return false;
  index->bytes = static_cast<const uint8_t*>(found.dlfo_eh_frame);
  index->size = static_cast<size_t>(static_cast<const uint8_t*>(found.dlfo_map_end) - index->bytes);
  return true;
#else
  (void)pc;
  (void)index;
  return false;
#endif
}

UnwindRule RuleByIndex(FrameIndex index, uintptr_t pc) {
  const auto begin = reinterpret_cast<uintptr_t>(index.bytes);
  DwarfCursor at(index.bytes, index.size, begin);
  const uint8_t version = at.Byte();
  const uint8_t frames_encoding = at.Byte();
  const uint8_t count_encoding = at.Byte();
  const uint8_t row_encoding = at.Byte();
  const uintptr_t frames = at.Pointer(frames_encoding, begin);
  if (!at.ok() || version != 1 || count_encoding != kUnsigned4 ||
      row_encoding != kSigned4FromIndex) {
    return {};
  }
  const uint64_t count = at.Fixed<uint32_t>();
  int64_t row;
  if (!FindRow(at, count, static_cast<int64_t>(pc - begin), &row)) return {};
  // Sections follow each other in one segment: the index, then the frames.
  const uintptr_t entry_at = begin + static_cast<uintptr_t>(row);
  const uintptr_t end = begin + index.size;
  if (frames < begin || frames >= end || entry_at < frames || entry_at >= end ||
      entry_at - frames > UINT32_MAX) {
    return {};
  }
  EhFrameReader reader({index.bytes + (frames - begin), end - frames, frames});
  FrameEntry entry;
  if (!reader.Load(static_cast<uint32_t>(entry_at - frames), &entry)) return {};
  if (pc < entry.begin || pc >= entry.end) return {};
  RuleAt rule(pc);
  reader.Run(entry, rule);
  return rule.rule();
}

}  // namespace strata
