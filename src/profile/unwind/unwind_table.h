// The unwind rules of one stretch of code, in 4 bytes a row: the low half of the address and a
// number of a rule, since a file has few different ones. The rows of each 64 KiB of code lie
// together and begin with one for its first byte, so a look-up searches one page only. Immutable
// once made; read by any thread. Sits in profile/unwind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/scratch_array.h"
#include "profile/unwind/eh_frame.h"
#include "profile/unwind/unwind_rule.h"

namespace strata {

// Where tables live: the kernel, or a test's.
struct TableMemory {
  void* (*map)(size_t bytes);  // zeroed and page-aligned, or null
  void (*unmap)(void* p, size_t bytes);
};

class UnwindTable {
 public:
  // Null: no memory. Entries outside of [begin, end) are left out, as are those that overlap one
  // before them. `entries_used`: how many went in.
  static UnwindTable* Make(const EhFrame& section, uintptr_t begin, uintptr_t end,
                           const TableMemory& memory, size_t* entries_used);
  static void Delete(UnwindTable* table, const TableMemory& memory);

  // `offset` from the begin of the code; below its size.
  UnwindRule Find(size_t offset) const {
    const uint32_t* first = firsts() + (offset >> kPageShift);
    const Row* row = rows() + first[0];
    size_t n = first[1] - first[0];
    const auto low = static_cast<uint16_t>(offset);
    // Invariant: row[0].low <= low, and the row looked for is one of the next n.
    while (n > 1) {
      const size_t half = n / 2;
      row = row[half].low <= low ? row + half : row;
      n -= half;
    }
    return UnwindRule::FromBits(rules()[row->rule]);
  }

  size_t bytes() const { return bytes_; }
  size_t rows_count() const { return rows_; }

 private:
  friend class TableBuilder;
  struct Row {
    uint16_t low;
    uint16_t rule;
  };
  static constexpr size_t kPageShift = 16;

  const uint32_t* firsts() const { return reinterpret_cast<const uint32_t*>(this + 1); }
  const uint32_t* rules() const { return firsts() + pages_ + 1; }
  const Row* rows() const { return reinterpret_cast<const Row*>(rules() + rule_count_); }

  size_t bytes_ = 0;  // of the mapping
  uint32_t pages_ = 0;
  uint32_t rule_count_ = 0;
  uint32_t rows_ = 0;
  [[maybe_unused]] uint32_t unused_ = 0;
  // Behind: uint32_t firsts[pages + 1], uint32_t rules[rule_count], Row rows[rows].
};

}  // namespace strata
