"""What to do about the figures: one small rule for each, from the data to a sentence.

A rule is a pure function. It says what the figure shows and then, if a bound below is passed, the
one thing to do, with the exact command where there is one. The bounds are judgement, not law; the
study's own figures (warehouse paper, named at each) are where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from strata.stats import human

MUCH_CACHED = 0.10  # of live: caches above it are worth a smaller bound
LITTLE_WASTE = 0.10  # of live: half of the study's fleet (22 %, Fig. 5b)
MISS_RATE = 0.02  # of calls: above it the caches are too small for the load
FEW_MISSES = 1000  # a second: 1000 locks cost well under a millisecond
LEAST_CACHE, MOST_CACHE = 64 << 10, 1 << 30  # bytes a CPU: below and above, nothing is proposed
HARDLY = 0.05  # a return rate too low to compare
ENOUGH_SPANS = 20  # seen, before a return rate means anything
MUCH = 1 << 20  # bytes: less than this is not worth anybody's time
ENOUGH_SAMPLES = 30


class Level(StrEnum):
    FINE = "nothing to do"
    LOOK = "worth a look"
    ACT = "do this"


@dataclass(frozen=True)
class Advice:
    """What a figure shows, what to do about it, and the command if there is one."""

    level: Level
    text: str
    command: str = ""


def fine(text: str) -> Advice:
    return Advice(Level.FINE, text.strip())


def look(text: str, command: str = "") -> Advice:
    return Advice(Level.LOOK, text, command)


def act(text: str, command: str = "") -> Advice:
    return Advice(Level.ACT, text, command)


def after(text: str, advice: Advice) -> Advice:
    """The same advice, with words before it."""
    return Advice(advice.level, text + advice.text, advice.command)


def share(part: float, whole: float) -> str:
    """A percentage with as many digits as it deserves."""
    ratio = 100 * part / whole if whole else 0.0
    if 0 < ratio < 0.1:
        return "less than 0.1 %"
    return f"{ratio:.1f} %" if ratio < 10 else f"{ratio:.0f} %"


def of_live(part: int, live: int) -> str:
    if part >= 10 * live > 0:
        return f"{part / live:,.0f} times what is live"
    return f"{share(part, live)} of what is live"


def setting(pid: str, name: str, value: str) -> str:
    return f"strata set {pid} {name}={value}"


# ---- the head of the page


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

    @property
    def rss(self) -> int:
        return self.resident + (self.other or 0)


@dataclass(frozen=True)
class Caches:
    """What decides on the bound of the per-CPU caches. Two figures ask for opposite things, so
    both go by this: neither says larger where memory is short, nor smaller where calls miss."""

    bound: int | None = None  # cpu_cache_bytes in force: every vCPU's share; None: not known
    live: int = 0
    held: int = 0  # bytes that lie in caches
    rate: float = 0.0  # of all allocations, those that found the cache empty
    speed: float | None = None  # how many a second; None: only totals are known

    @property
    def heavy(self) -> bool:
        return self.held > MUCH_CACHED * self.live and self.held > 8 * MUCH

    @property
    def short(self) -> bool:
        return self.rate > MISS_RATE and (self.speed or 0.0) >= FEW_MISSES

    def scaled(self, factor: float, pid: str) -> str:
        """The command; none where the present value is not known, or the new one senseless."""
        value = int((self.bound or 0) * factor)
        if not LEAST_CACHE <= value <= MOST_CACHE:
            return ""
        return setting(pid, "cpu_cache_bytes", f"{value >> 10}K")

    def smaller(self, pid: str) -> Advice:
        """Whether to lower the bound."""
        if self.short:
            return look(
                f"But {share(self.rate, 1)} of the allocations find their cache empty already: "
                "smaller ones would cost time."
            )
        command = self.scaled(0.5, pid)
        if not command:
            return look("Whether a smaller bound (cpu_cache_bytes) costs time, only trying tells.")
        return act("Halve what each CPU may keep and see whether misses rise:", command)


def headline(parts: Resident, caches: Caches, pid: str, biggest_site: str) -> Advice:
    """What most of the memory is, and which way to go from there."""
    whole = parts.rss
    if not whole:
        return fine("No memory is resident.")
    held = max(0, parts.live - parts.untouched)
    if (parts.other or 0) > whole / 2 and (parts.other or 0) > 16 * MUCH:
        return look(
            f"{share(parts.other or 0, whole)} of RSS is not the heap's: code, stacks, files and "
            "what the program maps itself. The figures below explain the rest only.",
            f"sudo pmap -x {pid} | sort -k3 -n -r | head -n 20",
        )
    if caches.heavy:
        part = share(caches.held, caches.live)
        text = f"Caches hold {human(caches.held)}, {part} of what is live. "
        return after(text, caches.smaller(pid))
    if parts.free > 0.2 * whole and parts.free > 8 * MUCH:
        return act(
            f"{human(parts.free)} is free and still resident, {share(parts.free, whole)} of "
            "RSS. It goes back by itself once demand falls; at once with:",
            f"strata release {pid}",
        )
    site = f" Most of it was allocated by {biggest_site}." if biggest_site else ""
    if held > 0.75 * whole:
        return look(
            f"{share(held, whole)} of RSS is the program's own objects: no allocator setting "
            f"makes it smaller, only the program can.{site}"
        )
    return look(
        f"{share(held, whole)} of RSS is the program's own objects, the rest is spread over "
        f"the causes below; none stands out.{site}"
    )


# ---- Fig. 5 and 6: fragmentation by tier

TIERS = {
    "internal_slack": "rounding up",
    "cpu_cache": "per-CPU caches",
    "transfer_cache": "transfer caches",
    "central_free": "central free lists",
    "page_heap_free": "page heap",
}


def fragmentation(tiers: Mapping[str, int], live: int, caches: Caches, pid: str) -> Advice:
    """How much is wasted for each live byte, and what the largest tier answers to."""
    wasted = sum(tiers.values())
    if wasted < 8 * MUCH or wasted <= LITTLE_WASTE * live:
        return fine(
            f"{human(wasted)} is wasted, {of_live(wasted, live)} (the study's fleet: 22 %)."
        )
    worst = max(tiers, key=lambda name: tiers[name])
    text = (
        f"{human(wasted)} is wasted, {of_live(wasted, live)} (the study's fleet: 22 %); "
        f"{share(tiers[worst], wasted)} of that lies in the {TIERS[worst]}. "
    )
    if worst == "internal_slack":
        return look(text + "Requests just above a size class pay for it: see the sizes below.")
    if worst in ("cpu_cache", "transfer_cache"):
        return after(text, caches.smaller(pid))
    if worst == "central_free":
        return look(
            text + "A few live objects hold spans that are mostly free: the stacks under "
            "“Who wastes memory” allocated them."
        )
    return act(
        text + "It waits for the next peak and goes back when demand stays low; at once with:",
        f"strata release {pid}",
    )


# ---- Fig. 7: sizes


def heaviest_size(rows: Sequence[tuple[int, float, float]]) -> int:
    """The size whose objects take the most bytes; `rows` as for `sizes`."""
    return max(rows, key=lambda row: row[2])[0]


def sizes(rows: Sequence[tuple[int, float, float]], site: str = "") -> Advice:
    """`rows`: (size, objects, bytes), smallest first; `site` allocates most of the heaviest."""
    objects = sum(row[1] for row in rows)
    held = sum(row[2] for row in rows)
    if not objects or not held:
        return fine("Nothing was allocated.")
    small = [row for row in rows if row[0] <= 1024]
    text = (
        f"{share(sum(r[1] for r in small), objects)} of the objects are of at most 1 KiB and make "
        f"up {share(sum(r[2] for r in small), held)} of the bytes (the study's fleet: 98 % and "
        "28 %). "
    )
    large = sum(row[2] for row in rows if row[0] > 256 << 10)
    if large > 0.3 * held:
        return look(
            text + f"{share(large, held)} of the bytes are blocks above 256 KiB, which no cache "
            "keeps: where they come and go, reuse the buffer instead of allocating it anew."
        )
    size = heaviest_size(rows)
    taken = sum(row[2] for row in rows if row[0] == size)
    if taken > 0.5 * held:
        by = f", mostly from {site}" if site else ""
        what = (
            "a field less in that one type saves more than any setting."
            if size <= 1024
            else "a buffer that is kept and used again saves them all."
        )
        return look(
            text + f"{share(taken, held)} of the bytes are objects of {human(size)}{by}: {what}"
        )
    tiny = sum(row[1] for row in rows if row[0] <= 32)
    if tiny > 0.75 * objects:
        return look(
            text + f"{share(tiny, objects)} of the objects are of at most 32 bytes: keep them "
            "inside what owns them, or allocate them by the array."
        )
    return fine(text + "No size stands out.")


# ---- Fig. 8: lifetimes


def lifetimes(
    short: float, still_live: float, other_thread: float | None, site: str, samples: float | None
) -> Advice:
    """Shares of all objects that died within a millisecond, and that live still; of the frees, the
    percentage by another thread; how many samples say so, if that is known."""
    if samples is not None and samples < ENOUGH_SAMPLES:
        return look(
            f"Only about {samples:,.0f} samples were taken, too few to tell. Sample more often and "
            "report again:",
            "STRATA_SAMPLE=64K",
        )
    text = (
        f"{share(short, 1)} of the objects die within a millisecond, {share(still_live, 1)} are "
        "still alive. "
    )
    if short > 0.5:
        return look(
            text + f"Most of the short-lived ones come from {site}: reuse the object there, or "
            "keep it on the stack."
        )
    if other_thread is not None and other_thread > 50 and still_live < 0.9:
        return look(
            text + f"{other_thread:.0f} % of the frees are by another thread than the one that "
            "allocated, so objects travel through the transfer caches: hand back batches, or "
            "free where you allocated."
        )
    return fine(text + "Caches serve such a mix well.")


# ---- Fig. 9: misses by vCPU


def misses(caches: Caches, worst_share: float, used: int, pid: str) -> Advice:
    """`worst_share`: the neediest vCPU's part; `used`: vCPUs with any."""
    text = f"{share(caches.rate, 1)} of the allocations found their CPU's cache empty"
    if caches.speed is None:
        return look(
            text + " since the process started. One sample has no rate: that may have been the "
            "start alone, when every cache is empty. Watch the running process:",
            f"strata report {pid} -o DIR",
        )
    if caches.speed < FEW_MISSES:
        return fine(
            f"Caches were found empty {caches.speed:,.0f} times a second: too seldom to matter."
        )
    if used > 1:
        text += f"; the neediest of {used} vCPUs has {share(worst_share, 1)} of all misses"
    text += ". "
    if not caches.short:
        return fine(text)
    text += "Each miss takes a lock"
    if caches.heavy:
        return look(
            f"{text}, but caches hold {share(caches.held, caches.live)} of what is live already: "
            "larger ones cost memory. The sizes below show what comes and goes."
        )
    command = caches.scaled(2, pid)
    if not command:
        return look(f"{text}: a larger bound (cpu_cache_bytes) may help, at the cost of memory.")
    return act(f"{text}: let the caches hold more.", command)


# ---- Fig. 13 and 16: span return rates


def span_by_live(seen: int, rates: tuple[float, float] | None) -> Advice:
    """How many spans were seen, and the return rates of those with up to 3 live objects and of
    those with 16 and more, compared within each size class; None if no class had both."""
    if seen < ENOUGH_SPANS:
        return look(
            f"Only {seen} spans were seen in these classes, too few to tell. A longer run sees "
            "more.",
            "strata report PID -o DIR --seconds 60",
        )
    if rates is None:
        return fine(
            "No size class was seen with both few and many live objects on its spans, so there is "
            "nothing to prefer."
        )
    rate_few, rate_many = rates
    text = (
        f"{share(rate_few, 1)} of the spans with up to 3 live objects came free before the next "
        f"look, against {share(rate_many, 1)} of those with 16 and more in the same classes"
    )
    if max(rate_few, rate_many) < HARDLY:
        return fine(text + ": hardly any came free, the program keeps what it has.")
    if rate_few >= rate_many:
        return fine(text + ": filling the fuller spans first, as Strata does, is right here.")
    return look(
        text + ": the other way round than in the study, so objects that share a span do not "
        "die together. The stacks under “Who wastes memory” show which ones stay."
    )


def span_by_capacity(
    correlation: float | None, stuck: tuple[int, int, int] | None, site: str
) -> Advice:
    """Spearman's correlation of capacity and return rate, and the class that keeps most free
    memory in spans: (size, spans, free bytes)."""
    text = (
        "Too few size classes gave spans back to compare them. "
        if correlation is None
        else f"Capacity and return rate correlate by {correlation:+.2f} (the study: -0.75). "
    )
    if stuck is None or stuck[2] < MUCH:
        return fine(text + "No class keeps much free memory in its spans.")
    size, spans, free = stuck
    by = f", mostly allocated by {site}," if site else ""
    return look(
        text + f"The {human(size)} objects{by} hold {spans:,} spans with {human(free)} free in "
        "them: allocate the long-lived ones first, or together, so that they share spans."
    )


# ---- call stacks


def live_stacks(site: str, part: float, value: int, leaked: float | None) -> Advice:
    """`leaked`: of the bytes this site ever allocated, the share that is alive now."""
    text = f"{site} holds {share(part, 1)} of the live bytes ({human(value)}). "
    if leaked is not None and leaked > 0.9 and value > 16 * MUCH:
        return look(
            text + f"{share(leaked, 1)} of all that it ever allocated is still alive: if it should "
            "not be, this is the leak. See which part grows:",
            "strata diff OLD/heap.pb.gz NEW/heap.pb.gz",
        )
    if part > 0.5:
        return look(text + "To make the process smaller, start there.")
    return fine(text + "No single place dominates.")


def waste_stacks(site: str, part: float, value: int, pinned: bool) -> Advice:
    """The call site whose live objects keep the most free memory from going back."""
    what = "hugepages" if pinned else "pages"
    text = f"Objects from {site} keep {human(value)} of otherwise free {what} resident "
    text += f"({share(part, 1)} of all such waste). "
    if value < MUCH:
        return fine(text)
    return look(
        text + "They outlive their neighbours: allocate them before the short-lived ones, "
        "pool them, or copy them to fresh memory once the burst is over."
    )


def churn_stacks(site: str, part: float, rate: float, kept: float) -> Advice:
    """The busiest call site; `rate` in bytes a second, 0 if the time is unknown; `kept`: of what it
    ever allocated, the share that is alive."""
    speed = f", {human(rate)} a second" if rate else ""
    text = f"{site} allocates {share(part, 1)} of all bytes{speed}. "
    if kept > 0.5:
        return fine(text + f"{share(kept, 1)} of it stays alive: this is growth, not churn.")
    if part > 0.3 and (rate == 0 or rate > 16 * MUCH):
        return look(text + "Reuse its buffer: nothing else saves as much allocator time.")
    return fine(text + "No single place is worth changing for speed.")
