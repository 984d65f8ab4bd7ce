// A trace file of any bytes: each block is read, with the checksum made right first, so that what
// lies behind it is reached; and what is read as good is written and read again the same.
#include <vector>

#include "base/check.h"
#include "strata/trace/decode.h"
#include "strata/trace/encode.h"

namespace {

using namespace strata::trace;

void Repair(std::vector<uint8_t>& file) {
  for (size_t at = 0; file.size() - at >= kBlockHeaderBytes;) {
    uint8_t* block = &file[at];
    const size_t length = LoadWord(block + 8);
    if (length > file.size() - at - kBlockHeaderBytes) return;
    const uint32_t crc = Crc32(block + kBlockHeaderBytes, length, Crc32(block, 12));
    for (size_t i = 0; i < 4; ++i) block[12 + i] = static_cast<uint8_t>(crc >> (8 * i));
    at += kBlockHeaderBytes + length;
  }
}

void CheckAgain(const std::vector<Event>& events, const std::vector<Lifetime>& lifetimes) {
  std::vector<uint8_t> buffer(kBlockOverhead +
                              events.size() * (kMostEventBytes + kMostLifetimeBytes));
  const size_t size = EncodeEvents(events.data(), events.size(), buffer.data(), buffer.size(),
                                   lifetimes.empty() ? nullptr : lifetimes.data());
  BlockReader reader(buffer.data(), size);
  Block block;
  STRATA_CHECK(size != 0 && reader.Next(&block));
  size_t i = 0;
  const Wrong wrong = DecodeEvents(block, [&](const Event& event, const Lifetime* lifetime) {
    STRATA_CHECK((lifetime != nullptr) == (!lifetimes.empty() && Allocates(event.operation)));
    STRATA_CHECK(lifetime == nullptr || (lifetime->ended == lifetimes[i].ended &&
                                         lifetime->nanoseconds == lifetimes[i].nanoseconds &&
                                         lifetime->bytes == lifetimes[i].bytes));
    STRATA_CHECK(event.sequence == events[i].sequence && event.size == events[i].size &&
                 event.object == events[i].object && event.thread == events[i].thread &&
                 event.stack == events[i].stack && event.operation == events[i].operation &&
                 event.alignment_log2 == events[i].alignment_log2);
    ++i;
  });
  STRATA_CHECK(wrong == nullptr && i == events.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> file(data, data + size);
  Repair(file);
  BlockReader reader(file.data(), file.size());
  for (Block block; reader.Next(&block);) {
    FileHeader header;
    Bytes command;
    Totals totals;
    DecodeHeader(block, &header, &command);
    DecodeEnd(block, &totals);
    uint64_t sum = 0;
    DecodeStacks(block, [&](uint64_t, const uint64_t* frames, size_t depth) {
      for (size_t i = 0; i < depth; ++i) sum += frames[i];
    });
    asm volatile("" : : "r"(sum));  // all frames are read
    std::vector<Event> events;
    std::vector<Lifetime> lifetimes;
    const Wrong wrong = DecodeEvents(block, [&](const Event& event, const Lifetime* lifetime) {
      events.push_back(event);
      if (lifetime == nullptr) return;
      lifetimes.resize(events.size());  // those between are of frees
      lifetimes.back() = *lifetime;
    });
    if (!lifetimes.empty()) lifetimes.resize(events.size());
    if (wrong == nullptr && !events.empty()) CheckAgain(events, lifetimes);
  }
  return 0;
}
