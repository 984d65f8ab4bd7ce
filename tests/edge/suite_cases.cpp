// What those suites ask of C++: containers and resources over operator new, objects that live
// before main, per thread and after it, blocks that end on other threads.
#include "case.h"

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

// A block from a constructor before main, freed by a destructor after it and by a handler.
struct Holder {
  explicit Holder(std::size_t n) : size(n), bytes(new char[n]) { Paint(bytes, n, n); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    CHECK_AT(IsPainted(bytes, size, size), size);
    delete[] bytes;
    std::string last(size, 'x');
    CHECK(last.back() == 'x');
  }
  std::size_t size;
  char* bytes;
};

Holder before_main[] = {Holder(1), Holder(1000), Holder(100000), Holder(1000000)};
void* for_handler = std::malloc(8);

void FreeIt() {
  std::free(for_handler);
  for_handler = std::realloc(std::malloc(20), 5000);
}

thread_local Holder of_thread(1024);
thread_local std::vector<std::string> words_of_thread;

template <std::size_t kAlign>
struct alignas(kAlign) Aligned {
  char bytes[kAlign + 8];
};

template <std::size_t kAlign>
void UseAligned() {
  std::vector<Aligned<kAlign>> grown;
  for (int i = 0; i < 50; ++i) {
    grown.emplace_back();
    CHECK_AT(reinterpret_cast<uintptr_t>(grown.data()) % kAlign == 0, kAlign);
  }
  auto one = std::make_unique<Aligned<kAlign>>();
  std::unique_ptr<Aligned<kAlign>> other(new (std::nothrow) Aligned<kAlign>);
  auto array = std::make_unique<Aligned<kAlign>[]>(7);
  auto shared = std::make_shared<Aligned<kAlign>>();
  for (const void* p : {static_cast<void*>(one.get()), static_cast<void*>(other.get()),
                        static_cast<void*>(array.get()), static_cast<void*>(shared.get())})
    CHECK_AT(reinterpret_cast<uintptr_t>(p) % kAlign == 0, kAlign);
}

}  // namespace

CASE(blocks_before_main_and_after_it) {
  CHECK(std::atexit(FreeIt) == 0);
  for (const Holder& holder : before_main) CHECK(IsPainted(holder.bytes, holder.size, holder.size));
  // By exit: the destructors run after the case.
}

CASE(objects_of_threads) {
  for (int i = 0; i < 100; ++i) {
    std::thread([i] {
      CHECK(IsPainted(of_thread.bytes, of_thread.size, of_thread.size));
      for (int k = 0; k < i; ++k) words_of_thread.push_back(std::string(50, 'a'));
    }).join();
  }
  CHECK(words_of_thread.empty());
}

CASE(results_of_other_threads) {
  std::vector<char*> made(5000);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 5; ++i) {
    threads.emplace_back([&made, i] {
      for (std::size_t k = 0; k < 1000; ++k) made[i * 1000 + k] = new char[1]();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (char* one : made) delete[] one;
}

CASE(overaligned_types) {
  UseAligned<16>();
  UseAligned<64>();
  UseAligned<4096>();
}

CASE(nothrow_new_and_sized_delete) {
  void* blocks[300];
  for (std::size_t size : {8, 16, 24, 48, 1000, 70000, 300000}) {
    for (void*& block : blocks) {
      block = ::operator new(size, std::nothrow);
      CHECK_AT(block != nullptr && malloc_usable_size(block) >= size, size);
    }
    for (void* block : blocks) ::operator delete(block, size);
    for (void*& block : blocks) block = ::operator new[](size, std::align_val_t{32}, std::nothrow);
    for (void* block : blocks) ::operator delete[](block, size, std::align_val_t{32});
  }
}

// A constructor that throws gives the block back, by the delete that belongs to the new.
struct Throws {
  explicit Throws(int depth) {
    if (depth == 0) throw std::runtime_error("on purpose");
    inner = std::make_unique<Throws>(depth - 1);
  }
  std::unique_ptr<Throws> inner;
  alignas(64) char bytes[10000];
};

CASE(constructors_that_throw) {
  for (int i = 0; i < 3000; ++i) {
    bool caught = false;
    try {
      Throws object(5);
    } catch (const std::runtime_error&) {
      caught = true;
    }
    CHECK(caught);
  }
  CHECK_AT(PeakResidentKiB() < 48 * 1024, PeakResidentKiB());
}

CASE(lengths_that_are_too_large) {
  int caught = 0;
  const std::size_t huge = Hide(SIZE_MAX);
  try {
    delete[] new long[huge / 2];
  } catch (const std::bad_array_new_length&) {
    ++caught;
  }
  try {
    std::vector<long> v(huge / 2);
  } catch (const std::length_error&) {
    ++caught;
  }
  try {
    std::vector<char> v(huge / 2 - 100);
  } catch (const std::bad_alloc&) {
    ++caught;
  }
  try {
    std::string s(huge / 4, 'x');
  } catch (const std::bad_alloc&) {
    ++caught;
  }
  CHECK_AT(caught == 4, caught);
  CHECK((new (std::nothrow) char[huge / 2 - 100]) == nullptr);
}

CASE(memory_resources) {
  std::pmr::synchronized_pool_resource shared;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&shared, i] {
      std::vector<void*> blocks(2000);
      for (std::size_t k = 0; k < blocks.size(); ++k) {
        blocks[k] = shared.allocate(k + 1, 16);
        Paint(blocks[k], k + 1, i);
      }
      for (std::size_t k = 0; k < blocks.size(); ++k) {
        CHECK_AT(IsPainted(blocks[k], k + 1, i), k);
        shared.deallocate(blocks[k], k + 1, 16);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::pmr::monotonic_buffer_resource buffer;
  for (std::size_t k = 0; k < 5000; ++k) Paint(buffer.allocate(k + 1, 8), k + 1, k);
  for (std::size_t align = 1; align <= 65536; align *= 2) {
    for (std::size_t size : {std::size_t{1}, std::size_t{100}, align, std::size_t{100000}}) {
      void* p = std::pmr::new_delete_resource()->allocate(size, align);
      CHECK_AT(reinterpret_cast<uintptr_t>(p) % align == 0, align);
      std::pmr::new_delete_resource()->deallocate(p, size, align);
    }
  }
}
