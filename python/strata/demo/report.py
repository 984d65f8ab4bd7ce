"""Turns the measured runs into a table and into sentences.

Nothing here knows who should win: every sentence is built from the figures, and differences
within TIE are called even.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from strata.demo.measure import Run
from strata.demo.memory import PAGES_PER_HUGEPAGE
from strata.demo.plan import Load, Plan
from strata.stats import human, percent

TIE = 0.03  # one run each on a small shared machine resolves no less
PHASES = {"fill": "Fill", "delete": "Delete", "refill": "Refill", "read": "Read"}
SPAN_PAGE = 8192  # Strata counts in pages of this size
HALF = PAGES_PER_HUGEPAGE // 2


@dataclass(frozen=True)
class Row:
    """One line of the table. `best` is the column to point out, None where even or meaningless."""

    label: str
    cells: list[str]
    best: int | None
    section: str


def join(words: Sequence[str]) -> str:
    """a / a and b / a, b and c."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def leaders(values: dict[str, float], smallest: bool) -> list[str]:
    """The names within TIE of the best value, best first."""
    ordered = sorted(values, key=lambda name: values[name], reverse=not smallest)
    best = values[ordered[0]]
    slack = TIE * abs(best)
    return [name for name in ordered if abs(values[name] - best) <= slack]


def milliseconds(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:.2f} ms" if value < 9.995 else f"{value:.1f} ms"


def table(runs: list[Run]) -> list[Row]:
    """All figures of the demo, a column for each run."""
    rows: list[Row] = []

    def add(
        section: str,
        label: str,
        value: Callable[[Run], float],
        text: Callable[[float], str],
        smallest: bool | None = None,
    ) -> None:
        values = {run.name: value(run) for run in runs}
        best = None
        if smallest is not None:
            first = leaders(values, smallest)
            if len(first) == 1:
                best = list(values).index(first[0])
        rows.append(Row(label, [text(number) for number in values.values()], best, section))

    for key, name in PHASES.items():
        speed = f"{name} ({runs[0].phases[key].requests:,} requests)"
        add(speed, "requests/s", partial(_rate, key), lambda v: f"{v:,.0f}", False)
        for which in (50, 99):
            add(speed, f"p{which} of a pipeline", partial(_latency, key, which), milliseconds, True)
    group = "cgroup" if runs[0].in_cgroup else "MemFree"
    add("Memory", "peak RSS", lambda r: r.peak_rss, human, True)
    add("Memory", f"peak by {group}", lambda r: r.peak_physical, human, True)
    add("Memory", "RSS after delete + idle", lambda r: r.snapshots["idle"].rss, human, True)
    add(
        "Memory",
        f"{group} after delete + idle",
        lambda r: r.snapshots["idle"].physical,
        human,
        True,
    )
    add("Memory", "RSS at the end", lambda r: r.snapshots["end"].rss, human, True)
    for when, label in (("filled", "after fill"), ("idle", "after idle"), ("end", "at the end")):
        add(
            "Hugepages and faults",
            f"on hugepages {label}",
            partial(_coverage, when),
            percent,
            False,
        )
    add("Hugepages and faults", "page faults", minor_faults, lambda v: f"{v:,.0f}", True)
    add("Server", "CPU seconds", cpu_seconds, lambda v: f"{v:.1f} s", True)
    add("Server", "requests per CPU second", cpu_rate, lambda v: f"{v:,.0f}", False)
    return rows


def _rate(phase: str, run: Run) -> float:
    return run.phases[phase].rate


def _latency(phase: str, which: int, run: Run) -> float:
    return run.phases[phase].percentile(which)


def _coverage(when: str, run: Run) -> float:
    return run.snapshots[when].coverage


def minor_faults(run: Run) -> float:
    return run.snapshots["end"].minor_faults - run.snapshots["start"].minor_faults


def cpu_seconds(run: Run) -> float:
    return run.snapshots["end"].cpu_seconds - run.snapshots["start"].cpu_seconds


def cpu_rate(run: Run) -> float:
    return sum(phase.requests for phase in run.phases.values()) / max(cpu_seconds(run), 0.01)


def speed_sentence(runs: list[Run]) -> str:
    """Who was fastest at each phase, and how far behind the others were."""
    parts = []
    for key, name in PHASES.items():
        rates = {run.name: run.phases[key].rate for run in runs}
        first = leaders(rates, smallest=False)
        best = rates[first[0]]
        rest = [
            f"{other} at {rates[other] / best:.2f}×"
            for other in sorted(rates, key=lambda n: -rates[n])
            if other not in first
        ]
        if not rest:
            parts.append(f"{name}: even")
        elif len(first) == 1:
            parts.append(f"{name}: {first[0]} was fastest, {join(rest)}")
        else:
            parts.append(f"{name}: {join(first)} were even, {join(rest)}")
    return "; ".join(parts) + ". Within 3 % counts as even, as each ran once."


def peak_sentence(runs: list[Run]) -> str:
    """Who needed the least at most."""
    peaks = {run.name: float(run.peak_rss) for run in runs}
    least = leaders(peaks, smallest=True)
    highest = max(peaks, key=lambda name: peaks[name])
    if highest in least:
        return f"The peaks of RSS are even, at about {human(peaks[highest])}."
    verb = "has" if len(least) == 1 else "have"
    return (
        f"{join(least)} {verb} the lowest peak of RSS, {human(peaks[least[0]])}; "
        f"{highest} has the highest, {human(peaks[highest])}."
    )


def return_sentence(runs: list[Run], load: Load) -> str:
    """What came back after the delete, against the data that is left."""
    changes = []
    for run in runs:
        before, after = run.snapshots["filled"].rss, run.snapshots["idle"].rss
        gone = (before - after) / before
        if abs(gone) < 0.01:
            changes.append(f"{run.name} still holds all of its {human(after)}")
        else:
            verb = "gave back" if gone > 0 else "grew by"
            changes.append(f"{run.name} {verb} {abs(100 * gone):.0f} % and holds {human(after)}")
    live = human(load.live_bytes["delete"])
    return f"After the delete and the idle time, with {live} of data left, {join(changes)}."


def work_sentence(runs: list[Run]) -> str:
    """Requests per second of the server's CPU over the whole load."""
    values = {run.name: cpu_rate(run) for run in runs}
    first = leaders(values, smallest=False)
    figures = join(
        [f"{name} {values[name]:,.0f}" for name in sorted(values, key=lambda n: -values[n])]
    )
    if len(first) == len(runs):
        verdict = "The three are even"
    elif len(first) == 1:
        verdict = f"{first[0]} is ahead"
    else:
        verdict = f"{join(first)} are even and ahead"
    return f"{verdict} in requests for a second of server CPU: {figures}."


def physical_sentence(runs: list[Run]) -> str:
    """Whether RSS tells what the machine really lost."""
    source = "The cgroup's count" if runs[0].in_cgroup else "The fall of MemFree"
    gaps = {run.name: run.snapshots["idle"].physical - run.snapshots["idle"].rss for run in runs}
    worst = max(gaps, key=lambda name: gaps[name])
    held = next(run for run in runs if run.name == worst).snapshots["idle"].physical
    if gaps[worst] > TIE * held:
        return (
            f"{source} is what the machine really gives; after the idle time it is above RSS by "
            f"{human(gaps[worst])} for {worst}: memory that RSS does not show but that is not free."
        )
    return (
        f"{source} is what the machine really gives; after the idle time it agrees with RSS "
        f"within {human(max(abs(gap) for gap in gaps.values()))} for all, so what left RSS is free."
    )


def coverage_sentence(runs: list[Run]) -> str:
    parts = []
    for run in runs:
        filled, end = (run.snapshots[when].coverage for when in ("filled", "end"))
        parts.append(
            f"{run.name} none"
            if max(filled, end) < 0.005
            else f"{run.name} {percent(filled)} after the fill and {percent(end)} at the end"
        )
    return "Of the server's anonymous memory on hugepages: " + "; ".join(parts) + "."


def heap_sentence(runs: list[Run]) -> str:
    """What the delete and the idle time did to the 2 MiB ranges."""
    parts = []
    for run in runs:
        before, after = run.snapshots["filled"].occupancy, run.snapshots["idle"].occupancy
        emptied = sum(1 for number in before if not after.get(number))
        thinned = sum(
            1 for number, pages in before.items() if pages >= HALF > after.get(number, 0) > 0
        )
        parts.append(
            f"{run.name} had {len(before):,} ranges in memory, of which {emptied:,} went back "
            f"in full and {thinned:,} fell below half"
        )
    return (
        "Each cell is a 2 MiB-aligned range of the heap, in the order of addresses: the paler, the "
        "fewer of its 512 pages are in memory; orange, none. " + "; ".join(parts) + "."
    )


def used_sentence(run: Run) -> str:
    """Strata's own view: pages that hold objects against pages in memory."""
    parts = []
    for when, label in (("filled", "after the fill"), ("idle", "after the delete and idle")):
        pages = run.snapshots[when].used or []
        used, resident = (sum(row[column] for row in pages) * SPAN_PAGE for column in (0, 1))
        parts.append(f"{label} {human(used)}, with {human(resident)} in memory")
    return (
        f"The last row is {run.name}'s own figure for the same hugepages, the pages that belong "
        f"to spans in use: {'; '.join(parts)}. Where it is darker than the row above, pages inside "
        "spans in use were given back too."
    )


def setting_lines(plan: Plan) -> list[str]:
    """What was done, for the foot of the page."""
    return [
        f"Fill: {plan.keys:,} keys, value sizes from {plan.smallest} B to "
        f"{plan.largest // 1024} KiB, uniform in their logarithm. Delete: {plan.delete_share:.0%} "
        f"of the keys, at random. Idle: {plan.idle_seconds:g} s without a request. Refill: the "
        "deleted keys with sizes uniform over the same range, so larger on average. Read: "
        f"{plan.reads:,} keys by Zipf's law (exponent {plan.zipf_exponent}). All three servers "
        "get the very same requests, and every reply is compared with what was stored.",
        f"Latency is that of a pipeline of {plan.pipeline} requests, from before its first byte is "
        f"sent until its last reply is read, with {plan.connections} pipelines in flight.",
        "Page faults are the server's minor faults during the load; CPU seconds are the server's.",
    ]
