"""What to do about memory: what is resident, what lies in caches, what each tier wastes. Rules as
in advice.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strata.report.advice import (
    MUCH,
    PINNED,
    Advice,
    act,
    after,
    fine,
    look,
    of_live,
    share,
)
from strata.stats import human

MUCH_CACHED = 0.10  # of live: caches above it are worth emptying
LITTLE_WASTE = 0.10  # of live: half of the study's fleet (22 %, Fig. 5b)
MISS_RATE = 0.02  # of calls: above it the caches are too small for the load
FEW_MISSES = 1000  # a second: 1000 locks cost well under a millisecond
MOST_CACHE = 1 << 30  # bytes a CPU: more is not proposed


@dataclass(frozen=True)
class Resident:
    """RSS by cause. The parts less `untouched` are `resident`; `other` is the rest of RSS."""

    live: int
    slack: int
    caches: int
    free: int
    metadata: int
    untouched: int
    resident: int
    other: int | None  # not the heap's; None if RSS is not known
    between: int = 0  # of `free`: among live objects, where whole pages may be free
    swing: int = 0  # Recording.swing: what the program will take again

    @property
    def rss(self) -> int:
        return self.resident + (self.other or 0)


@dataclass(frozen=True)
class Caches:
    """What decides on the per-CPU caches. Two figures ask for opposite things, so both go by this:
    neither says larger where much lies in them, nor empty them where calls miss."""

    bound: int | None = None  # cpu_cache_bytes in force: every vCPU's share; None: not known
    live: int = 0
    held: int = 0  # bytes that lie in them
    rate: float = 0.0  # of all allocations, those that found the cache empty
    speed: float | None = None  # how many a second; None: only totals are known

    @property
    def heavy(self) -> bool:
        return self.held > MUCH_CACHED * self.live and self.held > 8 * MUCH

    @property
    def short(self) -> bool:
        return self.rate > MISS_RATE and (self.speed or 0.0) >= FEW_MISSES

    @property
    def doubled(self) -> str:
        """The bound; none where the present one is not known, or the new one senseless."""
        value = 2 * (self.bound or 0)
        return f"{value >> 10}K" if 0 < value <= MOST_CACHE else ""

    def unused(self, pid: str) -> Advice:
        """How what lies unused in them goes back. A smaller bound would not do it: what a program
        takes and frees all the time then lies in the tiers below."""
        if self.short:
            return fine(
                f"They are in use: {share(self.rate, 1)} of the allocations find theirs empty."
            )
        if self.bound is None:
            return fine("Each thread has a cache of its own, which only that thread can empty.")
        return look(
            "What lies unused in them goes back with the command; what the program uses is there "
            "again at once.",
            f"strata release {pid}",
            self.held,
        )


@dataclass(frozen=True)
class Pinned:
    """Why memory among live objects is free."""

    stays: int | None = None  # bytes on pages where objects live; None: too few samples say so
    site: str = ""  # whose objects
    by_chance: int | None = None  # bytes of whole pages, if any object could be one that lives


def between_objects(text: str, free: int, pinned: Pinned, pid: str) -> Advice:
    """What of the free memory among live objects can go back, and how."""
    by = f" Most of it lies beside objects of {pinned.site}." if pinned.site else ""
    if pinned.stays is None:
        goes = free if pinned.by_chance is None else min(free, pinned.by_chance)
        text = f"{text} The program can use it again for objects of their size."
        if goes <= 0.2 * free:
            return look(
                f"{text} Little of it can go back to the system unless those that live lie close "
                f"together.{by}",
                brings=free - goes,
                cause=PINNED,
            )
        return look(
            f"{text} Its whole pages go back when the program rests, or with the command; the "
            "rest stays while the objects live.",
            f"strata release {pid}",
            goes,
            PINNED,
        )
    goes = max(0, free - pinned.stays)
    if goes > 0.2 * free and goes > 8 * MUCH:
        return act(
            f"{text} Up to {human(goes)} of it is in whole pages, which go back when the program "
            "rests; the rest stays while the objects live. To give them back now:",
            f"strata release {pid}",
            goes,
        )
    return look(
        f"{text} The program can use it again for objects of their size, but little of it can go "
        f"back to the system while they live.{by}",
        brings=min(free, pinned.stays),
        cause=PINNED,
    )


PYTHON_ARENAS = (
    "Python maps arenas for objects of up to 512 bytes, which no profile of the heap shows: start "
    "it with PYTHONMALLOC=malloc to see who holds them."
)


def headline(
    parts: Resident, caches: Caches, pid: str, biggest_site: str, pinned: Pinned = Pinned()
) -> Advice:
    """What most of the memory is, and which way to go from there."""
    whole = parts.rss
    if not whole:
        return fine("No memory is resident.")
    held = max(0, parts.live - parts.untouched)
    other = parts.other or 0
    if other > whole / 2:
        text = (
            f"{share(other, whole)} of RSS is not the heap's but code, thread stacks, files, and "
            "what the program maps by itself: no setting of the allocator changes it."
        )
        if other <= 16 * MUCH:
            return fine(text)
        command = f"sudo pmap -x {pid} | sort -k3 -n -r | head -n 20"
        brings = 0
        if biggest_site.endswith(".py)"):  # to find its owner brings as much as it holds
            text, brings = f"{text} {PYTHON_ARENAS}", other
        return look(f"{text} To see what the rest is:", command, brings)
    if caches.heavy:
        part = share(caches.held, caches.live)
        text = f"Caches hold {human(caches.held)}, {part} of what is live. "
        return after(text, caches.unused(pid))
    releasable = max(0, parts.free - parts.between - parts.swing)
    if releasable > 0.2 * whole and releasable > 8 * MUCH:
        return act(
            f"{human(releasable)} is free and still resident, {share(releasable, whole)} of "
            "RSS. It goes back to the system by itself once the load has been lower for a while. "
            "To give it back now:",
            f"strata release {pid}",
            releasable,
        )
    if parts.between > 0.2 * whole and parts.between > 8 * MUCH:
        text = f"{human(parts.between)}, {share(parts.between, whole)} of RSS, is free but lies "
        return between_objects(text + "between live objects.", parts.between, pinned, pid)
    by = f", most of them from {biggest_site}" if biggest_site else ""
    if held > 0.75 * whole:
        return fine(
            f"{share(held, whole)} of RSS is the program's own objects{by}: no allocator setting "
            "makes it smaller, only the program can."
        )
    text = f"{share(held, whole)} of RSS is the program's own objects{by}. {most_of_rest(parts)}"
    if other > 16 * MUCH and biggest_site.endswith(".py)"):
        return look(f"{text} {PYTHON_ARENAS}")
    return fine(text)


def most_of_rest(parts: Resident) -> str:
    """The largest cause beside the program's own objects, by the names of the table."""
    rest = {
        "slack": parts.slack,
        "caches": parts.caches,
        "free": parts.free,
        "metadata": parts.metadata,
        "what is not the heap's (code, stacks, files, own mappings)": parts.other or 0,
    }
    name, value = max(rest.items(), key=lambda one: one[1])
    if 10 * value < parts.rss:
        return "Of the rest nothing makes up a tenth of RSS."
    return f"Of the rest {name} is most: {human(value)}, {share(value, parts.rss)}."


# ---- Fig. 5b and 6b: fragmentation by tier

TIERS = {
    "internal_slack": "rounding up",
    "cpu_cache": "per-CPU caches",
    "transfer_cache": "transfer caches",
    "central_free": "central free lists",
    "page_heap_free": "page heap",
}


def fragmentation(
    tiers: Mapping[str, int],
    live: int,
    caches: Caches,
    pid: str,
    pinned: Pinned = Pinned(),
    swing: int = 0,
) -> Advice:
    """How much is wasted for each live byte, and what the largest tier answers to."""
    wasted = sum(tiers.values())
    if wasted < 8 * MUCH or wasted <= LITTLE_WASTE * live:
        return fine(f"{human(wasted)} is wasted, {of_live(wasted, live)} (Google's fleet: 22 %).")
    worst = max(tiers, key=lambda name: tiers[name])
    text = (
        f"{human(wasted)} is wasted, {of_live(wasted, live)} (Google's fleet: 22 %); "
        f"{share(tiers[worst], wasted)} of that lies in the {TIERS[worst]}. "
    )
    if worst == "internal_slack":
        return look(
            text + "Requests are rounded up to the next size on offer, and many here lie just "
            "above one. Trim the common ones: the sizes below show which.",
            brings=tiers[worst],
        )
    if worst == "cpu_cache":
        return after(text, caches.unused(pid))
    if worst == "transfer_cache":
        return fine(text + "What lies unused there for a second goes back by itself.")
    if worst == "central_free":
        text += "It lies between live objects."
        return between_objects(text, tiers[worst], pinned, pid)
    free = max(0, tiers[worst] - swing)
    if free < tiers[worst] / 2:
        return fine(
            text + f"These are free pages that the program takes again: while it was watched, "
            f"{human(swing)} more than now were in use."
        )
    return (act if free > 8 * MUCH else look)(
        text + "These are free pages kept for the next peak. They go back when the load stays "
        "low; to give them back now:",
        f"strata release {pid}",
        free,
    )
