// What drives a structure in its three forms: plain, compiled by strata-cxx (GUIDED), and written
// with hot_ptr by hand (HAND). Prints a sum over all answers, and how much of the pages that its
// hot keys need they use: unique bytes of the nodes on the way to them by the pages these lie on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>
#ifdef HAND
#include <strata/hot_ptr.h>
#endif
#ifdef GUIDED
#define GUIDE [[clang::annotate("strata::guided")]]
#define OPERATION [[clang::annotate("strata::operation")]]
#else
#define GUIDE
#define OPERATION
#endif

// Where the nodes lie that an operation came by.
class Touched {
 public:
  template <class T>
  void Add(const T* node) {
    const auto at = reinterpret_cast<uintptr_t>(node);
    for (uintptr_t line = at / kLine; line <= (at + sizeof(T) - 1) / kLine; ++line)
      lines_.push_back(line);
  }
  double Percent() {
    const double bytes = static_cast<double>(Unique(&lines_) * kLine);
    for (uintptr_t& line : lines_) line /= kPage / kLine;
    return 100 * bytes / static_cast<double>(Unique(&lines_) * kPage);
  }

 private:
  static constexpr uintptr_t kLine = 16, kPage = 4096;
  static size_t Unique(std::vector<uintptr_t>* all) {
    std::sort(all->begin(), all->end());
    all->erase(std::unique(all->begin(), all->end()), all->end());
    return all->size();
  }
  std::vector<uintptr_t> lines_;
};

#if defined(HAND)
inline strata::hot_domain& Domain() {
  // Never destroyed: the structures are not, either.
  static auto* const domain = new strata::hot_domain(strata::hot_domain::options{.thread = false});
  return *domain;
}
inline void Collect() { Domain().collect_now(); }
#elif defined(GUIDED)
inline void Collect() { strata_hot_collect(strata_hot_domain_default()); }
#else
inline void Collect() {}
#endif

// put(key, value), get(key, touched or null), remove(key).
template <class Put, class Get, class Remove>
int Drive(uint64_t keys, Put put, Get get, Remove remove) {
  constexpr uint64_t kHotOneIn = 16;
  uint64_t seed = 1, sum = 0;
  const auto random = [&seed] {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
  };
  for (uint64_t key = 0; key < keys; ++key) put(key, random());
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t key = random() % keys;
    if (i % 4 == 0) remove(key);
    if (i % 4 == 1) put(key, random());
    if (i % 4 > 1) sum = sum * 31 + get(key, nullptr);
    if (i % 2'000 == 0) Collect();
  }
  // What came before was uniform, so it takes long until something counts as cold.
  for (int round = 0; round < 60; ++round) {
    for (uint64_t key = 0; key < keys; key += kHotOneIn) sum = sum * 31 + get(key, nullptr);
    Collect();
  }
  Touched touched;
  for (uint64_t key = 0; key < keys; key += kHotOneIn) sum = sum * 31 + get(key, &touched);
  printf("%llu %.1f\n", static_cast<unsigned long long>(sum), touched.Percent());
  return 0;
}
