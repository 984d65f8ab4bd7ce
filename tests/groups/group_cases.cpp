// Objects in groups, by hints and by calling context: what a program can see of them.
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "strata/hot_cold.h"

#include "case.h"

namespace {

constexpr __hot_cold_t kCold{1}, kMiddle{128}, kHot{255};
constexpr size_t kMany = 5000;

uintptr_t PageOf(const void* p) { return reinterpret_cast<uintptr_t>(p) >> 12; }

__attribute__((noinline)) void* FromHere(size_t size) {
  void* volatile p = malloc(size);
  return p;
}
__attribute__((noinline)) void* FromThere(size_t size) {
  void* volatile p = calloc(1, size);
  return p;
}

// Another group for what grows must not lose it.
struct Block {
  unsigned char* p = nullptr;
  size_t size = 0;
  void Fill() { memset(p, static_cast<unsigned char>(size), size); }
  void Check() const {
    CHECK(p[0] == static_cast<unsigned char>(size));
    CHECK(p[size - 1] == static_cast<unsigned char>(size));
    CHECK(malloc_usable_size(p) >= size);
  }
};

void Work(unsigned seed, size_t steps, bool forks) {
  std::mt19937 random(seed);
  std::vector<Block> blocks(1000);
  for (size_t i = 0; i < steps; ++i) {
    Block& b = blocks[random() % blocks.size()];
    const size_t size = 1 + random() % (random() % 64 == 0 ? 300'000 : 700);
    if (b.p != nullptr) b.Check();
    if (b.p != nullptr && random() % 4 == 0) {
      b.p = static_cast<unsigned char*>(realloc(b.p, size));
    } else {
      free(b.p);
      void* p = nullptr;
      switch (random() % 6) {
        case 0:
          p = FromHere(size);
          break;
        case 1:
          p = FromThere(size);
          break;
        case 2:
          p = ::operator new(size, kHot);
          break;
        case 3:
          p = ::operator new(size, kCold);
          break;
        case 4:
          p = ::operator new[](size, std::nothrow, kCold);
          break;
        default:
          p = aligned_alloc(64, (size + 63) / 64 * 64);
      }
      CHECK(p != nullptr);
      b.p = static_cast<unsigned char*>(p);
    }
    b.size = size;
    b.Fill();
    if (!forks || i % (steps / 8) != 0) continue;
    const pid_t child = fork();
    if (child == 0) {
      for (const Block& each : blocks)
        if (each.p != nullptr) each.Check();
      for (size_t n = 1; n < 500; ++n) free(realloc(FromHere(n), 2 * n));
      for (Block& each : blocks) free(each.p);
      _exit(0);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
  for (Block& b : blocks) free(b.p);
}

}  // namespace

CASE(hinted_objects_share_no_page_with_others) {
  std::map<uintptr_t, int> owner;
  for (size_t i = 0; i < kMany; ++i) {
    void* p[] = {::operator new(96, kMiddle), ::operator new(96, kCold), ::operator new(96, kHot)};
    for (int g = 0; g < 3; ++g) {
      memset(p[g], g, 96);
      for (const void* at : {p[g], static_cast<void*>(static_cast<char*>(p[g]) + 95)})
        CHECK(owner.emplace(PageOf(at), g).first->second == g);
    }
  }
}

// What came free in one group is not handed out to another.
CASE(a_freed_place_stays_with_its_group) {
  std::vector<void*> cold;
  std::set<void*> places;
  for (size_t i = 0; i < kMany; ++i) {
    cold.push_back(::operator new(64, kCold));
    places.insert(cold.back());
  }
  for (size_t i = 0; i < kMany; i += 2) ::operator delete(cold[i]);
  for (size_t i = 0; i < kMany; ++i) {
    CHECK(!places.contains(::operator new(64, kHot)));
    CHECK(!places.contains(malloc(64)));
  }
  size_t again = 0;
  for (size_t i = 0; i < kMany / 2; ++i) again += places.contains(::operator new(64, kCold));
  CHECK(again == kMany / 2);
}

CASE(what_grows_stays_in_its_group) {
  std::set<uintptr_t> hot;
  for (size_t i = 0; i < kMany; ++i) hot.insert(PageOf(::operator new(200, kHot)));
  size_t inside = 0;
  for (size_t i = 0; i < kMany; ++i) {
    void* p = realloc(::operator new(100, kHot), 200);
    inside += hot.contains(PageOf(p));
    free(p);
  }
  CHECK(inside > kMany / 2);
}

// Run with STRATA_CONTEXTS=64: that two places meet in one group is unlikely, but they may, as
// addresses are random.
CASE(contexts_share_no_page) {
  std::set<uintptr_t> here, there;
  for (size_t i = 0; i < kMany; ++i) {
    here.insert(PageOf(FromHere(96)));
    there.insert(PageOf(FromThere(96)));
  }
  size_t shared = 0;
  for (const uintptr_t page : here) shared += there.contains(page);
  if (shared == 0) puts("apart");
}

CASE(threads_and_forks) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(Work, i + 1, 40'000, i == 0);
  for (std::thread& thread : threads) thread.join();
}

CASE(a_double_free_is_found) {
  void* p = ::operator new(48, kCold);
  ::operator new(48, kCold);
  ::operator delete(p);
  ::operator delete(p);
}

// Most of what was live comes back by itself.
CASE(memory_goes_back) {
  std::vector<void*> all;
  for (size_t i = 0; i < 400'000; ++i) {
    all.push_back(FromHere(120));
    memset(all.back(), 1, 120);
  }
  for (void* p : all) free(p);
  all.clear();
  all.shrink_to_fit();
  const auto resident = [] {
    size_t pages = 0;
    FILE* f = fopen("/proc/self/statm", "r");
    CHECK(f != nullptr && fscanf(f, "%*u %zu", &pages) == 1);
    fclose(f);
    return pages * 4096;
  };
  for (int i = 0; i < 300 && resident() > (size_t{24} << 20); ++i) usleep(100'000);
  CHECK(resident() <= (size_t{24} << 20));
}
