"""`strata trace --info`: counts, sizes, lifetimes, what was live at the peak, threads."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from strata.stats import human
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


def duration(nanoseconds: int) -> str:
    seconds = nanoseconds / 1e9
    return f"{seconds:.3f} s" if seconds < 100 else f"{seconds:.0f} s"


def overview(trace: Trace, size: int) -> Table:
    events = trace.events
    live = live_bytes(trace)
    table = Table(box=None, show_header=False, pad_edge=False)
    started = datetime.fromtimestamp(trace.header.start_realtime / 1e9).isoformat(" ", "seconds")
    span = int(events["time"].to_numpy().max(initial=0))
    table.add_row("command", Text(shlex.join(trace.header.command)))
    table.add_row("process", f"{trace.header.pid}, started {started}, recorded {duration(span)}")
    table.add_row("file", f"{human(size)}, {size / max(1, len(events)):.1f} bytes a call")
    table.add_row("threads", f"{events['thread'].n_unique()}")
    counts = dict(events.group_by("operation").len().iter_rows())
    words = [f"{counts[op.value]:,} {op.name.lower()}" for op in Operation if op.value in counts]
    table.add_row("calls", f"{len(events):,}: " + ", ".join(words))
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
    places = np.searchsorted(
        [end for _, end in LIFETIMES], ended["lifetime"].to_numpy().astype(np.uint64), "right"
    )
    size = ended["size"].to_numpy()
    for place, (name, _) in enumerate(LIFETIMES):
        there = places == place
        if there.any():
            amount = int(size[there].sum())
            table.add_row(name, f"{int(there.sum()):,}", human(amount), share_bar(amount, total))
    left = all_objects.filter(pl.col("lifetime").is_null())
    amount = int(left["size"].sum())
    table.add_row("not freed", f"{len(left):,}", human(amount), share_bar(amount, total))
    return table


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
    console = Console(highlight=False, markup=False)
    console.print(overview(trace, path.stat().st_size))
    all_objects = objects(trace)
    if len(all_objects):
        for table in (sizes(all_objects), lifetimes(all_objects), threads(all_objects)):
            console.print()
            console.print(table)
