"""What to do about hugepages: how many of them the heap has, and how well they are filled. Rules as
in advice.py."""

from __future__ import annotations

from dataclasses import dataclass

from strata.report.advice import MUCH, Advice, act, fine, look, share, started_with
from strata.stats import human

LOW_COVERAGE = 0.5
SMALL_HEAP = 32 << 20  # the first mapping stays on small pages on purpose
MOSTLY = 0.5  # of what lies on small pages: hugepages of a kind below it are not the reason
SPARSE = 0.25  # used share below which a hugepage is called sparse
OLD = 60  # seconds
HOLDING = ("SHORT", "LONG", "PEAK", "IDLE")  # the times of STRATA_RELEASE_*_MS


@dataclass(frozen=True)
class Backing:
    """What the heap lies on, and what might keep it off hugepages."""

    coverage: float  # share of the resident heap
    resident: int  # bytes of the heap
    broken: int = 0  # hugepages that gave memory back
    broken_bytes: int = 0  # resident in those, on small pages for that reason
    broken_begun: int = 0  # of them, begun as single pages
    begun: int = 0  # hugepages that began as single pages, and gave nothing back
    begun_bytes: int = 0  # resident in those
    thp: str = ""  # the system's mode
    switched_off: bool = False  # by STRATA_HUGEPAGES
    forbidden: bool = False  # by prctl(PR_SET_THP_DISABLE)
    first_touch_ms: float = 0.0  # of a hugepage, if so dear that growth begins small
    thin: bool = False  # little of what the program takes is touched: growth begins small
    before: float | None = None  # the share when hugepages began to be rebuilt; None: none were

    @property
    def small(self) -> float:
        """Bytes on small pages."""
        return (1 - self.coverage) * self.resident


def coverage(backing: Backing) -> Advice:
    """Why the share is not larger: the surest cause first."""
    text = f"{100 * backing.coverage:.1f} % of the resident heap is on hugepages. "
    if backing.coverage >= LOW_COVERAGE:
        return fine(text)
    if backing.resident < SMALL_HEAP:  # whatever else would keep it there
        return fine(text + "A heap this small stays on small pages on purpose.")
    if backing.switched_off:
        return look(
            text + "STRATA_HUGEPAGES=off asks for none. If that is not meant, start the process "
            "anew without it:",
            "unset STRATA_HUGEPAGES  # where the program is started",
        )
    if backing.thp == "never":
        return act(
            text + "The system forbids them. Allow them to those that ask, and start the "
            "process anew:",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )
    if backing.forbidden:
        return act(
            text + "The process, or what started it, forbade them with "
            "prctl(PR_SET_THP_DISABLE): switch that off there (Redis: disable-thp no), and start "
            "the process anew."
        )
    if backing.before is not None and backing.before < backing.coverage:
        return fine(
            text + f"It was {100 * backing.before:.1f} % when the report began: hugepages are "
            "being rebuilt. Report again in a minute."
        )
    if backing.broken_bytes + backing.begun_bytes >= MOSTLY * backing.small:
        if backing.broken_bytes >= backing.begun_bytes:
            return _broken(text, backing)
        text += (
            f"{backing.begun:,} hugepages began on small pages and hold "
            f"{_on_small(backing.begun_bytes, backing)}. "
        )
        if not backing.first_touch_ms and not backing.thin:
            return fine(text + "They are rebuilt as they fill.")
    if backing.first_touch_ms:
        return fine(
            text + f"The kernel takes {backing.first_touch_ms:.1f} ms to give a hugepage here: new "
            "memory begins on small pages, and Strata rebuilds them into hugepages as they fill."
        )
    if backing.thin:
        return fine(
            text + "The program touches little of what it allocates, so new memory begins on "
            "small pages, which saves memory."
        )
    return look(
        text + "They are allowed. Either large blocks hold mostly zeros, and Strata took their "
        "hugepages apart on purpose, or the kernel found no free ones: see whether "
        "thp_fault_fallback grows, and only then let it make room:",
        "grep -E 'thp_fault_(alloc|fallback) ' /proc/vmstat; "
        "echo 1 | sudo tee /proc/sys/vm/compact_memory",
    )


def _on_small(part: int, backing: Backing) -> str:
    return f"{share(min(part, backing.small), backing.small)} of what is on small pages"


def _broken(text: str, backing: Backing) -> Advice:
    """What was meant: only who knows the load can say whether it was worth it."""
    begun = f" ({backing.broken_begun:,} had begun on small pages)" if backing.broken_begun else ""
    return look(
        text + f"{backing.broken:,} hugepages{begun} were broken up to give memory back, and "
        f"{_on_small(backing.broken_bytes, backing)} lies in them. If the load returns within "
        "minutes and speed counts more than memory, hold free memory for longer. Start the process "
        "with:",
        started_with(*(f"RELEASE_{time}_MS=300000" for time in HOLDING)),
    )


@dataclass(frozen=True)
class Fill:
    """How well hugepages are filled."""

    sparse: int  # in use, but less than SPARSE of them
    idle_bytes: int  # resident in those, and used by nothing
    old: int | None  # of the sparse, those in use for longer than OLD; None: age unknown
    empty: int  # resident and wholly unused
    empty_bytes: int


def hugepages(fill: Fill, site: str, pid: str, swing: int = 0) -> Advice:
    """What to do about sparse and empty hugepages; `site` pins most of the sparse; `swing`: see
    advice_memory.Resident."""
    sparse, idle_bytes, old = fill.sparse, fill.idle_bytes, fill.old
    if fill.empty_bytes - swing > max(16 * MUCH, idle_bytes):
        return act(
            f"{fill.empty:,} hugepages are empty, with {human(fill.empty_bytes)} still resident "
            "for the next peak. They go back when demand stays low; at once with:",
            f"strata release {pid}",
        )
    if not sparse or idle_bytes < 4 * MUCH:
        return fine(
            "No hugepage is less than a quarter used."
            if not sparse
            else f"Few hugepages are less than a quarter used: {sparse:,}."
        )
    age = f", {old:,} of them for more than a minute" if old else ""
    text = (
        f"{sparse:,} hugepages are less than a quarter used{age}, with {human(idle_bytes)} "
        "resident for nothing. "
    )
    if site:
        text += (
            f"Objects from {site} pin most of them: have the program allocate those earlier, or "
            "free them with the rest. "
        )
    return look(
        text + "Their free pages go back when the program rests; to give them back now:",
        f"strata release {pid}",
        idle_bytes,
    )
