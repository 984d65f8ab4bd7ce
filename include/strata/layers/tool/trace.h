// Trace: writes what passes through it to a file in the trace format, for `strata replay` and
// `strata trace --info`: what a program asks of this heap, and when. Nothing is allocated from any
// heap for it. Splice it in below a Locked, or for one thread; begin with trace_to(path).
#pragma once

#include <atomic>

#include "strata/layers/heap.h"
#include "strata/trace/address_map.h"
#include "strata/trace/writer.h"

namespace strata::layers {

struct Trace {
  template <Heap Below>
  class On : public Through<Below> {
   public:
    static constexpr bool thread_safe = false;
    static constexpr bool blocks_stand_alone = false;

    using Through<Below>::Through;
    ~On() { stop_trace(); }

    // Begins a file; `path` must stay valid. Blocks that are out already stay unknown to it. False:
    // errno says why.
    bool trace_to(const char* path) {
      objects_.Clear();
      return writer_.Open(path);
    }
    // 0: the file is whole; else the errno of what ended it early. The heap goes on either way.
    int stop_trace() {
      objects_.Clear();
      return writer_.Close();
    }

    void* allocate(size_t size) {
      void* p = this->next_.allocate(size);
      if (p != nullptr) NoteBlock(p, trace::Operation::kMalloc, size);
      return p;
    }
    void* allocate(size_t size, size_t align)
      requires AlignedHeap<Below>
    {
      void* p = this->next_.allocate(size, align);
      if (p != nullptr) NoteBlock(p, trace::Operation::kAligned, size, align);
      return p;
    }
    bool resize(void* p, size_t size)
      requires ResizableHeap<Below>
    {
      if (!this->next_.resize(p, size)) return false;
      NoteRealloc(p, p, size);
      return true;
    }
    void* remap(void* p, size_t size)
      requires RemappingHeap<Below>
    {
      void* to = this->next_.remap(p, size);
      if (to != nullptr) NoteRealloc(p, to, size);
      return to;
    }
    void deallocate(void* p, size_t size) {
      NoteFree(p);
      this->next_.deallocate(p, size);
    }
    void deallocate(void* p)
      requires SizedHeap<Below>
    {
      NoteFree(p);
      this->next_.deallocate(p);
    }
    void clear()
      requires ClearableHeap<Below>
    {
      NoteAllGone();
      this->next_.clear();
    }
    void forget() {
      NoteAllGone();
      Through<Below>::forget();
    }

   private:
    static uint32_t ThisThread() {
      static constinit std::atomic<uint32_t> threads{0};
      static constinit thread_local uint32_t mine = 0;
      if (mine == 0) mine = threads.fetch_add(1, std::memory_order_relaxed) + 1;
      return mine;
    }
    void NoteBlock(void* p, trace::Operation operation, size_t size, size_t align = 1,
                   uint64_t object = 0) {
      if (!writer_.is_open()) return;
      trace::Event event;
      event.operation = operation;
      event.size = size;
      event.object = object;
      event.alignment_log2 = static_cast<uint8_t>(Log2(align));
      event.thread = ThisThread();
      objects_.Put(p, writer_.Add(event));
    }
    void NoteRealloc(void* p, void* to, size_t size) {
      uint64_t object = 0;  // one from before the file
      objects_.Take(p, &object);
      NoteBlock(to, trace::Operation::kRealloc, size, 1, object);
    }
    void NoteAllGone() {
      objects_.ForEach([this](const void*, uint64_t object) { AddFree(object); });
      objects_.Clear();
    }
    void NoteFree(void* p) {
      uint64_t object;
      if (!writer_.is_open()) return;
      if (objects_.Take(p, &object)) {
        AddFree(object);
      } else {
        writer_.CountUnknownFree();
      }
    }
    void AddFree(uint64_t object) {
      trace::Event event;
      event.operation = trace::Operation::kFree;
      event.object = object;
      event.thread = ThisThread();
      writer_.Add(event);
    }

    trace::AddressMap<uint64_t> objects_;
    trace::Writer writer_;
  };
};

}  // namespace strata::layers
