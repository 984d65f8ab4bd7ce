// Edge behaviour of the 8 forms of operator new and the 12 of operator delete, and of new_handler.
#include "case.h"

#include <sys/resource.h>

#include <cstddef>
#include <initializer_list>
#include <new>

namespace {

using std::align_val_t;
using std::nothrow;

constexpr std::size_t kHuge = std::size_t{1} << 47;

std::size_t NextSize(std::size_t size) { return size < 1100 ? size + 1 : size + size / 15 + 1; }

void* Use(void* block, std::size_t size, std::size_t alignment) {
  CHECK_AT(block != nullptr, size);
  CHECK_AT((reinterpret_cast<uintptr_t>(block) & (alignment - 1)) == 0, size);
  CHECK_AT(malloc_usable_size(block) >= size, size);
  if (size > 0) {
    static_cast<char*>(block)[0] = 1;
    static_cast<char*>(block)[size - 1] = 2;
  }
  return block;
}

// What alignment operator new owes an object of this size.
std::size_t Natural(std::size_t size) { return size >= 16 ? 16 : 8; }

int handler_calls;

void CountThenGiveUp() {
  if (++handler_calls == 3) std::set_new_handler(nullptr);
}

void ThrowBadAlloc() {
  ++handler_calls;
  throw std::bad_alloc();
}

void ThrowNumber() {
  ++handler_calls;
  throw 42;
}

template <typename New>
void ExpectBadAlloc(New make) {
  bool caught = false;
  try {
    void* block = make();
    CHECK(block == nullptr && "a huge block was handed out");
  } catch (const std::bad_alloc&) {
    caught = true;
  }
  CHECK(caught);
}

template <typename Check>
void ForEachThrowingForm(Check check) {
  std::size_t huge = Hide(kHuge);
  check([=] { return ::operator new(huge); });
  check([=] { return ::operator new[](huge); });
  check([=] { return ::operator new(huge, align_val_t{64}); });
  check([=] { return ::operator new[](huge, align_val_t{64}); });
}

template <typename Check>
void ForEachNothrowForm(Check check) {
  std::size_t huge = Hide(kHuge);
  check([=] { return ::operator new(huge, nothrow); });
  check([=] { return ::operator new[](huge, nothrow); });
  check([=] { return ::operator new(huge, align_val_t{64}, nothrow); });
  check([=] { return ::operator new[](huge, align_val_t{64}, nothrow); });
}

}  // namespace

CASE(every_form) {
  for (std::size_t size = 0; size < 20 << 20; size = NextSize(size)) {
    std::size_t natural = Natural(size);
    ::operator delete(Use(::operator new(size), size, natural));
    ::operator delete(Use(::operator new(size), size, natural), size);
    ::operator delete(Use(::operator new(size, nothrow), size, natural), nothrow);
    ::operator delete[](Use(::operator new[](size), size, natural));
    ::operator delete[](Use(::operator new[](size), size, natural), size);
    ::operator delete[](Use(::operator new[](size, nothrow), size, natural), nothrow);
  }
}

CASE(every_aligned_form) {
  for (std::size_t alignment = 1; alignment <= 4 << 20; alignment *= 2) {
    auto align = align_val_t{alignment};
    for (std::size_t size = 0; size < 3 << 20; size = size * 2 + 3) {
      ::operator delete(Use(::operator new(size, align), size, alignment), align);
      ::operator delete(Use(::operator new(size, align), size, alignment), size, align);
      ::operator delete(Use(::operator new(size, align, nothrow), size, alignment), align, nothrow);
      ::operator delete[](Use(::operator new[](size, align), size, alignment), align);
      ::operator delete[](Use(::operator new[](size, align), size, alignment), size, align);
      ::operator delete[](Use(::operator new[](size, align, nothrow), size, alignment), align,
                          nothrow);
    }
  }
}

CASE(delete_null) {
  auto align = align_val_t{64};
  errno = EXDEV;
  ::operator delete(nullptr);
  ::operator delete[](nullptr);
  ::operator delete(nullptr, std::size_t{8});
  ::operator delete[](nullptr, std::size_t{8});
  ::operator delete(nullptr, nothrow);
  ::operator delete[](nullptr, nothrow);
  ::operator delete(nullptr, align);
  ::operator delete[](nullptr, align);
  ::operator delete(nullptr, std::size_t{64}, align);
  ::operator delete[](nullptr, std::size_t{64}, align);
  ::operator delete(nullptr, align, nothrow);
  ::operator delete[](nullptr, align, nothrow);
  CHECK(errno == EXDEV);
}

CASE(sized_delete_returns_the_block) {
  // 20 GiB in all if the sized forms lost what they are given.
  for (int i = 0; i < 200000; ++i) {
    std::size_t size = 100000 + static_cast<std::size_t>(i % 7) * 512;
    void* block = ::operator new(size);
    memset(block, 1, 4096);
    ::operator delete(block, size);
  }
  CHECK_AT(PeakResidentKiB() < 64 * 1024, PeakResidentKiB());
}

CASE(zero_sizes_are_distinct) {
  void* a = ::operator new(0);
  void* b = ::operator new[](0);
  CHECK(a != nullptr && b != nullptr && a != b);
  ::operator delete(a);
  ::operator delete[](b);
}

CASE(no_handler_throws) {
  ForEachThrowingForm([](auto make) { ExpectBadAlloc(make); });
}

CASE(no_handler_nothrow) {
  ForEachNothrowForm([](auto make) { CHECK(make() == nullptr); });
}

CASE(sizes_at_the_end_of_the_range) {
  const std::size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096,
                               static_cast<std::size_t>(PTRDIFF_MAX) + 1};
  for (std::size_t size : sizes) {
    ExpectBadAlloc([=] { return ::operator new(Hide(size)); });
    CHECK(::operator new(Hide(size), nothrow) == nullptr);
  }
}

// libstdc++'s own form wraps when it rounds the size up to the alignment.
CASE(aligned_sizes_at_the_end_of_the_range) {
  for (std::size_t size : {SIZE_MAX, SIZE_MAX - 4096}) {
    ExpectBadAlloc([=] { return ::operator new(Hide(size), align_val_t{8192}); });
    CHECK(::operator new(Hide(size), align_val_t{8192}, nothrow) == nullptr);
  }
}

CASE(handler_is_called_until_it_gives_up) {
  ForEachThrowingForm([](auto make) {
    handler_calls = 0;
    std::set_new_handler(CountThenGiveUp);
    ExpectBadAlloc(make);
    CHECK_AT(handler_calls == 3, handler_calls);
  });
  ForEachNothrowForm([](auto make) {
    handler_calls = 0;
    std::set_new_handler(CountThenGiveUp);
    CHECK(make() == nullptr);
    CHECK_AT(handler_calls == 3, handler_calls);
  });
}

CASE(handler_throws) {
  ForEachThrowingForm([](auto make) {
    handler_calls = 0;
    std::set_new_handler(ThrowBadAlloc);
    ExpectBadAlloc(make);
    CHECK(handler_calls == 1);
  });
}

CASE(handler_throws_something_else) {
  ForEachThrowingForm([](auto make) {
    std::set_new_handler(ThrowNumber);
    int caught = 0;
    try {
      CHECK(make() == nullptr && "a huge block was handed out");
    } catch (int number) {
      caught = number;
    }
    CHECK(caught == 42);
  });
}

CASE(nothrow_swallows_what_the_handler_throws) {
  for (auto handler : {ThrowBadAlloc, ThrowNumber}) {
    ForEachNothrowForm([=](auto make) {
      handler_calls = 0;
      std::set_new_handler(handler);
      CHECK(make() == nullptr);
      CHECK(handler_calls == 1);
    });
  }
}

CASE(malloc_does_not_call_the_handler) {
  std::set_new_handler(ThrowNumber);
  handler_calls = 0;
  CHECK(malloc(Hide(kHuge)) == nullptr);
  CHECK(aligned_alloc(64, Hide(kHuge)) == nullptr);
  CHECK(handler_calls == 0);
}

namespace {

constexpr std::size_t kBallast = 200 << 20;
constexpr std::size_t kStep = 8 << 20;
void* ballast;

void DropBallast() {
  ++handler_calls;
  std::set_new_handler(nullptr);
  ::operator delete(ballast);
}

}  // namespace

// To be run under `ulimit -v`: a handler that frees memory lets the same call succeed.
CASE(handler_frees_memory) {
  ballast = ::operator new(kBallast);
  std::set_new_handler(DropBallast);
  int blocks = 0;
  while (handler_calls == 0) {
    void* block = ::operator new(kStep);
    static_cast<char*>(block)[kStep - 1] = 1;
    CHECK_AT(++blocks < 1000, blocks);
  }
  CHECK(handler_calls == 1);
  ExpectBadAlloc([] {
    for (int i = 0; i < 1000; ++i) {
      if (::operator new(kStep) == nullptr) return static_cast<void*>(nullptr);
    }
    return static_cast<void*>(&ballast);
  });
}

void* reserve[64];
int reserves_left;

void FreeOneReserve() {
  ++handler_calls;
  if (reserves_left == 0)
    std::set_new_handler(nullptr);
  else
    std::free(reserve[--reserves_left]);
}

// What the handler made room for is aligned as what needs no handler.
CASE(aligned_after_the_handler) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
  limit.rlim_cur = 400 << 20;
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  for (void*& block : reserve) CHECK((block = std::malloc(1 << 20)) != nullptr);
  reserves_left = 64;
  while (std::malloc(100000) != nullptr) {
  }
  std::set_new_handler(FreeOneReserve);
  while (std::get_new_handler() != nullptr) {
    void* small = ::operator new(8, align_val_t{16}, nothrow);
    CHECK_AT(reinterpret_cast<uintptr_t>(small) % 16 == 0, handler_calls);
    void* middling = ::operator new(10000, align_val_t{16}, nothrow);
    CHECK_AT(reinterpret_cast<uintptr_t>(middling) % 16 == 0, handler_calls);
  }
  CHECK(handler_calls > 60);
}
