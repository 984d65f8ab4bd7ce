#!/usr/bin/env python3
"""Checks that docs/metrics.md names the metrics of the table in src/profile/stats_prometheus.cpp,
all of them and no other. The table is compiled into a small program that prints it, as
scripts/gen_options_doc.py does for the options."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from gen_options_doc import printed_rows

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "metrics.md"
SOURCES = (
    "src/base/write_all.cpp",
    "src/profile/stats_prometheus.cpp",
    "src/profile/text_sink.cpp",
)
PRINTER = r"""
#include <cstdio>
#include "profile/stats_prometheus.h"
int main() {
  const auto print = [](void*, const strata::MetricRow& row) {
    std::printf("%s\t%s\t%s\t%s\t%s\n", row.name, row.type, row.unit,
                row.of_class != nullptr    ? "size"
                : row.of_domain != nullptr ? "domain"
                                           : "",
                row.help);
  };
  strata::VisitMetrics(print, nullptr);
}
"""

Row = tuple[str, str, str, str, str]  # name, type, unit, its own label, what it is


def read_table(root: Path = ROOT) -> list[Row]:
    """The rows of the metric table, as the library sees them."""
    return [
        (name, kind, unit, label, what)
        for name, kind, unit, label, what in printed_rows(PRINTER, SOURCES, root)
    ]


def differences(document: str, rows: list[Row]) -> Iterator[str]:
    """A line for each metric that the document lacks, and for each name that is none."""
    named = set(re.findall(r"`(strata_\w+)`", document))
    known = {row[0] for row in rows}
    for name in sorted(known - named):
        yield f"docs/metrics.md lacks {name}"
    for name in sorted(named - known - {"strata_info"}):
        yield f"docs/metrics.md names {name}, which is no metric"


def main() -> int:
    """Checks docs/metrics.md."""
    found = list(differences(DOCUMENT.read_text(), read_table()))
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
