"""What to do about call stacks and the spans that objects share (the study's Fig. 13 and 16): what
only the program can change. Rules as in advice.py."""

from __future__ import annotations

import math

from strata.report.advice import MUCH, PINNED, Advice, fine, look, share, started_with
from strata.report.advice_memory import Resident
from strata.stats import human

HARDLY = 0.05  # a return rate too low to compare
FEW_SAMPLES = 5  # tell nobody where to start
WORTH_STARTING = 0.1  # of RSS
ENOUGH_SPANS = 20  # seen, before a return rate means anything
WORTH_WATCHING = 600  # seconds for one figure


def span_by_live(
    seen: int, rates: tuple[float, float] | None, pid: str, speed: float | None = None
) -> Advice:
    """How many spans were seen, and the return rates of those with up to 3 live objects and of
    those with 16 and more, compared within each size class; None if no class had both. `speed`:
    how many more are seen a second; None if it was not watched."""
    if seen < ENOUGH_SPANS:
        text = f"Too few spans were seen in these classes to tell ({seen})"
        if not speed:
            return fine(f"{text}." if speed is None else f"{text}, and no more come.")
        seconds = math.ceil(2 * (ENOUGH_SPANS - seen) / speed)
        if seconds > WORTH_WATCHING:
            return fine(f"{text}, and too few come for this figure.")
        return look(f"{text}. Watch for longer:", f"strata report {pid} -o DIR --seconds {seconds}")
    if rates is None:
        return fine(
            "Hardly any size class was seen with both few and many live objects on its spans, so "
            "there is nothing to prefer."
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
        text + ": the opposite of Google's fleet, so a few objects that stay keep memory "
        "from coming free. The stacks under “Who wastes memory” show which ones: have the program "
        "allocate them before the short-lived ones."
    )


def span_by_capacity(
    correlation: float | None, stuck: tuple[int, int, int] | None, site: str
) -> Advice:
    """Spearman's correlation of capacity and return rate, and the class that keeps most free
    memory in spans: (size, spans, about how many bytes)."""
    text = (
        "Too few size classes gave spans back to compare them. "
        if correlation is None
        else f"Capacity and return rate correlate by {correlation:+.2f} (Google's fleet: -0.75). "
    )
    if stuck is None or stuck[2] < MUCH:
        return fine(text + "No class keeps much free memory in its spans.")
    size, spans, free = stuck
    by = f", mostly allocated by {site}," if site else ""
    return look(
        text + f"The {human(size)} objects{by} hold {spans:,} spans with about {human(free)} "
        "free in them. Have the program allocate the long-lived ones first, or together, so that "
        "they lie side by side.",
        brings=free,
        cause=PINNED,
    )


def live_stacks(
    site: str,
    part: float,
    value: int,
    leaked: float | None,
    samples: float | None = None,
    pid: str = "PID",
    parts: Resident | None = None,
) -> Advice:
    """`leaked`: of the bytes this site ever allocated, the share that is alive now; `samples` as in
    peak_stacks; `parts`: of RSS, if that is known."""
    if samples is not None and samples < FEW_SAMPLES:
        return look(
            "The samples are too few to say who holds most. For more, start the process with:",
            started_with("SAMPLE=64K"),
        )
    text = f"{site} holds {share(part, 1)} of the sampled live bytes ({human(value)}). "
    if leaked is not None and leaked > 0.9 and value > 16 * MUCH:
        return look(
            text + f"{share(leaked, 1)} of all that this function ever allocated is still alive: "
            "if it should not be, this is the leak. Report again in an hour, into another folder, "
            "and see what grew:",
            f"strata report {pid} -o NEW; strata diff OLD/heap.pb.gz NEW/heap.pb.gz",
            value,
        )
    if part > 0.5 and parts is not None and value < WORTH_STARTING * parts.rss:
        most = "is not the heap's" if 2 * (parts.other or 0) > parts.rss else "holds no objects"
        return fine(text + f"That is {share(value, parts.rss)} of RSS, most of which {most}.")
    if part > 0.5:
        return look(text + "To make the process smaller, start there.", brings=value)
    return fine(text + "No single place dominates.")


def peak_stacks(site: str, part: float, samples: float | None) -> Advice:
    """`part`: what of the peak this site held, by so many samples; None: as good as exact."""
    if samples is not None and samples < FEW_SAMPLES:
        return look(
            "Too few samples of the peak to say what made it. For more, start the process with:",
            started_with("SAMPLE=64K"),
        )
    return look(
        f"{site} held {share(part, 1)} of the peak. A machine must have room for the peak: to need "
        "less, start there."
    )


def waste_unexplained(known: int, free: int) -> Advice:
    """Of so many free bytes between live objects the samples lie beside few."""
    return look(
        f"{human(free)} is free between live objects; the samples explain only {human(known)}. To "
        "see who keeps the rest, start the process with more samples:",
        started_with("SAMPLE=64K"),
        free,
        PINNED,
    )


def waste_stacks(site: str, part: float, value: int, pinned: bool, pid: str) -> Advice:
    """The call site whose live objects keep the most free memory from going back."""
    what = "hugepages" if pinned else "pages"
    text = f"Objects from {site} keep {human(value)} of otherwise free {what} resident "
    text += f"({share(part, 1)} of all such waste). "
    if value < 8 * MUCH:  # as of all waste in advice_memory.fragmentation
        return fine(text)
    return look(
        text + "They outlive their neighbours: have the program allocate them before the "
        "short-lived ones, pool them, or copy them all once the burst is over. To see who keeps "
        "most:",
        f"strata top {pid} --kind fragmentation",
        value,
        PINNED,
    )


def churn_stacks(
    site: str, part: float, rate: float | None, kept: float, samples: float | None = None
) -> Advice:
    """The busiest call site; `rate` in bytes a second now, None if not known; `kept`: of what it
    ever allocated, the share that is alive; `samples` as in peak_stacks."""
    if samples is not None and samples < FEW_SAMPLES:
        return fine("The samples are too few to say who allocates most.")
    speed = f", {human(rate)} a second" if rate else ""
    text = f"{site} allocates {share(part, 1)} of all bytes{speed}. "
    if rate == 0:
        return fine(f"{text}The process was at rest while it was watched.")
    if kept > 0.5:
        return fine(text + f"{share(kept, 1)} of it stays alive: this is growth, not churn.")
    if part > 0.3 and (rate is None or rate > 16 * MUCH):
        if kept > 0.1:
            text += f"{share(1 - kept, 1)} of it is free again. "
        return look(
            text
            + "If it frees one buffer and allocates the next, have it use the first again: that "
            "saves a call of malloc and one of free each time."
        )
    return fine(text + "No single place is worth changing for speed.")
