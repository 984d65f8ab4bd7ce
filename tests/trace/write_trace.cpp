// Writes a random trace with the C++ writer, reads it with the C++ reader, and prints the events
// it read: test_format.py compares them with what the Python reader says.
//   write_trace FILE SEED COUNT THREADS
//   write_trace FILE           only reads, and prints lifetimes too: `-` for what did not end
//   write_trace FILE golden    writes what tests/golden/trace_format.hex holds, and reads it so
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "random_events.h"
#include "strata/trace/decode.h"
#include "strata/trace/writer.h"

using namespace strata::trace;

namespace {

bool WriteRandom(char** words) {
  const auto number = [&](int i) { return strtoull(words[i], nullptr, 10); };
  Writer writer;
  if (!writer.Open(words[1])) return false;
  for (const Event& event : RandomEvents(number(2), number(3), static_cast<uint32_t>(number(4))))
    writer.AddAsIs(event);
  return writer.Close() == 0;
}

// A block of each kind that the readers know, the same each time; of one thread without lifetimes,
// and of several with them.
bool WriteGolden(const char* path) {
  std::vector<uint8_t> buffer(1 << 16);
  const auto append = [&, file = fopen(path, "wb")](size_t size, bool last = false) {
    const bool good = size != 0 && fwrite(buffer.data(), 1, size, file) == size;
    if (last) fclose(file);
    return good;
  };
  FileHeader header;
  header.pid = 4711;
  header.parent = 42;
  header.start_realtime = 1'700'000'000'000'000'000;
  header.start_monotonic = 123'456'789;
  header.flags = kHasStacks;
  bool good = append(EncodeHeader(header, "prog\0-x", 8, buffer.data(), buffer.size()));
  std::vector<Event> events = RandomEvents(1, 24, 3);
  const auto lifetimes = RandomLifetimes(1, events.size());
  good = good && append(EncodeEvents(events.data(), 8, buffer.data(), buffer.size()));
  good = good && append(EncodeEvents(&events[8], 16, buffer.data(), buffer.size(), &lifetimes[8]));
  BlockBuilder stacks(buffer.data(), buffer.size(), BlockKind::kStacks);
  const auto column = [&](uint8_t id, std::initializer_list<uint64_t> numbers) {
    stacks.Column(id);
    for (const uint64_t n : numbers) stacks.Varint(n);
  };
  column(column::kScalars, {2, 1});
  column(column::kDepths, {3, 3});
  column(column::kShared, {0, 2});
  column(column::kFrames, {ZigZag(0x401000), ZigZag(0x40), ZigZag(-0x10), ZigZag(0x200)});
  good = good && append(stacks.Finish());
  BlockBuilder mappings(buffer.data(), buffer.size(), BlockKind::kMappings);
  mappings.Column(column::kText);
  mappings.Bytes("00400000-00500000 r-xp 00000000 00:00 0 /prog\n", 46);
  good = good && append(mappings.Finish());
  return good && append(EncodeEnd({24, 2, 1}, buffer.data(), buffer.size()), true);
}

void Print(const Event& e) {
  printf("%lu %lu %u %lu %lu %lu %u %u", e.sequence, e.time, static_cast<unsigned>(e.operation),
         e.size, e.object, e.operation == Operation::kAligned ? 1ul << e.alignment_log2 : 0,
         e.stack, e.thread);
}
void Print(const Lifetime* l) {
  if (l != nullptr && l->ended) {
    printf(" %lu %lu", l->nanoseconds, l->bytes);
  } else {
    printf(" - -");
  }
}

}  // namespace

int main(int count, char** words) {
  if (count == 5 && !WriteRandom(words)) return 1;
  if (count == 3 && !WriteGolden(words[1])) return 1;

  const int fd = open(words[1], O_RDONLY);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0) return 1;
  const auto size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return 1;
  BlockReader reader(data, size);
  for (Block block; reader.Next(&block);) {
    if (block.kind != BlockKind::kEvents) continue;
    const Wrong wrong = DecodeEvents(block, [&](const Event& e, const Lifetime* lifetime) {
      Print(e);
      if (count != 5) Print(lifetime);
      printf("\n");
    });
    if (wrong != nullptr) return 1;
  }
  return reader.wrong() == nullptr ? 0 : 1;
}
