"""docs/layers.md and docs/hoard.md: their programs run, and its examples are heaps that work."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
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
    includes = "".join(
        f'#include "strata/layers/{header.name}"\n'
        for header in sorted((ROOT / "include/strata/layers").glob("*.h"))
    )
    uses = "".join(f"  Use<{example}>();\n" for _, example in rows)
    run_program(
        f"""{includes}
#include <cstdlib>
#include <cstring>
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


def test_every_layer_has_a_line() -> None:
    for header in (ROOT / "include/strata/layers").glob("*.h"):
        for name in re.findall(
            r"^struct (\w+) \{\n  template <Heap Below>", header.read_text(), re.M
        ):
            assert f"`{name}" in PAGE, f"{name} of {header.name} is not in docs/layers.md"
