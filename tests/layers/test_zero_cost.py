"""Composition costs nothing: a heap made of layers compiles to no more than one written by hand."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FUNCTION = re.compile(r"^[0-9a-f]+ <(\w+?)(\.cold|\.part\.\d+)?>:$")


def instructions(compiler: str, work: Path) -> dict[str, int]:
    """Instructions of each function of zero_cost.cpp; padding after the end is not counted."""
    target = work / "zero_cost.o"
    subprocess.run(
        [compiler, "-std=c++20", "-O2", "-c", f"-I{ROOT}/include", str(HERE / "zero_cost.cpp"),
         "-o", str(target)],
        check=True,
    )  # fmt: skip
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(target)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    counts: dict[str, int] = {}
    name = ""
    for line in listing.splitlines():
        if match := FUNCTION.match(line):
            name = match.group(1)
            counts.setdefault(name, 0)
        elif line.startswith(" ") and "\t" in line:
            text = line.split("\t", 1)[1]
            if not text.startswith(("nop", "cs nopw", "data16", "xchg   %ax,%ax")):
                counts[name] += 1
    return counts


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_layers_compile_to_what_one_writes_by_hand(compiler: str, tmp_path: Path) -> None:
    counts = instructions(compiler, tmp_path)
    pairs = [
        (name, count, counts[name.replace("composed", "hand")])
        for name, count in counts.items()
        if name.startswith("composed_")
    ]
    assert len(pairs) == 6, counts
    for name, composed, by_hand in pairs:
        assert by_hand >= 4, f"{name}: nothing was compiled"
        assert composed <= by_hand, f"{name}: {composed} instructions, {by_hand} by hand"


def test_every_header_stands_alone(tmp_path: Path) -> None:
    headers = sorted((ROOT / "include/strata/layers").rglob("*.h"))
    assert len(headers) > 40
    runs = []
    for header in headers:
        source = tmp_path / f"{header.stem}.cpp"
        source.write_text(f'#include "{header.relative_to(ROOT / "include")}"\n')
        command = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
        runs.append(subprocess.Popen([*command, f"-I{ROOT}/include", str(source)]))
        if len(runs) % 2 == 0:  # two at a time
            runs[-2].wait()
            runs[-1].wait()
    failed = [h.name for h, run in zip(headers, runs, strict=True) if run.wait() != 0]
    assert failed == []
