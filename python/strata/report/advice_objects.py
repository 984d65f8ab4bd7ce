"""What to do about the objects: their sizes and how long they live (the study's Fig. 7 and 8).
Rules as in advice.py."""

from __future__ import annotations

from collections.abc import Sequence

from strata.report.advice import ENOUGH_SAMPLES, Advice, fine, look, setting, share
from strata.stats import human

TINY = 32  # bytes: the allocator's own cost for each counts as much


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
        f"up {share(sum(r[2] for r in small), held)} of the bytes (Google's fleet: 98 % and "
        "28 %). "
    )
    large = sum(row[2] for row in rows if row[0] > 256 << 10)
    if large > 0.3 * held:
        return look(
            text + f"{share(large, held)} of the bytes are blocks above 256 KiB, which no cache "
            "keeps: where they come and go, have the program keep the buffer and use it again."
        )
    size = heaviest_size(rows)
    taken = sum(row[2] for row in rows if row[0] == size)
    if taken > 0.5 * held and size > TINY:
        by = f", mostly from {site}" if site else ""
        what = (
            "a field less in that one type saves more than any setting."
            if size <= 1024
            else "a buffer that is kept and used again saves them all."
        )
        return look(
            text + f"{share(taken, held)} of the bytes are objects of {human(size)}{by}: {what}"
        )
    tiny = sum(row[1] for row in rows if row[0] <= TINY)
    if tiny > 0.75 * objects or taken > 0.5 * held:
        return look(
            text + f"{share(tiny, objects)} of the objects are of at most {TINY} bytes: keep them "
            "inside what owns them, or allocate them by the array."
        )
    return fine(text + "No size stands out.")


# ---- Fig. 8: lifetimes


def lifetimes(
    short: float,
    still_live: float,
    other_thread: float | None,
    site: str,
    samples: float | None,
    pid: str,
) -> Advice:
    """Shares of all objects that died within a millisecond, and that live still; of the frees, the
    percentage by another thread; how many samples say so, if that is known."""
    if samples is not None and samples < ENOUGH_SAMPLES:
        return look(
            f"The samples are too few to tell (about {samples:,.0f}). Sample more often, "
            "let the program work for a while, and report again:",
            setting(pid, "sample", "64K"),
        )
    text = (
        f"{share(short, 1)} of the objects die within a millisecond, {share(still_live, 1)} are "
        "still alive. "
    )
    if short > 0.5:
        return look(
            text + f"Most of the short-lived ones come from {site}. They cost CPU time, not "
            "memory: use one object again there, or keep it on the stack."
        )
    if other_thread is not None and other_thread > 50 and still_live < 0.9:
        return look(
            text + f"{other_thread:.0f} % of the frees are by another thread than the one that "
            "allocated, which costs CPU time at the caches that threads share: free in the thread "
            "that allocated, or hand objects over in batches."
        )
    return fine(text + "Caches serve such a mix well.")
