"""Rules about one running process: whether Strata is in it and has what it needs."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from strata.doctor.system import OTHERS
from strata.doctor.view import (
    DELETED,
    MEMORY_HOLDERS,
    STRATA,
    CannotTellError,
    Finding,
    View,
    Weight,
    human_bytes,
    mend,
    ok,
)
from strata.report import hugemap
from strata.report.document import Document, as_number

WORTH_COVERING = 32 << 20  # a smaller heap stays on small pages on purpose
MUCH_SWAPPED = 64 << 20
REBUILT_WITHIN = 2.5  # seconds: the library's thread rebuilds hugepages about once a second
LOW_COVERAGE = 0.5


def library(view: View) -> Finding:
    """Whether the library is in the process, and if not, why."""
    found = view.library()
    if found is not None and found.endswith(DELETED):
        return mend(
            "library",
            Weight.LITTLE,
            "the library's file was replaced since the process began: it still runs the old one",
            "restart the process",
        )
    if found is not None:
        return ok("library", f"the process runs on {found}")
    command = view.command_line()
    again = f"strata run -- {command}"
    why = view.obstacle(view.path(view.proc("exe")))
    if why is not None:
        return mend("library", Weight.MUCH, f"Strata is not in the process, and cannot: {why}")
    preload = view.environment().get("LD_PRELOAD", "")
    if "libstrata" in preload:
        return mend(
            "library",
            Weight.MUCH,
            f"LD_PRELOAD={preload} was set and had no effect: the file may be missing or"
            " unreadable for the process",
            f"LD_PRELOAD={shlex.quote(preload)} /bin/true  # as the process's user: says why",
            again,
        )
    return mend("library", Weight.MUCH, "the process does not run on Strata", again)


def other_allocator(view: View) -> Finding:
    """A second allocator in the process: linked in and idle, or in Strata's place."""
    others = [
        Path(f).name
        for f in view.mapped_files()
        if any(n in Path(f).name.lower() for n in OTHERS) and not STRATA.search(f)
    ]
    if not others:
        return ok("other-allocator", "no other allocator is loaded")
    preload = view.environment().get("LD_PRELOAD", "")
    ahead = preload.replace(":", " ").split()
    first = next((p for p in ahead if any(n in p.lower() for n in (*OTHERS, "libstrata"))), "")
    if view.library() is not None and "libstrata" not in first and first:
        return mend(
            "other-allocator",
            Weight.MUCH,
            f"{Path(first).name} stands before Strata in LD_PRELOAD and is the one that allocates",
            "name libstrata.so first in LD_PRELOAD, or alone",
        )
    return ok(
        "other-allocator",
        f"{', '.join(others)} is loaded as well; what calls malloc gets the one that was"
        " preloaded first",
    )


def thp_allowed(view: View) -> Finding:
    """Whether the process, or its parent, has forbidden itself hugepages."""
    status = view.read(view.proc("status"))
    found = re.search(r"^THP_enabled:\s+(\S+)$", status, re.M)
    if found is None:
        return ok("thp-allowed", "this kernel does not say whether the process forbids hugepages")
    if found[1] not in ("0", "1"):
        raise CannotTellError(f"{view.proc('status')}: THP_enabled is {found[1]!r}")
    if found[1] == "1":
        return ok("thp-allowed", "the process may have hugepages")
    if has_small_heap(view):
        return ok(
            "thp-allowed",
            "the process may have no hugepages (prctl(PR_SET_THP_DISABLE)); its heap is so small"
            " that it stays on small pages anyway",
        )
    redis = "redis" in status.partition("\n")[0]
    return mend(
        "thp-allowed",
        Weight.MUCH,
        "the process has no hugepages at all: it, or what started it, called"
        " prctl(PR_SET_THP_DISABLE)",
        "redis-server --disable-thp no  # or `disable-thp no` in redis.conf"
        if redis
        else "look for PR_SET_THP_DISABLE, or its option, in the program or its service manager",
    )


T = TypeVar("T")


def ask_figures(view: View) -> dict[str, Any]:
    """What the process itself says of its heap at this moment."""
    if view.ask is None:
        raise CannotTellError("the process was not asked")
    try:
        found = json.loads(view.ask("stats json"))
    except (ValueError, RecursionError) as error:
        raise CannotTellError(f"the process's statistics make no sense: {error}") from error
    if not isinstance(found, dict):
        raise CannotTellError("the process's statistics make no sense")
    return found


def figure(figures: dict[str, Any], kind: type[T], *path: str) -> T:
    found: Any = figures
    try:
        for key in path:
            found = found[key]
    except (KeyError, TypeError) as error:
        raise CannotTellError(f"the process's statistics make no sense: {error}") from error
    if type(found) is not kind or (kind is not str and as_number(found) is None):
        raise CannotTellError(f"the process's statistics have no {'.'.join(path)}")
    return found


def cache_mode(view: View) -> Finding:
    """Which front cache the process has, as it says itself."""
    mode = figure(ask_figures(view), str, "cache_mode")
    if not mode.startswith("per-thread"):
        return ok("cache-mode", f"caches: {mode}")
    if view.environment().get("STRATA_CACHE", "").lower() == "thread":
        return mend(
            "cache-mode",
            Weight.SOME,
            "caches are one a thread because STRATA_CACHE=thread is set",
            "unset STRATA_CACHE  # where the program is started",
        )
    return mend(
        "cache-mode",
        Weight.SOME,
        "caches are one a thread: there are no restartable sequences; see kernel-version,"
        " glibc-version and rseq",
    )


def heap_of(figures: dict[str, Any]) -> tuple[int, float]:
    """Bytes of the heap without the allocator's tables, and its share on hugepages."""
    if figures.get("resident_known") is False:
        raise CannotTellError("under its seccomp filter the process can't ask what is in memory")
    heap = figure(figures, int, "bytes", "resident") - figure(figures, int, "bytes", "metadata")
    return heap, figure(figures, int, "bytes", "hugepage_backed") / heap if heap > 0 else 0.0


def has_small_heap(view: View) -> bool:
    """As far as the process says so."""
    try:
        return heap_of(ask_figures(view))[0] < WORTH_COVERING
    except CannotTellError:
        return False


@dataclass(frozen=True)
class Hugepages:
    """How many the heap lies on; of them, broken up to give memory back, and begun as single pages
    and not broken since."""

    all: int
    broken: int
    begun_small: int


def hugepages_of(figures: dict[str, Any]) -> Hugepages:
    found = hugemap.hugepages(Document(figures))
    broken, begun = (
        hugemap.of_states(found, states)[0] for states in (hugemap.BROKEN, hugemap.BEGUN_SMALL)
    )
    return Hugepages(figure(figures, int, "page_heap", "filler", "hugepages"), broken, begun)


def is_rebuilding(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether the kernel made hugepages of single pages meanwhile, so that waiting mends it."""
    rebuilt = [figure(one, int, "page_heap", "collapsed_total") for one in (before, after)]
    return rebuilt[1] > rebuilt[0] and heap_of(after)[1] > heap_of(before)[1]


def coverage(view: View) -> Finding:
    """What the heap got: the share of it on hugepages. What the program maps itself, as CPython its
    arenas, is none of Strata's."""
    figures = ask_figures(view)
    heap, share = heap_of(figures)
    says = f"{share * 100:.1f} % of the heap's {human_bytes(heap)} lie on hugepages"
    if heap < WORTH_COVERING or share >= LOW_COVERAGE:
        return ok("coverage", says)
    hugepages = hugepages_of(figures)
    if 2 * hugepages.broken > hugepages.all:
        return mend(
            "coverage",
            Weight.LITTLE,
            f"{says}: {hugepages.broken:,} of {hugepages.all:,} hugepages were broken up to give "
            "memory back",
            f"strata report {view.pid} -o report  # says how to keep them whole",
        )
    if 2 * hugepages.begun_small > hugepages.all:
        says += f"; {hugepages.begun_small:,} of {hugepages.all:,} hugepages began on small pages"
    if figure(figures, int, "page_heap", "cold_frames"):
        touch = figure(figures, int, "page_heap", "first_touch_ns") / 1e6
        return ok(
            "coverage",
            f"{says}; the kernel takes {touch:.1f} ms to give one, so growth begins on small pages",
        )
    if figure(figures, int, "page_heap", "thin_use"):
        return ok("coverage", f"{says}; the program touches little of what it allocates")
    if 2 * hugepages.begun_small > hugepages.all:
        return ok("coverage", f"{says}, and are rebuilt as they fill")
    if view.environment().get("STRATA_HUGEPAGES", "").lower() in ("off", "0"):
        return mend(
            "coverage",
            Weight.SOME,
            f"{says}: STRATA_HUGEPAGES=off is set",
            "unset STRATA_HUGEPAGES  # where the program is started",
        )
    view.wait(REBUILT_WITHIN)
    later = ask_figures(view)
    if is_rebuilding(figures, later):
        return ok(
            "coverage",
            f"{says}, and {heap_of(later)[1] * 100:.1f} % now: hugepages are being rebuilt",
        )
    return mend(
        "coverage",
        Weight.SOME,
        f"{says}: see thp, thp-defrag and thp-allowed. It may also be memory taken before hugepages"
        " were allowed, fragmentation of the machine or of the heap, or large blocks that are"
        " mostly zeros, which is on purpose",
        f"strata report {view.pid} -o report",
    )


def swapped(view: View) -> Finding:
    out = view.process_kib("status", "VmSwap")
    resident = view.process_kib("status", "VmRSS")
    if out <= resident // 4 or out <= MUCH_SWAPPED:
        return ok("swapped", f"{human_bytes(out)} of the process are swapped out")
    says = (
        f"{human_bytes(out)} of the process are swapped out, beside {human_bytes(resident)} in"
        " memory: what touches them waits"
    )
    free = free_in_heap(view)
    if free > out // 4:
        return mend(
            "swapped",
            Weight.SOME,
            f"{says}; {human_bytes(free)} of its heap are free, there or in memory",
            f"strata release {view.pid}",
        )
    return mend(
        "swapped",
        Weight.SOME,
        f"{says}; the machine, or its memory cgroup, has too little",
        MEMORY_HOLDERS,
    )


def free_in_heap(view: View) -> int:
    """What `strata release` could give back, as far as the process says so."""
    if not view.runs_strata():
        return 0
    try:
        return figure(ask_figures(view), int, "page_heap", "free_backed_bytes")
    except CannotTellError:
        return 0


RULES = (library, other_allocator, thp_allowed, swapped)
STRATA_RULES = (cache_mode, coverage)
