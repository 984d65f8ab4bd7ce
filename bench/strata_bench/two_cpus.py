"""What two threads can gain on this machine, measured beside a group's own works: the speed-up of
threads that share nothing, and the time to hand a cache line over. See bench/README.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from strata_bench.groups import Figure, Work
from strata_bench.plan import Case
from strata_bench.results import Results

CONTROL = "alone"  # shares nothing between its threads, and calls no allocator
HANDOVER = Case("handover", "handover", (), "handover_ns")


def control(threads: int) -> Work:
    args = ("--seconds=0.3", "--work=4", f"--threads={threads}")
    case = Case(f"{CONTROL}-t{threads}", CONTROL, args, "mops")
    return Work(case, (Figure("mops", "calls / µs", True),))


def speed_ups(results: Results, program: str, name: str) -> list[float]:
    """Two threads over one, round by round."""
    one = results.values(f"{program}-t1", name, "mops")
    two = results.values(f"{program}-t2", name, "mops")
    return [two[r] / one[r] for r in sorted(one.keys() & two.keys()) if one[r] > 0]


def handover_line(results: Results, names: Iterable[str]) -> list[str]:
    found = [
        value
        for name in names
        for value in results.values(HANDOVER.name, name, HANDOVER.metric).values()
    ]
    if not found:
        return []
    return [
        f"To hand a cache line to the other CPU took {min(found):.0f} to {max(found):.0f} ns in"
        f" these rounds, {statistics.median(found):.0f} in the median; `bench/README.md` says what"
        " that does to threads that share something.",
        "",
    ]


def control_line(results: Results, names: Iterable[str]) -> list[str]:
    found = [value for name in names for value in speed_ups(results, CONTROL, name)]
    if not found:
        return []
    return [
        f"Threads that share nothing (`{CONTROL}`) were {min(found):.2f} to {max(found):.2f} times"
        f" as fast as one in these rounds, {statistics.median(found):.2f} in the median: what any"
        " speed-up above can be at most.",
        "",
    ]
