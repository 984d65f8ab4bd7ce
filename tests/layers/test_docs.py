"""docs/layers.md and docs/hoard.md: their programs run, and its examples are heaps that work."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LAYERS = ROOT / "include/strata/layers"
PAGE = (ROOT / "docs/layers.md").read_text()
FLAGS = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include"]


def run_program(text: str, work: Path, name: str) -> None:
    source = work / f"{name}.cpp"
    source.write_text(text)
    subprocess.run(["g++", *FLAGS, str(source), "-o", str(work / name)], check=True)
    subprocess.run([str(work / name)], check=True, timeout=60)


def test_programs(tmp_path: Path) -> None:
    hoard = (ROOT / "docs/hoard.md").read_text()
    programs = re.findall(r"```cpp\n(.*?)```", PAGE + hoard, re.DOTALL)
    assert len(programs) >= 5
    for number, program in enumerate(programs):
        run_program(program, tmp_path, f"program{number}")


def test_examples(tmp_path: Path) -> None:
    rows = re.findall(r"^\| `(.+?)` .*\| `(Stack<.+>)` \|$", PAGE, re.MULTILINE)
    assert len(rows) >= 20
    uses = "".join(f"  Use<{example}>();\n" for _, example in rows)
    run_program(
        f"""#include <strata/layers.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
using namespace strata::layers;
template <class H>
void Use() {{
  static H heap;
  void* p = heap.allocate(64);
  if (p == nullptr || reinterpret_cast<uintptr_t>(p) % H::alignment != 0) abort();
  memset(p, 1, 64);
  heap.deallocate(p, 64);
}}
int main() {{
{uses}}}
""",
        tmp_path,
        "examples",
    )


# Headers that layers are used with, and that are none.
PARTS = {"classes", "first_fit", "index", "of_thread", "tree_fit"}
FOLDERS = ("source", "combine", "thread", "tool")
LAYER = re.compile(r"^struct (\w+) \{(?:(?!^\};).)*?^  template <Heap Below>$", re.M | re.S)
SOURCE = re.compile(
    r"^(?:struct|class) (\w+) \{(?:(?!^\};).)*?^  static constexpr size_t alignment", re.M | re.S
)


def names_of(header: Path) -> list[str]:
    """The layers and sources that a header defines."""
    text = header.read_text()
    named = LAYER.findall(text) or SOURCE.findall(text)
    return (
        named
        or re.findall(r"^using (\w+) = ", text, re.M)
        or re.findall(r"^class (\w+) \{", text, re.M)
    )


def headers_of_layers() -> list[Path]:
    """A header that is new is a layer until PARTS says that it is none."""
    headers = sorted(header for folder in FOLDERS for header in (LAYERS / folder).glob("*.h"))
    assert {h.stem for h in headers} >= PARTS
    return [h for h in headers if h.stem not in PARTS]


def test_every_header_lies_in_its_folder_and_in_the_one_for_all() -> None:
    all_of_them = (ROOT / "include/strata/layers.h").read_text()
    for header in LAYERS.rglob("*.h"):
        folder = header.parent.name
        assert folder in {*FOLDERS, "detail", "layers"}, header
        name = header.relative_to(ROOT / "include")
        assert (f'#include "{name}"' in all_of_them) == (folder != "detail"), header
    assert len(PAGE.splitlines()) < 500


def test_every_layer_has_a_line_and_an_example() -> None:
    rows = dict(re.findall(r"^\| (`\w.*?`) \|.*\| (.+) \|$", PAGE, re.MULTILINE))
    programs = "".join(re.findall(r"```cpp\n(.*?)```", PAGE, re.DOTALL))
    for header in headers_of_layers():
        names = names_of(header)
        assert names, f"{header.name} defines no layer that can be recognized"
        for name in names:
            word = re.compile(rf"\b{name}\b")
            lines = [(row, example) for row, example in rows.items() if word.search(row)]
            assert lines, f"{name} of {header.name} has no line in docs/layers.md"
            assert any(word.search(e) for _, e in lines) or word.search(programs), (
                f"{name} of {header.name} has no example in docs/layers.md"
            )


def test_every_layer_says_what_it_keeps() -> None:
    table = (ROOT / "tests/layers/operations_test.cpp").read_text()
    for header in headers_of_layers():
        for name in names_of(header):
            kept = re.search(rf"static_assert\((?:kKept|OfHeap)<[^;]*\b{name}\b", table)
            alias = re.search(rf"^using \w+ = {name}<", table, re.M)
            assert kept or alias or name == "PerClass", (
                f"{name} lacks a line in operations_test.cpp"
            )
