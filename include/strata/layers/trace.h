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
      if (p == nullptr || !writer_.is_open()) return p;
      trace::Event event;
      event.operation = trace::Operation::kMalloc;
      event.size = size;
      event.thread = ThisThread();
      objects_.Put(p, writer_.Add(event));
      return p;
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
      objects_.ForEach([this](const void*, uint64_t object) { AddFree(object); });
      objects_.Clear();
      this->next_.clear();
    }

   private:
    static uint32_t ThisThread() {
      static constinit std::atomic<uint32_t> threads{0};
      static constinit thread_local uint32_t mine = 0;
      if (mine == 0) mine = threads.fetch_add(1, std::memory_order_relaxed) + 1;
      return mine;
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
