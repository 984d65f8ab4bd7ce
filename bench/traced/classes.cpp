// A program to be recorded is the compiler that reads this: containers, algorithms and templates of
// the standard library, instantiated and optimized.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

struct Leaf {
  std::string name;
};
struct Branch;
using Node = std::variant<Leaf, std::unique_ptr<Branch>>;
struct Branch {
  std::vector<Node> children;
  std::map<std::string, int> counts;
};

int Count(const Node& node, std::unordered_map<std::string, std::vector<int>>& found) {
  return std::visit(
      [&](const auto& it) -> int {
        if constexpr (requires { it.name; }) {
          found[it.name].push_back(1);
          return 1;
        } else {
          int sum = 0;
          for (const Node& child : it->children) sum += Count(child, found);
          for (const auto& [name, count] : it->counts) found[name].push_back(count);
          return sum;
        }
      },
      node);
}

template <int n>
int Sorted(std::vector<std::function<int(int)>>& steps) {
  std::vector<int> values;
  for (auto& step : steps) values.push_back(step(n));
  std::sort(values.begin(), values.end(), [](int a, int b) { return a % n < b % n; });
  if constexpr (n > 1) return values.empty() ? 0 : values.front() + Sorted<n - 1>(steps);
  return values.empty() ? 0 : values.back();
}

template int Sorted<12>(std::vector<std::function<int(int)>>&);
