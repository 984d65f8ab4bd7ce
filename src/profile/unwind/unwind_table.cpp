// Building unwind tables. See unwind_table.h.
#include "profile/unwind/unwind_table.h"

#include <algorithm>
#include <new>

#include "base/units.h"

namespace strata {

// Gathers rows in growing arrays, then copies them into one mapping of the right size.
class TableBuilder final : public RuleSink {
 public:
  TableBuilder(uintptr_t begin, uintptr_t end) : begin_(begin), end_(end) {}

  bool Init() {
    if (!slots_.Reserve(kSlots)) return false;
    return Start();
  }

  bool Add(uintptr_t pc, UnwindRule rule) override {
    if (pc >= end_) return true;
    const size_t offset = pc - begin_;
    if (!FillTo(offset)) return false;
    const uint16_t number = NumberOf(rule);
    if (failed_) return false;
    const auto low = static_cast<uint16_t>(offset);
    Row& last = rows_[rows_.size() - 1];
    if (last.low == low) {
      // The row before may say the same now; a second one does no harm.
      last.rule = number;
      return true;
    }
    return last.rule == number || rows_.Append({low, number});
  }

  UnwindTable* Finish(const TableMemory& memory) {
    if (!FillTo(end_ - begin_ - 1) || !firsts_.Append(static_cast<uint32_t>(rows_.size())))
      return nullptr;
    const size_t bytes =
        RoundUp(sizeof(UnwindTable) + (firsts_.size() + rules_.size()) * sizeof(uint32_t) +
                    rows_.size() * sizeof(Row),
                kNativePageSize);
    void* p = memory.map(bytes);
    if (p == nullptr) return nullptr;
    auto* table = ::new (p) UnwindTable();
    table->bytes_ = bytes;
    table->pages_ = static_cast<uint32_t>(firsts_.size() - 1);
    table->rule_count_ = static_cast<uint32_t>(rules_.size());
    table->rows_ = static_cast<uint32_t>(rows_.size());
    std::copy_n(firsts_.data(), firsts_.size(), const_cast<uint32_t*>(table->firsts()));
    std::copy_n(rules_.data(), rules_.size(), const_cast<uint32_t*>(table->rules()));
    std::copy_n(rows_.data(), rows_.size(), const_cast<Row*>(table->rows()));
    return table;
  }

 private:
  using Row = UnwindTable::Row;
  static constexpr size_t kSlots = size_t{1} << 17;  // twice the numbers there are
  static constexpr size_t kMaxRules = UINT16_MAX;

  bool Start() { return NumberOf(UnwindRule()) == 0 && !failed_; }  // rule 0 is kNone

  // Opens pages up to the one that `offset` lies in; each takes over the rule before it.
  bool FillTo(size_t offset) {
    while (firsts_.size() <= offset >> UnwindTable::kPageShift) {
      const uint16_t rule = rows_.size() == 0 ? uint16_t{0} : rows_[rows_.size() - 1].rule;
      if (!firsts_.Append(static_cast<uint32_t>(rows_.size())) || !rows_.Append({0, rule}))
        return false;
    }
    return true;
  }

  // The number of a rule; of one too many, that of kNone.
  uint16_t NumberOf(UnwindRule rule) {
    size_t slot = (rule.bits() * 0x9e3779b1u) >> 15;
    for (;; slot = (slot + 1) % kSlots) {
      const uint16_t number = slots_.data()[slot];  // plus one; 0: empty
      if (number == 0) break;
      if (rules_[number - 1u] == rule.bits()) return static_cast<uint16_t>(number - 1);
    }
    if (rules_.size() == kMaxRules) return 0;
    failed_ |= !rules_.Append(rule.bits());
    if (failed_) return 0;
    slots_.data()[slot] = static_cast<uint16_t>(rules_.size());
    return static_cast<uint16_t>(rules_.size() - 1);
  }

  uintptr_t begin_;
  uintptr_t end_;
  bool failed_ = false;
  ScratchArray<uint16_t> slots_;  // a hash table of numbers
  ScratchArray<uint32_t> rules_;
  ScratchArray<uint32_t> firsts_;
  ScratchArray<Row> rows_;
};

namespace {

// All entries of the code as (offset of the code, offset of the entry), sorted.
bool ListEntries(EhFrameReader& reader, uintptr_t begin, uintptr_t end,
                 ScratchArray<uint64_t>& list) {
  uint32_t at;
  FrameEntry entry;
  while (reader.Next(&at, &entry)) {
    if (entry.begin < begin || entry.begin >= end || entry.end <= entry.begin) continue;
    if (!list.Append(uint64_t{entry.begin - begin} << 32 | at)) return false;
  }
  std::sort(list.data(), list.data() + list.size());
  return true;
}

}  // namespace

UnwindTable* UnwindTable::Make(const EhFrame& section, uintptr_t begin, uintptr_t end,
                               const TableMemory& memory, size_t* entries_used) {
  *entries_used = 0;
  if (end <= begin || end - begin > UINT32_MAX || section.size > UINT32_MAX) return nullptr;
  EhFrameReader reader(section);
  ScratchArray<uint64_t> list;
  TableBuilder builder(begin, end);
  if (!builder.Init() || !ListEntries(reader, begin, end, list)) return nullptr;
  uintptr_t covered = begin;
  for (size_t i = 0; i < list.size(); ++i) {
    FrameEntry entry;
    if (!reader.Load(static_cast<uint32_t>(list[i]), &entry) || entry.begin < covered) continue;
    // Also the few bytes of padding between functions get a row: glibc starts a fiber with a return
    // address whose call would lie there, by which unwinders know the end.
    if (entry.begin > covered && !builder.Add(covered, UnwindRule())) return nullptr;
    if (!reader.Run(entry, builder)) return nullptr;
    covered = entry.end;
    ++*entries_used;
  }
  if (covered < end && !builder.Add(covered, UnwindRule())) return nullptr;
  return builder.Finish(memory);
}

void UnwindTable::Delete(UnwindTable* table, const TableMemory& memory) {
  memory.unmap(table, table->bytes_);
}

}  // namespace strata
