"""The section about objects that move (strata/hot.h): where they lie, what moving them brought.

None where the program has no domain. The mechanism: Banakar et al., "Tidying up the address space",
DIMES 2025; docs/hotness.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure

from strata.report import advice_hotness, charts
from strata.report.advice import share
from strata.report.model import Recording, Sample
from strata.report.page import Section, plural, table
from strata.stats import human

HEAPS = ("new", "hot", "cold")


@dataclass(frozen=True)
class Hotness:
    """The figures of one moment, of all domains together; counters since the process started."""

    objects: dict[str, int]
    bytes: dict[str, int]
    counts: dict[str, int]
    promotion_rate: float  # shares of one
    utilization: float

    @property
    def whole(self) -> int:
        return sum(self.bytes.values())


COUNTS = (
    "rounds", "moves", "moved_bytes", "promotions", "demotions", "aborted_in_use", "aborted_used",
    "aborted_no_memory", "aborted_near_limit", "epochs_given_up", "paged_out_bytes", "collector_ns",
    "cold_after",
)  # fmt: skip

OF_ROUNDS = (
    "rounds", "moves", "aborted_in_use", "aborted_no_memory", "aborted_near_limit",
    "epochs_given_up",
)  # fmt: skip


def read(sample: Sample | None) -> Hotness | None:
    """None without a domain, or from a library that knows of none."""
    if sample is None or not sample.stats.whole("hotness", "domains"):
        return None

    def whole(name: str) -> int:
        return max(0, sample.stats.whole("hotness", name) or 0)

    return Hotness(
        objects={heap: whole(f"{heap}_objects") for heap in HEAPS},
        bytes={heap: whole(f"{heap}_bytes") for heap in HEAPS},
        counts={name: whole(name) for name in COUNTS},
        promotion_rate=sample.stats.number("hotness", "promotion_rate") or 0.0,
        utilization=sample.stats.number("hotness", "utilization") or 0.0,
    )


def section(recording: Recording) -> Section | None:
    now = read(recording.last)
    if now is None:
        return None
    busy = recording.gained("hotness", "collector_ns")
    core = busy / 1e9 / recording.seconds if busy is not None and recording.seconds > 0 else None
    return Section(
        "hotness",
        "Objects that move",
        "Objects of strata::hot_ptr lie in three heaps: new ones; hot ones, used in the last "
        "windows; cold ones, which the kernel may page out.",
        advice_hotness.moving(
            now.bytes["cold"], now.whole, lately(recording, now), now.promotion_rate, core
        ),
        picture(recording, now) + table(("", "", "what it is"), rows(now, core)),
        ("heap", "objects", "bytes", "share"),
        [
            [heap, f"{now.objects[heap]:,}", human(size), share(size, now.whole)]
            for heap, size in now.bytes.items()
        ],
    )


def lately(recording: Recording, now: Hotness) -> dict[str, int]:
    """The counters that tell how rounds end, of those that ended while the report was taken; of
    all, if none did. What was mended meanwhile is nothing to mend."""
    first = read(recording.samples[0])
    if first is None or first.counts["rounds"] >= now.counts["rounds"]:
        return now.counts
    gained = {name: max(0, now.counts[name] - first.counts[name]) for name in OF_ROUNDS}
    return now.counts | gained


def rows(now: Hotness, core: float | None) -> list[list[str]]:
    """What has been done, in the order in which one asks."""
    counts = now.counts
    aborted = sum(n for name, n in counts.items() if name.startswith("aborted_"))
    found = [
        ["page utilization", f"{100 * now.utilization:.0f} %", "estimate: of the bytes of pages "
         "that hold used objects, those that were used, in the last window"],
        ["promotion rate", f"{100 * now.promotion_rate:.2f} %",
         "of the used bytes, those that lay in the cold heap"],
        ["cold after", plural(counts["cold_after"], "window"), "without a use (Ct)"],
        ["moved", f"{counts['moves']:,}", f"objects, {human(counts['moved_bytes'])}; "
         f"{counts['promotions']:,} became hot, {counts['demotions']:,} cold"],
        ["not moved", f"{aborted:,}", f"{counts['aborted_in_use']:,} in use, "
         f"{counts['aborted_used']:,} used meanwhile, {counts['aborted_no_memory']:,} without "
         f"memory, {counts['aborted_near_limit']:,} near a limit; "
         f"{counts['epochs_given_up']:,} rounds given up: an operation did not end"],
        ["paged out", human(counts["paged_out_bytes"]), "asked of the kernel"],
    ]  # fmt: skip
    if core is not None:
        found.append(["collector", f"{100 * core:.1f} %", "of a core, while this was taken"])
    return found


def picture(recording: Recording, now: Hotness) -> str:
    """The three heaps while the report was taken, or now where there is one sample."""
    text = ", ".join(f"{heap} {human(size)}" for heap, size in now.bytes.items())
    seen = [(one.at, there) for one in recording.samples if (there := read(one)) is not None]
    if len(seen) < 2:
        return charts.stacked_bar(f"Moving objects: {text}", "hotness", [*now.bytes.items()])
    times = [at for at, _ in seen]
    lines = [[float(there.bytes[heap]) for _, there in seen] for heap in HEAPS]
    most = max(map(sum, zip(*lines, strict=True)))

    def draw(narrow: bool) -> Figure:
        figure, axes = charts.subplots(narrow, 2.6, 3.0)
        colours = [charts.SERIES[1], charts.SERIES[5], charts.SERIES[0]]
        axes.stackplot(times, lines, colors=colours, labels=HEAPS)
        axes.set_ylim(0, max(most, 1) * 1.05)
        axes.set_xlim(times[0], times[-1])
        axes.set_xlabel("seconds")
        charts.as_bytes(axes.yaxis, most)
        charts.legend(figure, narrow)
        return figure

    return charts.chart("hotness", f"Moving objects by heap: {text}", draw)
