"""`strata trace --info`: counts, sizes, lifetimes, what was live at the peak, threads."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from strata.stats import duration, human
from strata.terminal import console, printable
from strata.trace.analyze import by_power_of_two, live_bytes, objects
from strata.trace.format import Operation
from strata.trace.read import Trace, read_trace

LIFETIMES = (  # name, nanoseconds it stays below
    ("< 1 µs", 1_000),
    ("< 10 µs", 10_000),
    ("< 100 µs", 100_000),
    ("< 1 ms", 1_000_000),
    ("< 10 ms", 10_000_000),
    ("< 100 ms", 100_000_000),
    ("< 1 s", 1_000_000_000),
    ("< 10 s", 10_000_000_000),
    ("longer", 1 << 63),
)


LIFETIMES_IN_BYTES = (
    ("< 1 KiB", 1 << 10),
    ("< 32 KiB", 1 << 15),
    ("< 1 MiB", 1 << 20),
    ("< 32 MiB", 1 << 25),
    ("< 1 GiB", 1 << 30),
    ("longer", 1 << 63),
)
NOT_FREED = "not freed"


def overview(trace: Trace, size: int) -> Table:
    events = trace.events
    live = live_bytes(trace)
    table = Table(box=None, show_header=False, pad_edge=False)
    started = datetime.fromtimestamp(trace.header.start_realtime / 1e9).isoformat(" ", "seconds")
    span = int(events["time"].to_numpy().max(initial=0))
    words = trace.header.command
    # The Trace layer is a part of a program, and does not know its command line.
    table.add_row("command", Text(printable(shlex.join(words)) if any(words) else "not recorded"))
    table.add_row("process", f"{trace.header.pid}, started {started}, recorded {duration(span)}")
    table.add_row("file", f"{human(size)}, {size / max(1, len(events)):.1f} bytes a call")
    table.add_row("threads", f"{events['thread'].n_unique()}")
    counts = dict(events.group_by("operation").len().iter_rows())
    made = [f"{counts[op.value]:,} {op.name.lower()}" for op in Operation if op.value in counts]
    table.add_row("calls", f"{len(events):,}: " + ", ".join(made))
    table.add_row("allocated", human(int(events["size"].sum())))
    if len(live):
        peak = int(live.argmax())
        when = duration(int(events["time"][peak]))
        table.add_row("peak live", f"{human(int(live[peak]))} after {when}, call {peak + 1:,}")
        table.add_row("live at the end", human(int(live[-1])))
    if trace.header.has_stacks:
        table.add_row("call stacks", f"{len(trace.stacks):,}")
    if trace.totals is None:
        table.add_row("end", "not recorded: the program was killed, runs, or executed another")
    else:
        lost = f", {trace.totals.lost:,} calls lost" if trace.totals.lost else ""
        unknown = f"{trace.totals.unknown_frees:,} frees of blocks from before the recording"
        table.add_row("end", unknown + lost)
    return table


def share_bar(part: float, whole: float) -> str:
    return "█" * round(30 * part / whole) if whole else ""


def sizes(all_objects: pl.DataFrame) -> Table:
    table = Table("size up to", "objects", "bytes", "share of objects", box=None, pad_edge=False)
    amounts = dict(by_power_of_two(all_objects["size"], all_objects["size"]))
    for top, count in by_power_of_two(all_objects["size"]):
        bar = share_bar(count, len(all_objects))
        table.add_row(human(top), f"{count:,}", human(amounts.get(top, 0)), bar)
    return table


def lifetimes(all_objects: pl.DataFrame) -> Table:
    table = Table("lifetime", "objects", "bytes", "share of bytes", box=None, pad_edge=False)
    total = int(all_objects["size"].sum())
    ended = all_objects.drop_nulls("lifetime")
    place_of = places(ended["lifetime"], LIFETIMES)
    size = ended["size"].to_numpy()
    for place, (name, _) in enumerate(LIFETIMES):
        there = place_of == place
        if there.any():
            amount = int(size[there].sum())
            table.add_row(name, f"{int(there.sum()):,}", human(amount), share_bar(amount, total))
    left = all_objects.filter(pl.col("lifetime").is_null())
    amount = int(left["size"].sum())
    table.add_row(NOT_FREED, f"{len(left):,}", human(amount), share_bar(amount, total))
    return table


def places(lifetimes: pl.Series, ends: tuple[tuple[str, int], ...]) -> NDArray[np.int64]:
    """In which row of `ends` each lies; one more than the last for those without."""
    known = lifetimes.fill_null(0).to_numpy().astype(np.uint64)
    found = np.searchsorted(np.array([end for _, end in ends], np.uint64), known, "right")
    found[lifetimes.is_null().to_numpy()] = len(ends)
    return found


def shares(
    title: str, keys: list[str], key_of: NDArray[np.int64], place_of: NDArray[np.int64],
    ends: tuple[tuple[str, int], ...],
) -> Table:  # fmt: skip
    """A row a key: what part of its objects lived how long, in per cent."""
    names = [name for name, _ in ends] + [NOT_FREED]
    counts = np.zeros((len(keys), len(names)), np.int64)
    np.add.at(counts, (key_of, place_of), 1)
    shown = np.flatnonzero(counts.any(axis=0))
    table = Table(title, box=None, pad_edge=False)
    for name in ("objects", *(names[i].replace(" ", "") for i in shown)):
        table.add_column(name, justify="right", no_wrap=True)
    for key, row in zip(keys, counts, strict=True):
        total = int(row.sum())
        if total:
            cells = (100 * row[i] / total for i in shown)
            table.add_row(key, f"{total:,}", *(f"{c:.0f} %" if c else "" for c in cells))
    return table


def lifetimes_by_size(
    all_objects: pl.DataFrame, column: str, ends: tuple[tuple[str, int], ...]
) -> Table:
    sizes_of = all_objects["size"].to_numpy().astype(np.float64)
    power = np.ceil(np.log2(np.maximum(sizes_of, 1))).astype(np.int64)
    keys = [human(1 << k) for k in range(int(power.max()) + 1)]
    return shares("size up to", keys, power, places(all_objects[column], ends), ends)


def lifetimes_by_thread(all_objects: pl.DataFrame, most: int = 12) -> Table:
    """The threads that made most of the objects."""
    busiest = all_objects["thread"].value_counts(sort=True)["thread"].head(most).sort()
    some = all_objects.filter(pl.col("thread").is_in(busiest.implode()))
    key_of = np.searchsorted(busiest.to_numpy(), some["thread"].to_numpy())
    return shares(
        "thread", [f"{t}" for t in busiest], key_of,
        places(some["lifetime"], LIFETIMES), LIFETIMES,
    )  # fmt: skip


def threads(all_objects: pl.DataFrame, most: int = 12) -> Table:
    table = Table("thread", "objects", "bytes", "freed by another", box=None, pad_edge=False)
    away = (pl.col("freed_by") != pl.col("thread")).fill_null(False)
    rows = (
        all_objects.group_by("thread")
        .agg(pl.len(), pl.col("size").sum(), away.sum().alias("away"))
        .sort("len", descending=True)
    )
    for thread, count, amount, elsewhere in rows.head(most).iter_rows():
        table.add_row(f"{thread}", f"{count:,}", human(amount), f"{elsewhere:,}")
    if len(rows) > most:
        table.add_row(f"{len(rows) - most} more", "", "", "")
    return table


def show(path: Path, say: Callable[[str], None]) -> None:
    trace = read_trace(path)
    if trace.damage is not None:
        say(f"{path}: {trace.damage}; showing what is before it")
    out = console()
    out.print(overview(trace, path.stat().st_size))
    all_objects = objects(trace)
    if len(all_objects):
        for heading, table in (
            ("", sizes(all_objects)),
            ("", lifetimes(all_objects)),
            ("lifetimes by size", lifetimes_by_size(all_objects, "lifetime", LIFETIMES)),
            (
                "lifetimes by size, in bytes allocated meanwhile",
                lifetimes_by_size(all_objects, "lifetime_bytes", LIFETIMES_IN_BYTES),
            ),
            ("", threads(all_objects)),
            ("lifetimes by thread", lifetimes_by_thread(all_objects)),
        ):
            out.print(f"\n{heading}" if heading else "")
            out.print(table)
