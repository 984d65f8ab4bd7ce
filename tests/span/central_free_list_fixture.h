// A central free list over a fake source, for the tests of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "fake_source.h"
#include "span/central_free_list.h"

namespace strata::test {

class CentralFreeListTest : public testing::Test {
 protected:
  void Use(size_t size) {
    class_ = ClassOfSize(size);
    list_.Init(class_, &source_);
  }
  // The same, of a class that has come back often enough to keep empty spans.
  void UseOften(size_t size) {
    Use(size);
    while (list_.Stats().spans_taken < 8) {
      Give(Take(1));
      list_.ReleaseEmpty(UINT32_MAX);
    }
  }
  std::vector<void*> Take(size_t n) {
    std::vector<void*> out(n);
    size_t got = 0;
    while (got < n) {
      const size_t k = list_.Take(&out[got], std::min(n - got, kMaxBatch));
      if (k == 0) break;
      got += k;
    }
    out.resize(got);
    return out;
  }
  void Give(const std::vector<void*>& objects) { list_.Give(objects.data(), objects.size()); }
  void Give(void* object) { list_.Give(&object, 1); }
  Span* SpanOf(const void* p) {
    return source_.page_map().SpanOf(
        PageId((reinterpret_cast<uintptr_t>(p) - source_.base()) >> kPageShift));
  }
  // 1 if the object is free.
  uint64_t FreeBitOf(const void* p) {
    const Span* span = SpanOf(p);
    const size_t offset = reinterpret_cast<uintptr_t>(p) - source_.base() - span->start_offset();
    const size_t index = IndexOfOffset(info(), offset - span->first());
    return span->free_bits()[index / 64] >> (index % 64) & 1;
  }
  const ClassInfo& info() const { return InfoOf(class_); }

  SizeClass class_ = SizeClass::kNone;
  FakeSource source_;
  TestCentral list_;
};

}  // namespace strata::test
