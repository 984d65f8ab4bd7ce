"""g++ on the library: a large file compiles to the same object as on glibc."""

from __future__ import annotations

from pathlib import Path

from blackbox import Lab, need

HEAD = """
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
"""

PART = """
namespace part{n} {{
struct Item {{
  std::string name; std::vector<int> values; std::variant<int, double, std::string> any;
}};
template <int N> struct Tower {{
  static int Go(int x) {{ return Tower<N - 1>::Go(x * {n} + N); }}
}};
template <> struct Tower<0> {{ static int Go(int x) {{ return x; }} }};
int Run(int seed) {{
  std::map<std::string, Item> table;
  std::unordered_map<int, std::unique_ptr<Item>> index;
  for (int i = 0; i < seed; ++i) {{
    Item item{{"n" + std::to_string(i), std::vector<int>(i % 7, {n}), i % 2 ? i : i * 0.5}};
    std::sort(item.values.begin(), item.values.end(), [](int a, int b) {{ return a > b + {n}; }});
    index[i] = std::make_unique<Item>(item);
    table[item.name] = std::move(item);
  }}
  return static_cast<int>(table.size()) + Tower<{depth}>::Go(seed);
}}
}}
"""


def test_object_is_identical(lab: Lab, tmp_path: Path) -> None:
    source = tmp_path / "large.cpp"
    source.write_text(HEAD + "".join(PART.format(n=n, depth=120 + n % 5) for n in range(1, 15)))
    objects = []
    for preload in (False, True):
        target = tmp_path / f"{preload}.o"
        command: list[str | Path] = [
            need("g++"),
            "-std=c++20",
            "-O1",
            "-c",
            "large.cpp",
            "-o",
            target,
        ]
        result = lab.run(*command, preload=preload, cwd=tmp_path, timeout=240).ok()
        assert result.stdout == ""
        objects.append(target.read_bytes())
    assert objects[0] == objects[1]
