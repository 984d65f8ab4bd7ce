// A program that brings its own allocator, as a statically linked one does: the dynamic linker
// binds everybody to the program's functions, and a preloaded library must not mind. The allocator
// is a free list by power of two over one static array.
#include "../edge/case.h"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kArena = std::size_t{256} << 20;
constexpr std::size_t kHeader = 16;
alignas(1 << 16) char arena[kArena];
std::atomic<std::size_t> arena_used{0};
std::atomic<long> calls{0};
std::atomic_flag busy = ATOMIC_FLAG_INIT;
void* free_lists[64];

// What stands before each block: its power of two.
std::size_t& PowerOf(void* block) {
  return *reinterpret_cast<std::size_t*>(static_cast<char*>(block) - kHeader);
}

bool IsOurs(void* block) { return block >= arena && block < arena + kArena; }

void* Take(std::size_t alignment, std::size_t size) {
  calls.fetch_add(1);
  if (size > kArena / 4) {
    errno = ENOMEM;
    return nullptr;
  }
  std::size_t power = 5;
  while ((std::size_t{1} << power) < size) ++power;
  void* block = nullptr;
  while (busy.test_and_set()) {
  }
  if (alignment <= 16 && free_lists[power] != nullptr) {
    block = free_lists[power];
    free_lists[power] = *static_cast<void**>(block);
  }
  busy.clear();
  if (block != nullptr) return block;
  std::size_t need = (std::size_t{1} << power) + kHeader + alignment;
  std::size_t at = arena_used.fetch_add((need + 15) & ~std::size_t{15});
  CHECK(at + need <= kArena);
  auto address = reinterpret_cast<std::uintptr_t>(arena) + at + kHeader + alignment - 1;
  block = reinterpret_cast<void*>(address & ~(alignment - 1));
  PowerOf(block) = power;
  return block;
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) { return Take(16, size); }

void free(void* block) {
  if (block == nullptr) return;
  CHECK(IsOurs(block));
  std::size_t power = PowerOf(block);
  while (busy.test_and_set()) {
  }
  *static_cast<void**>(block) = free_lists[power];
  free_lists[power] = block;
  busy.clear();
}

void* calloc(std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
  void* block = Take(16, bytes);
  if (block != nullptr) std::memset(block, 0, bytes);
  return block;
}

void* realloc(void* block, std::size_t size) {
  if (block == nullptr) return malloc(size);
  CHECK(IsOurs(block));
  std::size_t old = std::size_t{1} << PowerOf(block);
  void* fresh = Take(16, size);
  if (fresh == nullptr) return nullptr;
  std::memcpy(fresh, block, old < size ? old : size);
  free(block);
  return fresh;
}

void* memalign(std::size_t alignment, std::size_t size) { return Take(alignment, size); }
void* aligned_alloc(std::size_t alignment, std::size_t size) { return Take(alignment, size); }
void* valloc(std::size_t size) { return Take(4096, size); }
void* pvalloc(std::size_t size) { return Take(4096, (size + 4095) & ~std::size_t{4095}); }
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  *out = Take(alignment < 16 ? 16 : alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
std::size_t malloc_usable_size(void* block) {
  return block == nullptr ? 0 : std::size_t{1} << PowerOf(block);
}

}  // extern "C"

// The program allocates through libc, through C++ and in threads; all of it must be consistent.
CASE(works) {
  long before = calls.load();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      std::map<std::string, std::vector<int>> table;
      for (int j = 0; j < 2000; ++j) {
        table[std::string(static_cast<std::size_t>(j % 60), 'x')].push_back(j);
      }
      CHECK(table.size() == 60);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 1000; ++i) {
    char* copy = strdup("a string that libc copies");
    CHECK(IsOurs(copy));
    free(copy);
    char* path = realpath("/proc/self/exe", nullptr);
    CHECK(path != nullptr && IsOurs(path));
    free(path);
    int* numbers = static_cast<int*>(reallocarray(nullptr, 10, sizeof(int)));
    numbers = static_cast<int*>(reallocarray(numbers, 1000, sizeof(int)));
    CHECK(IsOurs(numbers));
    free(numbers);
    void* block = nullptr;
    CHECK(posix_memalign(&block, 64, 100) == 0 && IsOurs(block));
    free(block);
  }
  CHECK(setenv("A_VARIABLE", "value", 1) == 0);
  CHECK(calls.load() > before + 3000);
}
