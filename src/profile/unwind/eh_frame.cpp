// Call frame information. See eh_frame.h. The format: DWARF 5, 6.4, with the changes of the Linux
// Standard Base (.eh_frame).
#include "profile/unwind/eh_frame.h"

#include "profile/unwind/dwarf_registers.h"

namespace strata {
namespace {

using dwarf::kFp;
using dwarf::kReturnAddress;
using dwarf::kSp;

constexpr size_t kMaxCommonBytes = 1024;

// A header: where the entry's contents lie, and the id, which is 0 in a CIE and in an FDE the
// distance back to its CIE.
struct Header {
  DwarfCursor contents;
  uint64_t id = 0;
  size_t id_offset = 0;
  size_t next = 0;  // offset of the entry behind; 0 at the end of the section
};

Header ReadHeader(const EhFrame& section, size_t offset) {
  DwarfCursor none(section.bytes, 0, 0);
  if (offset >= section.size) return {none};
  DwarfCursor at(section.bytes + offset, section.size - offset, section.address + offset);
  uint64_t length = at.Fixed<uint32_t>();
  if (length == UINT32_MAX) length = at.Fixed<uint64_t>();
  if (!at.ok() || length < 4 || length > at.left()) return {none};
  const size_t id_offset = section.size - at.left();
  DwarfCursor contents = at.Part(length);
  const uint64_t id = contents.Fixed<uint32_t>();
  return {contents, id, id_offset, id_offset + length};
}

// Runs a program. `sink` is null for that of a CIE, which must not move the address.
class Machine {
 public:
  Machine(const CommonEntry& common, uintptr_t pc, uintptr_t end, RuleSink* sink)
      : common_(common), state_(common.initial), pc_(pc), end_(end), sink_(sink) {}

  // False only for no memory: a program that can't be followed has its last rules given up.
  bool Run(DwarfCursor program) {
    while (!program.AtEnd() && pc_ < end_) {
      if (!Step(program)) return false;
      if (program.ok() && followed_) continue;
      state_.base = CfaState::Base::kOther;
      break;
    }
    return sink_ == nullptr || pc_ >= end_ || Emit();
  }
  const CfaState& state() const { return state_; }

 private:
  using Saved = CfaState::Saved;

  bool Emit() {
    return sink_->Add(pc_,
                      common_.signal_frame ? UnwindRule::Of(RuleKind::kSignal) : state_.Rule());
  }

  bool Advance(uint64_t by) {
    if (sink_ == nullptr ||
        by > (end_ - pc_) / (common_.code_align != 0 ? common_.code_align : 1)) {
      if (sink_ != nullptr && !Emit()) return false;
      pc_ = end_;
      return true;
    }
    if (by == 0) return true;
    if (!Emit()) return false;
    pc_ += by * common_.code_align;
    return true;
  }

  void Save(uint64_t reg, Saved how, int64_t offset = 0) {
    if (reg == kFp) {
      state_.fp = how;
      state_.fp_offset = offset;
    } else if (reg == kReturnAddress) {
      state_.return_address = how;
      state_.return_offset = offset;
    } else if (reg == kSp) {
      state_.sp_is_cfa = false;
    }
  }
  void SaveAtCfa(uint64_t reg, uint64_t factored) {
    // Unsigned, so that hostile factors wrap.
    Save(reg, Saved::kAtCfa,
         static_cast<int64_t>(factored * static_cast<uint64_t>(common_.data_align)));
  }
  void Restore(uint64_t reg) {
    const CfaState& from = common_.initial;
    if (reg == kFp) Save(reg, from.fp, from.fp_offset);
    if (reg == kReturnAddress) Save(reg, from.return_address, from.return_offset);
    if (reg == kSp) state_.sp_is_cfa = from.sp_is_cfa;
  }

  void SetCfa(uint64_t reg, int64_t offset) {
    state_.base = CfaState::Base::kRegister;
    state_.base_register = reg < UINT8_MAX ? static_cast<uint8_t>(reg) : UINT8_MAX;
    state_.base_offset = offset;
  }
  void SetCfaExpression(DwarfCursor& program) {
    const uint64_t size = program.Uleb();
    DwarfCursor e = program.Part(size);
    state_.base = CfaState::Base::kOther;
    if (dwarf::IsPlt(e.at(), e.left())) {
      state_.base = CfaState::Base::kPlt;
    } else if (e.left() > 0 && e.Byte() == dwarf::kFpPlus) {  // the word at fp + n
      const int64_t offset = e.Sleb();
      if (e.Byte() != 0x06 || !e.ok() || !e.AtEnd()) return;
      state_.base = CfaState::Base::kFpLoad;
      state_.base_offset = offset;
    }
  }
  void SaveAtExpression(DwarfCursor& program) {
    const uint64_t reg = program.Uleb();
    const uint64_t size = program.Uleb();
    const uint8_t* e = program.Skip(size);
    const bool at_fp = e != nullptr && size == 2 && e[0] == dwarf::kFpPlus && e[1] == 0;
    Save(reg, at_fp && reg == kFp ? Saved::kAtFp : Saved::kLost);
  }

  // False: no memory.
  bool Step(DwarfCursor& program);
  void StepExtended(uint8_t op, DwarfCursor& program);  // the CFA, and the whole state
  void StepSave(uint8_t op, DwarfCursor& program);      // where registers are saved

  static constexpr size_t kMaxRemembered = 16;  // compilers nest one deep

  const CommonEntry& common_;
  CfaState state_;
  uintptr_t pc_;
  uintptr_t end_;
  RuleSink* sink_;
  bool followed_ = true;
  CfaState remembered_[kMaxRemembered];
  size_t remembered_count_ = 0;
};

bool Machine::Step(DwarfCursor& program) {
  const uint8_t op = program.Byte();
  const uint8_t low = op & 0x3f;
  switch (op >> 6) {
    case 1:
      return Advance(low);
    case 2:
      SaveAtCfa(low, program.Uleb());
      return true;
    case 3:
      Restore(low);
      return true;
    default:
      break;
  }
  switch (op) {
    case 0x02:
      return Advance(program.Byte());
    case 0x03:
      return Advance(program.Fixed<uint16_t>());
    case 0x04:
      return Advance(program.Fixed<uint32_t>());
    case 0x01: {  // set_loc: forward only, or the rest is given up
      const uintptr_t to = program.Pointer(common_.pointer_encoding, 0);
      if (sink_ != nullptr && !Emit()) return false;
      followed_ = to >= pc_ && to <= end_;
      if (followed_) pc_ = to;
      return true;
    }
    default:
      StepExtended(op, program);
      return true;
  }
}

void Machine::StepExtended(uint8_t op, DwarfCursor& program) {
  const auto factored = [this](int64_t n) {
    return static_cast<int64_t>(static_cast<uint64_t>(n) *
                                static_cast<uint64_t>(common_.data_align));
  };
  uint64_t reg;
  switch (op) {
    case 0x00:  // nop
      return;
    case 0x0a:  // remember_state
      if (remembered_count_ == kMaxRemembered) followed_ = false;
      if (followed_) remembered_[remembered_count_++] = state_;
      return;
    case 0x0b:  // restore_state
      if (remembered_count_ == 0) followed_ = false;
      if (followed_) state_ = remembered_[--remembered_count_];
      return;
    case 0x0c:  // def_cfa
      reg = program.Uleb();
      return SetCfa(reg, static_cast<int64_t>(program.Uleb()));
    case 0x0d:  // def_cfa_register
      return SetCfa(program.Uleb(), state_.base_offset);
    case 0x0e:  // def_cfa_offset
      state_.base_offset = static_cast<int64_t>(program.Uleb());
      return;
    case 0x0f:  // def_cfa_expression
      return SetCfaExpression(program);
    case 0x12:  // def_cfa_sf
      reg = program.Uleb();
      return SetCfa(reg, factored(program.Sleb()));
    case 0x13:  // def_cfa_offset_sf
      state_.base_offset = factored(program.Sleb());
      return;
    case 0x2e:  // GNU_args_size
      program.Uleb();
      return;
    default:
      StepSave(op, program);
  }
}

void Machine::StepSave(uint8_t op, DwarfCursor& program) {
  uint64_t reg;
  switch (op) {
    case 0x05:  // offset_extended
      reg = program.Uleb();
      return SaveAtCfa(reg, program.Uleb());
    case 0x06:  // restore_extended
      return Restore(program.Uleb());
    case 0x07:  // undefined
      return Save(program.Uleb(), Saved::kUndefined);
    case 0x08:  // same_value
      return Save(program.Uleb(), Saved::kSame);
    case 0x09:  // register
      reg = program.Uleb();
      program.Uleb();
      return Save(reg, Saved::kLost);
    case 0x10:  // expression
      return SaveAtExpression(program);
    case 0x11:  // offset_extended_sf
      reg = program.Uleb();
      return SaveAtCfa(reg, static_cast<uint64_t>(program.Sleb()));
    case 0x14:  // val_offset
    case 0x15:  // val_offset_sf: a LEB either way
      reg = program.Uleb();
      program.Uleb();
      return Save(reg, Saved::kLost);
    case 0x16:  // val_expression
      reg = program.Uleb();
      program.Skip(program.Uleb());
      return Save(reg, Saved::kLost);
    case 0x2f:  // GNU_negative_offset_extended
      reg = program.Uleb();
      return SaveAtCfa(reg, ~program.Uleb() + 1);
    default:
      followed_ = false;
  }
}

}  // namespace

bool EhFrameReader::LoadCommon(uint32_t offset) {
  if (common_.offset == offset) return true;
  Header header = ReadHeader(section_, offset);
  DwarfCursor& at = header.contents;
  // Compilers write tens of bytes. A bound keeps a hostile file from having a long one run again
  // for each entry.
  if (header.next == 0 || header.id != 0 || at.left() > kMaxCommonBytes) return false;
  common_ = CommonEntry();
  const uint8_t version = at.Byte();
  const auto* letters = reinterpret_cast<const char*>(at.at());
  const size_t length = strnlen(letters, at.left());
  at.Skip(length + 1);
  if (version == 4) at.Skip(2);  // sizes of an address and of a segment selector
  common_.code_align = at.Uleb();
  common_.data_align = at.Sleb();
  const uint64_t return_register = version == 1 ? at.Byte() : at.Uleb();
  if (!at.ok() || (version != 1 && version != 3 && version != 4)) return false;
  if (length > 0) {
    if (letters[0] != 'z') return false;
    common_.has_augmentation_size = true;
    DwarfCursor data = at.Part(at.Uleb());
    for (size_t i = 1; i < length; ++i) {
      if (letters[i] == 'L') data.Byte();
      if (letters[i] == 'P') data.SkipPointer(data.Byte());
      if (letters[i] == 'R') common_.pointer_encoding = data.Byte();
      if (letters[i] == 'S') common_.signal_frame = true;
    }
    if (!data.ok()) return false;
  }
  if (!at.ok()) return false;
  Machine machine(common_, 0, 1, nullptr);
  machine.Run(at);
  common_.initial = machine.state();
  if (return_register != kReturnAddress) common_.initial.base = CfaState::Base::kOther;
  common_.offset = offset;
  return true;
}

bool EhFrameReader::Load(uint32_t offset, FrameEntry* entry) {
  Header header = ReadHeader(section_, offset);
  DwarfCursor& at = header.contents;
  if (header.next == 0 || header.id == 0 || header.id > header.id_offset) return false;
  if (!LoadCommon(static_cast<uint32_t>(header.id_offset - header.id))) return false;
  entry->begin = at.Pointer(common_.pointer_encoding, 0);
  const uintptr_t size = at.Pointer(common_.pointer_encoding & kPointerFormat, 0);
  if (common_.has_augmentation_size) at.Skip(at.Uleb());
  if (!at.ok() || entry->begin + size < entry->begin) return false;
  entry->end = entry->begin + size;
  entry->program = at.at();
  entry->program_size = at.left();
  return true;
}

bool EhFrameReader::Next(uint32_t* offset, FrameEntry* entry) {
  for (;;) {
    const Header header = ReadHeader(section_, next_);
    if (header.next == 0) return false;
    *offset = static_cast<uint32_t>(next_);
    next_ = header.next;
    if (header.id != 0 && Load(*offset, entry)) return true;
  }
}

bool EhFrameReader::Run(const FrameEntry& entry, RuleSink& sink) {
  Machine machine(common_, entry.begin, entry.end, &sink);
  return machine.Run(
      DwarfCursor(entry.program, entry.program_size,
                  section_.address + static_cast<size_t>(entry.program - section_.bytes)));
}

}  // namespace strata
