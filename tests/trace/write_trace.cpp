// Writes a random trace with the C++ writer, reads it with the C++ reader, and prints the events
// it read: test_format.py compares them with what the Python reader says.
//   write_trace FILE SEED COUNT THREADS
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>

#include "random_events.h"
#include "strata/trace/decode.h"
#include "strata/trace/writer.h"

using namespace strata::trace;

int main(int, char** words) {
  const auto number = [&](int i) { return strtoull(words[i], nullptr, 10); };
  Writer writer;
  if (!writer.Open(words[1])) return 1;
  for (const Event& event : RandomEvents(number(2), number(3), static_cast<uint32_t>(number(4))))
    writer.AddAsIs(event);
  if (writer.Close() != 0) return 1;

  const int fd = open(words[1], O_RDONLY);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0) return 1;
  const auto size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return 1;
  BlockReader reader(data, size);
  for (Block block; reader.Next(&block);) {
    if (block.kind != BlockKind::kEvents) continue;
    const Wrong wrong = DecodeEvents(block, [](const Event& e) {
      printf("%lu %lu %u %lu %lu %lu %u %u\n", e.sequence, e.time,
             static_cast<unsigned>(e.operation), e.size, e.object,
             e.operation == Operation::kAligned ? 1ul << e.alignment_log2 : 0, e.stack, e.thread);
    });
    if (wrong != nullptr) return 1;
  }
  return reader.wrong() == nullptr ? 0 : 1;
}
