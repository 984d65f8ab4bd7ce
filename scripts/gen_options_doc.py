#!/usr/bin/env python3
"""Writes the table of docs/options.md from the one table in src/malloc/option_table.cpp.

The option table is compiled into a small program that prints it, so the document says what the
library does and not what somebody remembered. With --check nothing is written; the status says
whether the document is current.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "options.md"
BEGIN = "<!-- table: written by scripts/gen_options_doc.py -->"
END = "<!-- end of table -->"
SOURCES = (
    "src/malloc/option_table.cpp",
    "src/base/message.cpp",
    "src/base/parse_value.cpp",
    "src/os/topology.cpp",
    "src/profile/profile_kinds.cpp",
)
PRINTER = r"""
#include <cstdio>
#include "malloc/option_table.h"
int main() {
  const auto print = [](void*, const strata::OptionRow& row) {
    std::printf("%s\t%s\t%s\t%s\n", row.name, row.takes, row.fallback, row.help);
    return false;
  };
  strata::VisitOptions(print, nullptr);
}
"""

Row = tuple[str, str, str, str]  # name without STRATA_, values, default, what it does


def compiler() -> str:
    """The C++ compiler to use: $CXX, or the first that is installed."""
    named = os.environ.get("CXX")
    for name in (named, "g++", "clang++-19", "clang++", "c++"):
        if name and shutil.which(name):
            return name
    sys.exit("gen_options_doc: no C++ compiler; scripts/install-deps.sh build installs one")


def printed_rows(printer: str, sources: tuple[str, ...], root: Path) -> list[list[str]]:
    """What `printer`, compiled with the library's own sources, prints: rows of tabbed cells."""
    with tempfile.TemporaryDirectory(prefix="strata-table-") as folder:
        source = Path(folder, "print_table.cpp")
        program = Path(folder, "print_table")
        source.write_text(printer)
        files = [str(source), *(str(root / name) for name in sources)]
        includes = [f"-I{root / name}" for name in ("src", "include")]
        subprocess.run(
            [compiler(), "-std=c++20", *includes, "-o", str(program), *files],
            check=True,
        )
        text = subprocess.run([program], check=True, text=True, stdout=subprocess.PIPE).stdout
    return [line.split("\t") for line in text.splitlines()]


def read_table(root: Path = ROOT) -> list[Row]:
    """The rows of the option table, as the library sees them."""
    return [
        (name, takes, fallback, what)
        for name, takes, fallback, what in printed_rows(PRINTER, SOURCES, root)
    ]


def render_table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""

    def cell(text: str) -> str:
        return text.replace("|", "\\|")

    lines = ["| variable | takes | default | what it does, what it costs |", "|---|---|---|---|"]
    lines += [
        f"| `STRATA_{name}` | `{cell(takes)}` | {cell(fallback)} | {cell(what)} |"
        for name, takes, fallback, what in rows
    ]
    return "\n".join(lines)


def replace_table(document: str, table: str) -> str:
    """The document with what stands between the two marks replaced."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{DOCUMENT.name} lacks the marks around the table")
    return f"{head}{BEGIN}\n{table}\n{END}{tail}"


def unexplained(document: str, rows: list[Row]) -> list[str]:
    """The options that the text outside the table never mentions."""
    head, _, rest = document.partition(BEGIN)
    prose = head + rest.partition(END)[2]
    return [f"STRATA_{row[0]}" for row in rows if f"`STRATA_{row[0]}" not in prose]


def main() -> int:
    """Writes or checks docs/options.md."""
    parser = argparse.ArgumentParser(description="Write the table of docs/options.md.")
    parser.add_argument("--check", action="store_true", help="only say whether it is current")
    check = parser.parse_args().check
    rows = read_table()
    old = DOCUMENT.read_text()
    new = replace_table(old, render_table(rows))
    status = 0
    for name in unexplained(new, rows):
        print(f"docs/options.md: {name} is in the table only", file=sys.stderr)
        status = 1
    if check and new != old:
        print("docs/options.md is stale: run scripts/gen_options_doc.py", file=sys.stderr)
        return 1
    if not check:
        DOCUMENT.write_text(new)
    return status


if __name__ == "__main__":
    sys.exit(main())
