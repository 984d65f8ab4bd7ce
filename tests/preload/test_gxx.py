"""g++ on the library: a large file compiles to the same object as on glibc."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from blackbox import Lab, need

PARTS = 9
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


def compiled(lab: Lab, folder: Path, parts: int, *, preload: bool) -> bytes:
    text = (PART.format(n=n + 1, depth=120 + n % 5) for n in range(parts))
    (folder / "large.cpp").write_text(HEAD + "".join(text))
    command = (need("g++"), "-std=c++20", "-O1", "-c", "large.cpp", "-o", "large.o")
    result = lab.run(*command, preload=preload, cwd=folder, timeout=240).ok()
    assert result.stdout == ""
    return (folder / "large.o").read_bytes()


@functools.cache
def compiled_on_glibc(parts: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return compiled(Lab(None, Path(folder)), Path(folder), parts, preload=False)


def test_object_is_identical(lab: Lab, tmp_path: Path) -> None:
    assert compiled(lab, tmp_path, PARTS, preload=True) == compiled_on_glibc(PARTS)
