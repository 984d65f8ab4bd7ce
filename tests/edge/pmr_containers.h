// Every kind of std::pmr container over one resource, filled and emptied in part, with what must be
// in them at the end.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory_resource>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

// Whether all is there, whole and aligned. `n`: a multiple of 200.
inline bool ContainersWork(std::pmr::memory_resource* resource, int n) {
  struct alignas(64) Wide {
    std::array<char, 128> bytes{};
  };
  std::pmr::vector<std::pmr::string> strings(resource);
  std::pmr::map<int, std::pmr::string> map(resource);
  std::pmr::unordered_map<std::pmr::string, int> words(resource);
  std::pmr::list<int> list(resource);
  std::pmr::deque<double> deque(resource);
  std::pmr::set<long> set(resource);
  std::pmr::vector<Wide> wide(resource);
  for (int i = 0; i < n; ++i) {
    strings.emplace_back("a string that does not fit into its object: " + std::to_string(i));
    map[i * 7919 % (n + 1)] = strings.back();
    ++words[strings[static_cast<size_t>(i) / 2]];
    list.push_front(i);
    deque.push_back(i);
    set.insert(i % 100);
    if (i % 10 == 0) wide.emplace_back();
    if (i % 3 == 0) map.erase(i / 2);
    if (i % 5 == 0) list.pop_back();
  }
  bool fine = words.size() * 2 == strings.size() && set.size() == 100 && deque.back() == n - 1;
  for (const Wide& w : wide) fine &= reinterpret_cast<uintptr_t>(&w) % alignof(Wide) == 0;
  for (const auto& [key, value] : map) fine &= value.starts_with("a string");
  return fine;
}
