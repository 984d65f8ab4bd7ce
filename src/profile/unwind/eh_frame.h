// The call frame information of an ELF file (.eh_frame): finds its entries and turns the program of
// each into unwind rules. Works on a copy of the section's bytes, which may be anything: what can't
// be followed becomes RuleKind::kNone. Sits in profile/unwind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/unwind/dwarf_cursor.h"
#include "profile/unwind/dwarf_registers.h"
#include "profile/unwind/unwind_rule.h"

namespace strata {

// The section's bytes, and where they lie in the process. Under 4 GiB.
struct EhFrame {
  const uint8_t* bytes = nullptr;
  size_t size = 0;
  uintptr_t address = 0;
};

// What the program of an entry has set up to some address. Only the frame pointer, the stack
// pointer and the return address are followed.
struct CfaState {
  enum class Base : uint8_t { kOther, kRegister, kPlt, kFpLoad };
  enum class Saved : uint8_t { kSame, kAtCfa, kAtFp, kUndefined, kLost };

  Base base = Base::kOther;
  uint8_t base_register = 0;
  int64_t base_offset = 0;
  Saved fp = Saved::kSame;
  int64_t fp_offset = 0;  // from the CFA
  Saved return_address = dwarf::kReturnsByRegister ? Saved::kSame : Saved::kLost;
  int64_t return_offset = 0;
  bool sp_is_cfa = true;

  UnwindRule Rule() const;  // of the architecture: x86_64/cfa_state.cpp
};

// A CIE: what a group of entries has in common.
struct CommonEntry {
  uint32_t offset = UINT32_MAX;  // in the section
  uint64_t code_align = 1;
  int64_t data_align = 1;
  uint8_t pointer_encoding = 0;
  bool has_augmentation_size = false;
  bool signal_frame = false;
  CfaState initial;
};

// An FDE: one stretch of code.
struct FrameEntry {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  const uint8_t* program = nullptr;
  size_t program_size = 0;
};

// Takes rules in the order of their addresses; each holds up to the next one.
class RuleSink {
 public:
  virtual bool Add(uintptr_t /*pc*/, UnwindRule /*rule*/) { return false; }  // false: no memory

 protected:
  ~RuleSink() = default;
};

class EhFrameReader {
 public:
  explicit EhFrameReader(EhFrame section) : section_(section) {}

  // Finds the entries in the order in which they lie there: false at the end, or at the first that
  // makes no sense. `offset` is that of the entry, for Load.
  bool Next(uint32_t* offset, FrameEntry* entry);

  // The entry at an offset that Next gave, and what belongs to it.
  bool Load(uint32_t offset, FrameEntry* entry);

  // The rules of the entry loaded last. False: no memory.
  bool Run(const FrameEntry& entry, RuleSink& sink);

 private:
  bool LoadCommon(uint32_t offset);

  EhFrame section_;
  size_t next_ = 0;
  CommonEntry common_;  // of the entry loaded last: neighbours mostly share one
};

}  // namespace strata
