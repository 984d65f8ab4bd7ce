// The parser of call frame information, on sections of the fuzzer's making: whatever they hold, no
// byte outside of them is read, rows come in order and inside of their code, and the finished table
// answers for every address.
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "profile/unwind/unwind_table.h"

namespace {

constexpr uintptr_t kSection = 0x500000;
constexpr uintptr_t kCode = 0x400000;
constexpr size_t kCodeSize = 0x30000;

void* Map(size_t bytes) { return calloc(1, bytes); }
void Unmap(void* p, size_t) { free(p); }
constexpr strata::TableMemory kMemory{Map, Unmap};

class OrderedSink final : public strata::RuleSink {
 public:
  explicit OrderedSink(const strata::FrameEntry& entry) : entry_(entry), before_(entry.begin) {}
  bool Add(uintptr_t pc, strata::UnwindRule rule) override {
    STRATA_CHECK(pc >= before_ && pc < entry_.end);
    STRATA_CHECK(rule.bits() < 1u << strata::UnwindRule::kBits);
    before_ = pc;
    return true;
  }

 private:
  const strata::FrameEntry& entry_;
  uintptr_t before_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const strata::EhFrame section{data, size, kSection};
  strata::EhFrameReader reader(section);
  uint32_t offset;
  strata::FrameEntry entry;
  while (reader.Next(&offset, &entry)) {
    OrderedSink sink(entry);
    STRATA_CHECK(reader.Run(entry, sink));
  }
  size_t entries;
  strata::UnwindTable* table =
      strata::UnwindTable::Make(section, kCode, kCode + kCodeSize, kMemory, &entries);
  STRATA_CHECK(table != nullptr);
  for (size_t at = 0; at < kCodeSize; at += 61) {
    STRATA_CHECK(table->Find(at).kind() <= strata::RuleKind::kSignal);
  }
  STRATA_CHECK(entries > 0 || table->rows_count() <= 1 + kCodeSize / 0x10000);
  strata::UnwindTable::Delete(table, kMemory);
  return 0;
}
