// Three allocators from the installed headers alone, as a newcomer would write them: a general one,
// a simple one for threads, and one that starts in a static buffer and is checked.
#include <cstring>
#include <vector>

#include <strata/layers.h>

using namespace strata::layers;
using General = Stack<Locked, Count, Bins<TaggedSteps<520>, BoundedFreeList<16>>,
                      Apart<65536, Mmap>, Coalesce<>, Mmap>;
using Simple = Stack<Locked, SizeHeader, Bins<Geometric<8192>, FreeList>, Bump<>, Mmap>;
using Early = Stack<Count, Check, Bins<PowersOfTwo<16, 1024>, FreeList>, Bump<4096>,
                    TryFirst<StaticBuffer<65536>>, Mmap>;

// How many blocks could not be had.
template <class H>
int Use() {
  static H heap;
  void* blocks[500];
  int missing = 0;
  for (size_t i = 0; i < 500; ++i) {
    blocks[i] = heap.allocate(i * 7);
    if (blocks[i] == nullptr) ++missing;
    if (blocks[i] != nullptr) memset(blocks[i], 1, i * 7);
  }
  for (size_t i = 0; i < 500; ++i)
    if (blocks[i] != nullptr) heap.deallocate(blocks[i], i * 7);
  return missing;
}

int main() {
  static General general;
  general.deallocate(general.allocate(100'000));
  const Counts& counts = layer<Count>(general).counts();
  if (counts.allocations != 1 || counts.bytes != 0 || counts.peak_bytes < 100'000) return 1;
  std::vector<int, Allocator<int, General>> numbers(general);
  for (int i = 0; i < 1000; ++i) numbers.push_back(i);
  if (numbers[999] != 999 || counts.bytes < 4000) return 1;
  return Use<General>() + Use<Simple>() + Use<Early>() == 0 ? 0 : 1;
}
