#!/usr/bin/env python3
"""Writes the table of docs/metrics.md from the one table in src/profile/stats_prometheus.cpp.

As scripts/gen_options_doc.py does for the options: the table is compiled into a small program that
prints it. With --check nothing is written; the status says whether the document is current.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gen_options_doc import printed_rows

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "metrics.md"
BEGIN = "<!-- table: written by scripts/gen_metrics_doc.py -->"
END = "<!-- end of table -->"
SOURCES = (
    "src/base/write_all.cpp",
    "src/profile/stats_prometheus.cpp",
    "src/profile/text_sink.cpp",
)
PRINTER = r"""
#include <cstdio>
#include "profile/stats_prometheus.h"
int main() {
  size_t rows = 0;
  const strata::MetricRow* table = strata::MetricTable(&rows);
  for (size_t i = 0; i < rows; ++i)
    std::printf("%s\t%s\t%s\n", table[i].name,
                table[i].of_class != nullptr    ? "size"
                : table[i].of_domain != nullptr ? "domain"
                                                : "",
                table[i].help);
}
"""

Row = tuple[str, str, str]  # name, its own label, what it is; the name ends in type and unit


def read_table(root: Path = ROOT) -> list[Row]:
    """The rows of the metric table, as the library sees them."""
    return [(name, label, what) for name, label, what in printed_rows(PRINTER, SOURCES, root)]


def render_table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| metric | what it is |", "|---|---|"]
    for name, label, what in rows:
        shown = f"`{name}`" + (f" by `{label}`" if label else "")
        lines.append(f"| {shown} | {what} |")
    return "\n".join(lines)


def replace_table(document: str, table: str) -> str:
    """The document with what stands between the two marks replaced."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{DOCUMENT.name} lacks the marks around the table")
    return f"{head}{BEGIN}\n{table}\n{END}{tail}"


def main() -> int:
    """Writes or checks docs/metrics.md."""
    parser = argparse.ArgumentParser(description="Write the table of docs/metrics.md.")
    parser.add_argument("--check", action="store_true", help="only say whether it is current")
    check = parser.parse_args().check
    old = DOCUMENT.read_text()
    new = replace_table(old, render_table(read_table()))
    if check and new != old:
        print("docs/metrics.md is stale: run scripts/gen_metrics_doc.py", file=sys.stderr)
        return 1
    if not check:
        DOCUMENT.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
