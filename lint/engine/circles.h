// The circles of a graph: what reaches each other is one component. Tarjan, "Depth-first search and
// linear graph algorithms", SIAM J. Computing 1972, without recursion.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lint {

// The edges of node n lead to targets[begin[n]] up to targets[begin[n + 1]].
struct Graph {
  std::vector<std::uint32_t> begin{0}, targets;
  void end_node() { begin.push_back(static_cast<std::uint32_t>(targets.size())); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(begin.size() - 1); }
};

struct Components {
  std::vector<std::uint32_t> of;  // by node; an edge never leads to a greater one
  std::uint32_t count = 0;
};

inline Components components(const Graph& graph) {
  const std::uint32_t size = graph.size();
  Components found{std::vector<std::uint32_t>(size, 0), 0};
  std::vector<std::uint32_t> index(size, 0), low(size, 0), at(graph.begin), stack, calls;
  std::vector<char> open(size, 0);
  std::uint32_t next = 0;
  const auto enter = [&](std::uint32_t n) {
    index[n] = low[n] = ++next;
    open[n] = 1;
    stack.push_back(n);
    calls.push_back(n);
  };
  for (std::uint32_t start = 0; start < size; ++start) {
    if (index[start] == 0) enter(start);
    while (!calls.empty()) {
      const std::uint32_t n = calls.back();
      if (at[n] != graph.begin[n + 1]) {
        const std::uint32_t to = graph.targets[at[n]++];
        if (index[to] == 0)
          enter(to);
        else if (open[to] != 0)
          low[n] = std::min(low[n], index[to]);
        continue;
      }
      calls.pop_back();
      if (!calls.empty()) low[calls.back()] = std::min(low[calls.back()], low[n]);
      if (low[n] != index[n]) continue;
      for (bool more = true; more;) {
        const std::uint32_t member = stack.back();
        stack.pop_back();
        open[member] = 0;
        found.of[member] = found.count;
        more = member != n;
      }
      ++found.count;
    }
  }
  return found;
}

}  // namespace lint
