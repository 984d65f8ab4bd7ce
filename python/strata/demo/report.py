"""Turns the measured rounds into a table and into sentences.

Nothing here knows who should win: every sentence is built from the figures. A figure is the median
of the rounds with their lowest and highest, and no allocator is named before another one unless
these ranges lie apart and the medians differ by more than TIE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from strata.demo.measure import Arm, Run
from strata.demo.memory import PAGES_PER_HUGEPAGE
from strata.demo.plan import Load, Plan
from strata.stats import human, percent

TIE = 0.01  # nobody cares about less
ENOUGH_ROUNDS = 4  # for ranges that do not meet to mean something by themselves
PHASES = {"fill": "Fill", "delete": "Delete", "refill": "Refill", "read": "Read"}
VERBS = {"fill": "SET", "delete": "DEL", "refill": "SET", "read": "GET"}
SPAN_PAGE = 8192  # Strata counts in pages of this size
HALF = PAGES_PER_HUGEPAGE // 2
MIB = 1 << 20


@dataclass(frozen=True)
class Range:
    """A figure over the rounds."""

    middle: float
    low: float
    high: float
    rounds: int

    def apart(self, other: Range) -> bool:
        """Whether the rounds tell the two apart. Of two figures that do not differ at all, all of
        one allocator's rounds lie to one side of the other's once in 126 times with five rounds,
        but once in 3 with two: then more is asked for."""
        if self.rounds < 2:
            return False
        gap = max(self.low - other.high, other.low - self.high)
        wider = max(self.high - self.low, other.high - other.low)
        return gap > (0 if self.rounds >= ENOUGH_ROUNDS else wider)

    def __str__(self) -> str:
        size = abs(self.middle)
        digits = 0 if size >= 50 or not size else 1 if size >= 5 else 2
        middle, low, high = (f"{v:,.{digits}f}" for v in (self.middle, self.low, self.high))
        return middle if low == high else f"{middle} ({low}–{high})"


def over_rounds(arm: Arm, value: Callable[[Run], float]) -> Range:
    values = [value(run) for run in arm.runs]
    return Range(median(values), min(values), max(values), len(values))


def middle(arm: Arm, value: Callable[[Run], float]) -> float:
    return over_rounds(arm, value).middle


@dataclass(frozen=True)
class Row:
    """One line of the table. `best` is the column to point out, None where the rounds do not tell
    who it is. `brief`: the terminal shows it, too."""

    label: str
    cells: list[str]
    best: int | None
    section: str
    brief: bool


def join(words: Sequence[str]) -> str:
    """a / a and b / a, b and c."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def leaders(values: dict[str, Range], smallest: bool) -> list[str]:
    """The name with the best median and those that the rounds do not tell from it, best first."""
    ordered = sorted(values, key=lambda name: values[name].middle, reverse=not smallest)
    best = values[ordered[0]]

    def close(one: Range) -> bool:
        return not one.apart(best) or abs(one.middle - best.middle) <= TIE * abs(best.middle)

    return [name for name in ordered if close(values[name])]


def ranges(arms: list[Arm], value: Callable[[Run], float]) -> dict[str, Range]:
    return {arm.name: over_rounds(arm, value) for arm in arms}


def table(arms: list[Arm]) -> list[Row]:
    """All figures of the demo, a column for each allocator."""
    rows: list[Row] = []

    def add(
        section: str,
        label: str,
        value: Callable[[Run], float],
        smallest: bool | None = None,
        brief: bool = False,
    ) -> None:
        values = ranges(arms, value)
        best = None
        if smallest is not None:
            first = leaders(values, smallest)
            if len(first) == 1:
                best = list(values).index(first[0])
        rows.append(Row(label, [str(one) for one in values.values()], best, section, brief))

    for key, name in PHASES.items():
        speed = f"{name} ({arms[0].runs[0].phases[key].requests / 1000:g}k {VERBS[key]}s)"
        add(speed, "thousand / s", partial(_rate, key), False, True)
        add(speed, "thousand / CPU s", partial(_cpu_rate, key), False, True)
        add(speed, "p50, ms", partial(_latency, key, 50), True)
        add(speed, "p99, ms", partial(_latency, key, 99), True, True)
    whole = "Whole load"
    add(whole, "CPU s, all threads", cpu_seconds, True, True)
    add(whole, "thousand / CPU s", cpu_rate, False, True)
    add(whole, "thousand page faults", lambda run: minor_faults(run) / 1000, True)
    group = "cgroup" if arms[0].runs[0].in_cgroup else "MemFree"
    add("Memory, MiB", "peak RSS", lambda run: run.peak_rss / MIB, True, True)
    add("Memory, MiB", f"peak by {group}", lambda run: run.peak_physical / MIB, True)
    add("Memory, MiB", "RSS after idle", partial(_rss, "idle"), True, True)
    add("Memory, MiB", f"{group} after idle", partial(_physical, "idle"), True)
    add("Memory, MiB", "RSS at the end", partial(_rss, "end"), True, True)
    for when, label in (("filled", "after fill"), ("idle", "after idle"), ("end", "at the end")):
        add("On hugepages, %", label, partial(_percent_on_hugepages, when), False, True)
    for key in arms[0].runs[0].spent:
        spent = f"CPU seconds, {key}"
        if key in PHASES:
            add(spent, "serving thread, user", partial(_serving, key, "user"), True)
            add(spent, "serving thread, system", partial(_serving, key, "system"), True)
        add(spent, "other threads, user", partial(_others, key, "user"))
        add(spent, "other threads, system", partial(_others, key, "system"))
    return rows


def _rate(phase: str, run: Run) -> float:
    return run.phases[phase].rate / 1000


def _cpu_rate(phase: str, run: Run) -> float:
    return run.phases[phase].requests / max(run.spent[phase].serving.seconds, 1e-3) / 1000


def _latency(phase: str, which: int, run: Run) -> float:
    return run.phases[phase].percentile(which) * 1000


def _serving(phase: str, part: str, run: Run) -> float:
    return float(getattr(run.spent[phase].serving, part))


def _others(phase: str, part: str, run: Run) -> float:
    return float(getattr(run.spent[phase].others, part))


def _rss(when: str, run: Run) -> float:
    return run.snapshots[when].rss / MIB


def _physical(when: str, run: Run) -> float:
    return run.snapshots[when].physical / MIB


def _coverage(when: str, run: Run) -> float:
    return run.snapshots[when].coverage


def _percent_on_hugepages(when: str, run: Run) -> float:
    return 100 * run.snapshots[when].coverage


def minor_faults(run: Run) -> float:
    return run.snapshots["end"].minor_faults - run.snapshots["start"].minor_faults


def cpu_seconds(run: Run) -> float:
    """Of all threads in all phases and the idle time, without what lies between them."""
    return sum(spent.serving.seconds + spent.others.seconds for spent in run.spent.values())


def cpu_rate(run: Run) -> float:
    requests = sum(phase.requests for phase in run.phases.values())
    return requests / max(cpu_seconds(run), 1e-3) / 1000


def speed_sentence(arms: list[Arm]) -> str:
    """Who was fastest at each phase, and how far behind the others were."""
    parts = []
    for key, name in PHASES.items():
        rates = ranges(arms, partial(_rate, key))
        first = leaders(rates, smallest=False)
        best = rates[first[0]].middle
        rest = [
            f"{other} at {rates[other].middle / best:.2f}×"
            for other in sorted(rates, key=lambda n: -rates[n].middle)
            if other not in first
        ]
        if not rest:
            parts.append(f"{name}: even")
        elif len(first) == 1:
            parts.append(f"{name}: {first[0]} was fastest, {join(rest)}")
        else:
            parts.append(f"{name}: {join(first)} were even, {join(rest)}")
    return "; ".join(parts) + ". " + even_line(arms)


def even_line(arms: list[Arm]) -> str:
    rounds = len(arms[0].runs)
    if rounds == 1:
        return "Each ran once, which shows no spread."
    overlap = (
        "whose ranges overlap"
        if rounds >= ENOUGH_ROUNDS
        else "whose ranges lie no further apart than the wider of them is wide"
    )
    return (
        f"Medians of {rounds} rounds; those {overlap}, or whose medians are within "
        f"{100 * TIE:.0f} %, count as even."
    )


def peak_sentence(arms: list[Arm]) -> str:
    """Who needed the least at most."""
    peaks = ranges(arms, lambda run: run.peak_rss)
    least = leaders(peaks, smallest=True)
    highest = max(peaks, key=lambda name: peaks[name].middle)
    if highest in least:
        return f"The peaks of RSS are even, at about {human(peaks[highest].middle)}."
    verb = "has" if len(least) == 1 else "have"
    return (
        f"{join(least)} {verb} the lowest peak of RSS, {human(peaks[least[0]].middle)}; "
        f"{highest} has the highest, {human(peaks[highest].middle)}."
    )


def return_sentence(arms: list[Arm], load: Load) -> str:
    """What came back after the delete, against the data that is left."""
    changes = []
    for arm in arms:
        before, after = (middle(arm, partial(_rss, when)) * MIB for when in ("filled", "idle"))
        gone = (before - after) / before
        if abs(gone) < 0.01:
            changes.append(f"{arm.name} still holds all of its {human(after)}")
        else:
            verb = "gave back" if gone > 0 else "grew by"
            changes.append(f"{arm.name} {verb} {abs(100 * gone):.0f} % and holds {human(after)}")
    live = human(load.live_bytes["delete"])
    return f"After the delete and the idle time, with {live} of data left, {join(changes)}."


def work_sentence(arms: list[Arm]) -> str:
    """Requests for a second of the server's CPU over the whole load."""
    values = ranges(arms, cpu_rate)
    first = leaders(values, smallest=False)
    ordered = sorted(values, key=lambda name: -values[name].middle)
    figures = join([f"{name} {values[name]}" for name in ordered])
    if len(first) == len(arms):
        verdict = "They are even"
    elif len(first) == 1:
        verdict = f"{first[0]} is ahead"
    else:
        verdict = f"{join(first)} are even and ahead"
    return f"{verdict} in requests for a second of server CPU, thousands: {figures}."


def physical_sentence(arms: list[Arm]) -> str:
    """Whether RSS tells what the machine really lost."""
    source = "The cgroup's count" if arms[0].runs[0].in_cgroup else "The fall of MemFree"
    held = {arm.name: middle(arm, partial(_physical, "idle")) * MIB for arm in arms}
    gaps = {arm.name: held[arm.name] - middle(arm, partial(_rss, "idle")) * MIB for arm in arms}
    worst = max(gaps, key=lambda name: gaps[name])
    if gaps[worst] > 0.03 * held[worst]:
        return (
            f"{source} is what the machine really gives; after the idle time it is above RSS by "
            f"{human(gaps[worst])} for {worst}: memory that RSS does not show but that is not free."
        )
    return (
        f"{source} is what the machine really gives; after the idle time it agrees with RSS "
        f"within {human(max(abs(gap) for gap in gaps.values()))} for all, so what left RSS is free."
    )


def coverage_sentence(arms: list[Arm]) -> str:
    parts = []
    for arm in arms:
        filled, end = (middle(arm, partial(_coverage, when)) for when in ("filled", "end"))
        parts.append(
            f"{arm.name} none"
            if max(filled, end) < 0.005
            else f"{arm.name} {percent(filled)} after the fill and {percent(end)} at the end"
        )
    return "Of the server's anonymous memory on hugepages: " + "; ".join(parts) + "."


def shown(arm: Arm) -> Run:
    """The round that the picture of the heap shows: that with the median RSS after the idle time,
    of an even number the lower of the two in the middle."""
    ordered = sorted(arm.runs, key=lambda run: run.snapshots["idle"].rss)
    return ordered[(len(ordered) - 1) // 2]


def heap_sentence(arms: list[Arm]) -> str:
    """What the delete and the idle time did to the 2 MiB ranges."""
    parts = []
    for arm in arms:
        run = shown(arm)
        before, after = run.snapshots["filled"].occupancy, run.snapshots["idle"].occupancy
        emptied = sum(1 for number in before if not after.get(number))
        thinned = sum(
            1 for number, pages in before.items() if pages >= HALF > after.get(number, 0) > 0
        )
        parts.append(
            f"{arm.name} had {len(before):,} ranges in memory, of which {emptied:,} went back "
            f"in full and {thinned:,} fell below half"
        )
    return (
        "Each cell is a 2 MiB-aligned range of the heap, in the order of addresses: the paler, the "
        "fewer of its 512 pages are in memory; orange, none. Shown is the round with the median "
        "RSS. " + "; ".join(parts) + "."
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
        f"{plan.rounds} rounds; in each, every allocator had a fresh server, and each round began "
        "with another allocator.",
        f"Fill: {plan.keys:,} keys, value sizes from {plan.smallest} B to "
        f"{plan.largest // 1024} KiB, uniform in their logarithm. Delete: {plan.delete_share:.0%} "
        f"of the keys, at random. Idle: {plan.idle_seconds:g} s without a request. Refill: the "
        "deleted keys with sizes uniform over the same range, so larger on average. Read: "
        f"{plan.reads:,} keys by Zipf's law (exponent {plan.zipf_exponent}). All servers "
        "get the very same requests, and every reply is compared with what was stored.",
        "Requests are counted by the clock and by the CPU time of the thread that serves them. "
        f"Latency is that of a pipeline of {plan.pipeline} requests, from before its first byte is "
        f"sent until its last reply is read, with {plan.connections} pipelines in flight.",
        "Nobody looks at a heap while a phase runs: page tables are walked, and Strata is asked "
        "over its control socket, between the phases, whose CPU time is not counted. Page faults "
        "are the server's minor faults. The serving thread is Redis's main thread; the others are "
        "Redis's own, idle here, and the allocator's background thread.",
    ]
