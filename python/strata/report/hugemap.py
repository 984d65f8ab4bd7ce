"""The map of hugepages, drawn by hand: a cell for each in the order of addresses, and a table of
how many are how full and how old. Thousands of cells as one path a colour keep the page small."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from strata.report.advice_hugepages import OLD, SPARSE, Fill
from strata.report.document import HUGEPAGE_PAGES, PAGE, Document, as_number

FILLS = ("none", "<25%", "<50%", "<75%", "<100%", "all")
# resident but unused stands out; the fuller, the darker
COLOURS = (
    "var(--c5)",
    "var(--life5)",
    "var(--life3)",
    "var(--life2)",
    "var(--life1)",
    "var(--life0)",
)
AGES = ((10.0, "< 10 s"), (60.0, "< 1 min"), (600.0, "< 10 min"), (3600.0, "< 1 h"))
AGE_NAMES = [name for _, name in AGES] + ["longer"]
MOST_CELLS = 4096
# States (docs/statistics.md): gave a part back; began as single pages, and gave nothing back; both.
BROKEN = frozenset("pxeb")
BEGUN_SMALL = frozenset("s")
BOTH = frozenset("b")
CELL = 10


@dataclass(frozen=True)
class Hugepage:
    """One mapped hugepage: 8 KiB pages handed out and resident, and its age if it is known."""

    used: int
    resident: int
    state: str
    age: float | None

    @property
    def in_memory(self) -> bool:
        return self.resident > 0 or self.used > 0

    @property
    def fill(self) -> int:
        """The index into FILLS."""
        if self.used >= HUGEPAGE_PAGES:
            return len(FILLS) - 1
        return 0 if self.used <= 0 else 1 + 4 * self.used // HUGEPAGE_PAGES

    @property
    def sparse(self) -> bool:
        return 0 < self.used < SPARSE * HUGEPAGE_PAGES

    @property
    def idle_bytes(self) -> int:
        return max(0, self.resident - self.used) * PAGE


def hugepages(stats: Document) -> list[Hugepage]:
    """The rows [used, resident, state, age] of the statistics; older libraries give no age."""
    found = []
    for row in stats.rows("hugepage_occupancy"):
        if not isinstance(row, list) or len(row) < 2:
            continue
        used, resident = as_number(row[0]), as_number(row[1])
        if used is None or resident is None:
            continue
        state = row[2] if len(row) > 2 and isinstance(row[2], str) else ""
        age = as_number(row[3]) if len(row) > 3 else None
        found.append(Hugepage(int(used), int(resident), state, age))
    return found


def summary(pages: Sequence[Hugepage]) -> Fill:
    """For the advice: how many are sparse or empty, and what lies idle in them."""
    sparse = [page for page in pages if page.sparse]
    ages = [page.age for page in sparse if page.age is not None]
    empty = [page for page in pages if page.resident > 0 and page.used <= 0]
    return Fill(
        len(sparse),
        sum(page.idle_bytes for page in sparse),
        sum(age > OLD for age in ages) if ages else None,
        len(empty),
        sum(page.idle_bytes for page in empty),
    )


def age_row(age: float) -> int:
    return next((at for at, (edge, _) in enumerate(AGES) if age < edge), len(AGES))


def by_age(pages: Sequence[Hugepage]) -> list[list[int]] | None:
    """Hugepages in use by age (rows) and fill (columns, without the first); None if no age is
    known. One that is free, in the cache say, has none: the library writes 0."""
    known = [(page.age, page) for page in pages if page.age is not None]
    if not known:
        return None
    counts = [[0] * len(FILLS[1:]) for _ in AGE_NAMES]
    for age, page in known:
        if page.used > 0:
            counts[age_row(age)][page.fill - 1] += 1
    return counts


def of_states(pages: Sequence[Hugepage], states: frozenset[str]) -> tuple[int, int]:
    """How many hugepages in memory are in one of the states, and the bytes resident in them."""
    found = [page for page in pages if page.in_memory and page.state in states]
    return len(found), sum(max(0, page.resident) for page in found) * PAGE


def _cells(pages: Sequence[Hugepage]) -> tuple[list[int | None], int]:
    """The fill of each cell (None: no memory), and how many hugepages one cell stands for."""
    each = max(1, math.ceil(len(pages) / MOST_CELLS))
    cells: list[int | None] = []
    for first in range(0, len(pages), each):
        group = [page for page in pages[first : first + each] if page.in_memory]
        used = sum(page.used for page in group) // max(1, len(group))
        cells.append(Hugepage(used, 1, "", None).fill if group else None)
    while cells and cells[-1] is None:  # address space never used
        cells.pop()
    return cells, each


def _grid(cells: Sequence[int | None], columns: int, kind: str, label: str) -> str:
    columns = max(1, min(columns, len(cells)))
    rows = math.ceil(len(cells) / columns)
    paths = [""] * (len(FILLS) + 1)
    for at, fill in enumerate(cells):
        x, y = at % columns * CELL + 1, at // columns * CELL + 1
        paths[len(FILLS) if fill is None else fill] += f"M{x} {y}h8v8h-8z"
    drawn = "".join(
        f'<path d="{path}" fill="{colour}"/>'
        for path, colour in zip(paths, COLOURS, strict=False)
        if path
    )
    if paths[-1]:
        drawn += f'<path d="{paths[-1]}" fill="none" stroke="var(--grid)"/>'
    most = 16 * columns if kind == "wide" else 22 * columns  # few cells must not become huge ones
    return (
        f'<svg class="{kind}" role="img" aria-label="{escape(label)}" style="max-width:{most}px" '
        f'viewBox="0 0 {columns * CELL} {rows * CELL}">{drawn}</svg>'
    )


def grid(pages: Sequence[Hugepage], label: str) -> str:
    """The map and what its colours mean."""
    cells, each = _cells(pages)
    keys = "".join(
        f'<span class="key"><i style="background:{colour}"></i>{escape(name)}</span>'
        for name, colour in zip(FILLS, COLOURS, strict=True)
    )
    keys += '<span class="key"><i class="none"></i>not in memory</span>'
    unit = "a hugepage" if each == 1 else f"{each} hugepages"
    wide = _grid(cells, 64, "wide", label)
    narrow = _grid(cells, 24, "narrow", label)
    return f'<p class="keys">One cell is {unit}, used: {keys}</p>{wide}{narrow}'


def age_table(counts: Sequence[Sequence[int]]) -> str:
    """The second half of the map: how many are how full and how old."""
    most = max(1, *(count for row in counts for count in row))
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in FILLS[1:])
    lines = [f'<table class="map"><thead><tr><td>age</td>{heads}</tr></thead><tbody>']
    for name, row in zip(AGE_NAMES, counts, strict=True):
        cells = "".join(
            f'<td class="cell" style="background:color-mix(in srgb, var(--c0) '
            f'{60 * count / most:.0f}%, transparent)">{count or "·"}</td>'
            for count in row
        )
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    return "".join([*lines, "</tbody></table>"])
