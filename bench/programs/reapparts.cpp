// A reap and the same of parts: a window that is bumped through until the first free, over a heap
// that joins neighbours at once (Coalesce): why the reap is a layer of its own. Where blocks are
// freed, each step of the window of Stack<Nested, Window, Coalesce<>, Mmap> is a question to
// another layer. Instructions a call, and the most that is held, reap and parts:
//   region 69, 128 KiB / 71, 128 KiB; server 145, 80 KiB / 178, 128 KiB;
//   reverse 105, 128 KiB / 141, 128 KiB; churn 388, 768 KiB / 263, 768 KiB.
// The heap itself is 840 bytes / 944.
//   --heap=reap|parts
//   --load=region   requests of 300 blocks of 16 to 400 bytes; nothing is freed before the end
//   --load=server   the same, of which a third is freed at once
//   --load=reverse  the same, of which all are freed, the newest first
//   --load=churn    3,000 blocks, of which a random one is freed and another taken
//   --requests=N    of 300 calls each
// Prints the bytes held at most. Instructions: valgrind --tool=callgrind, with two numbers of
// requests.
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "common.h"
#include "strata/layers.h"

namespace {

using namespace strata::layers;

// Hands out a block of the heap below piece by piece, each with a tag of its own, as that heap tags
// what it cuts: so it takes them back one by one. Until the first free: then that heap serves.
template <size_t kFirst, size_t kMost>
struct Window {
  template <Heap Below>
  class On : public Through<Below> {
    using Block = TaggedBlock;

   public:
    using Through<Below>::Through;
    void* allocate(size_t size) {
      const size_t bytes = Block::BytesFor(size);
      if (bytes > left_ || size > kMaxRequest) [[unlikely]]
        return AllocateSlow(size);
      Block* b = rest_;
      rest_ = b->At(static_cast<ptrdiff_t>(bytes));
      left_ -= bytes;
      b->SetNewest(bytes);
      return b;
    }
    void deallocate(void* p, size_t) { deallocate(p); }
    void deallocate(void* p) {
      PutAway();
      next_chunk_ = 0;
      this->next_.deallocate(p);
    }
    void clear() {
      rest_ = nullptr;
      left_ = 0;
      next_chunk_ = kFirst;
      this->next_.clear();
    }

   private:
    [[gnu::noinline]] void* AllocateSlow(size_t size) {
      if (next_chunk_ == 0 || size > kMost / 4) return this->next_.allocate(size);
      PutAway();
      const size_t bytes = next_chunk_ - 64 - Block::kTag;
      void* chunk = this->next_.allocate(bytes);
      if (chunk == nullptr) return nullptr;
      if (next_chunk_ < kMost) next_chunk_ *= 2;
      rest_ = Block::Of(chunk);
      // A block stays at the end, so that the last piece has a neighbour to tell.
      left_ = rest_->size() - Block::kLeast;
      rest_->At(static_cast<ptrdiff_t>(left_))->SetInUse(Block::kLeast, Block::Neighbour::kInUse);
      return allocate(size);
    }
    // What is left becomes a block, and goes.
    void PutAway() {
      if (left_ == 0) return;
      rest_->SetNewest(left_);
      if (left_ >= Block::kLeast) this->next_.deallocate(rest_->payload());
      left_ = 0;
    }

    Block* rest_ = nullptr;
    size_t left_ = 0;
    size_t next_chunk_ = kFirst;  // 0 from the first free to the next clear
  };
};

using Parts = Stack<Nested, Window<(8 << 10), (128 << 10)>, Coalesce<(128 << 10)>, Mmap>;
using Whole = Stack<Nested, Reap<(8 << 10), (128 << 10)>, Mmap>;

size_t Size(std::mt19937& random) { return 16 + random() % 385; }

template <class H>
size_t HeldBy(H& heap) {
  if constexpr (requires { heap.held(); }) {
    return heap.held();
  } else {
    return HeldBy(heap.next());
  }
}

template <class H>
size_t Run(const char* load, size_t requests) {
  H heap;
  std::mt19937 random(1);
  size_t most = 0;
  std::vector<void*> blocks(3000);
  const bool server = strcmp(load, "server") == 0, reverse = strcmp(load, "reverse") == 0;
  if (strcmp(load, "churn") == 0) {
    for (void*& p : blocks) p = heap.allocate(Size(random));
    for (size_t i = 0; i < requests * 300; ++i) {
      void*& p = blocks[random() % blocks.size()];
      heap.deallocate(p);
      p = heap.allocate(Size(random));
      if (i % 300 == 0) most = std::max(most, HeldBy(heap));
    }
    return most;
  }
  for (size_t r = 0; r < requests; ++r) {
    for (size_t i = 0; i < 300; ++i) {
      blocks[i] = heap.allocate(Size(random));
      if (server && i % 3 == 2) heap.deallocate(blocks[i - 1]);
    }
    most = std::max(most, HeldBy(heap));
    for (size_t i = 300; reverse && i-- > 0;) heap.deallocate(blocks[i]);
    heap.clear();
  }
  return most;
}

}  // namespace

int main(int argc, char** argv) {
  const char* load = "region";
  bool parts = false;
  size_t requests = 1000;
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], "--load=", 7) == 0) load = argv[i] + 7;
    if (strncmp(argv[i], "--heap=", 7) == 0) parts = strcmp(argv[i] + 7, "parts") == 0;
    if (strncmp(argv[i], "--requests=", 11) == 0) requests = strtoul(argv[i] + 11, nullptr, 10);
  }
  const size_t held = parts ? Run<Parts>(load, requests) : Run<Whole>(load, requests);
  printf("%s %s held=%zu object=%zu\n", parts ? "parts" : "reap", load, held,
         parts ? sizeof(Parts) : sizeof(Whole));
}
