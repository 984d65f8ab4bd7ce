// std::pmr containers over the process heap, over a reap and over nested reaps. Prints nothing.
#include <array>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "strata/memory_resource.h"

#define REQUIRE(x) \
  if (!(x)) abort()

namespace {

struct alignas(64) Wide {
  std::array<char, 128> bytes{};
};

void UseContainers(std::pmr::memory_resource* resource) {
  std::pmr::vector<std::pmr::string> strings(resource);
  std::pmr::map<int, std::pmr::string> map(resource);
  std::pmr::unordered_map<std::pmr::string, int> words(resource);
  std::pmr::list<int> list(resource);
  std::pmr::deque<double> deque(resource);
  std::pmr::set<long> set(resource);
  std::pmr::vector<Wide> wide(resource);
  for (int i = 0; i < 3000; ++i) {
    strings.emplace_back("a string that does not fit into its object: " + std::to_string(i));
    map[i * 7919 % 3001] = strings.back();
    ++words[strings[static_cast<size_t>(i) / 2]];
    list.push_front(i);
    deque.push_back(i);
    set.insert(i % 100);
    if (i % 10 == 0) wide.emplace_back();
    if (i % 3 == 0) map.erase(i / 2);
    if (i % 5 == 0) list.pop_back();
  }
  for (const Wide& w : wide) REQUIRE(reinterpret_cast<uintptr_t>(&w) % 64 == 0);
  REQUIRE(words.size() == 1500 && set.size() == 100 && deque.size() == 3000);
  for (const auto& [key, value] : map) REQUIRE(value.starts_with("a string"));
}

}  // namespace

int main() {
  strata::memory_resource process, again;
  REQUIRE(process == again);
  UseContainers(&process);

  strata::reap_resource resource;
  REQUIRE(resource != static_cast<std::pmr::memory_resource&>(process));
  for (int round = 0; round < 5; ++round) UseContainers(&resource);
  REQUIRE(resource.get().bytes() == 0);

  // What a container leaks goes with the reap.
  strata::reap parent;
  {
    strata::reap_resource child(parent);
    auto* leaked =
        new (child.allocate(sizeof(std::pmr::vector<int>))) std::pmr::vector<int>(1000, 7, &child);
    REQUIRE(leaked->back() == 7);
    REQUIRE(child.get().bytes() > 4000);
  }
  // A child outlives what is in it, and its parent.
  auto outer = std::make_unique<strata::reap>();
  strata::reap_resource inner(*outer);
  strata::reap below(strata::reap::shared, inner.get());
  strata_reap* plain = strata_reap_create(below.get());
  for (int round = 0; round < 3; ++round) {
    REQUIRE(inner.get().allocate(100) != nullptr && below.allocate(100'000) != nullptr);
    if (round == 0) REQUIRE(strata_reap_malloc(plain, 100) != nullptr);
    outer->clear();
    REQUIRE(inner.get().bytes() == 0 && below.bytes() == 0);
  }
  REQUIRE(below.allocate(100) != nullptr);
  strata_reap* middle = strata_reap_create(outer->get());
  REQUIRE(strata_reap_set_parent(inner.get().get(), middle) == 0);
  strata_reap_destroy(middle);  // inner is outer's again
  outer.reset();
  REQUIRE(below.bytes() == 0 && inner.get().bytes() == 0);
  UseContainers(&inner);
  REQUIRE(below.allocate(100) != nullptr);
  inner.get().clear();
  REQUIRE(below.bytes() == 0);

  strata::reap moved = std::move(parent);
  REQUIRE(moved.allocate(10) != nullptr);
  moved = strata::reap(strata::reap::shared);
  moved.set_cap(1 << 16);
  try {
    for (;;) moved.allocate(1000);
  } catch (const std::bad_alloc&) {
  }
  REQUIRE(moved.held() <= 1 << 16);
}
