"""What to do about CPU time: the allocator's share and its tiers, and calls that found a cache
empty (the study's Fig. 5a, 6a and 9). Rules as in advice.py."""

from __future__ import annotations

from collections.abc import Mapping

from strata.report.advice import Advice, act, after, fine, look, setting, share
from strata.report.advice_memory import FEW_MISSES, Caches

FLEET = 0.043  # of CPU time in the allocator (Fig. 5a)
MUCH_TIME = 0.10  # about the highest of the study's five applications (10.1 %, Fig. 5a)
ENOUGH_TICKS = 100  # samples in the allocator, before they are divided among its tiers

FRONT, TRANSFER, CENTRAL, PAGES, SAMPLING, OTHER = (
    "per-CPU caches",
    "transfer caches",
    "central free lists",
    "page heap",
    "sampling",
    "the rest",
)


def cpu_time(
    ticks: Mapping[str, int], whole: int, caches: Caches, pid: str, site: str = ""
) -> Advice:
    """`ticks`: samples of the CPU in each tier; `whole`: all of the process's; `site` allocates
    most."""
    ours = sum(ticks.values())
    if whole < ENOUGH_TICKS:
        return fine(
            "The process used almost no CPU time while it was watched "
            f"(samples: {whole}). Report again under load."
        )
    text = (
        f"{share(ours, whole)} of the process's CPU time is spent in the allocator "
        f"(Google's fleet: {share(FLEET, 1)}). "
    )
    if ours < ENOUGH_TICKS:
        return fine(text + f"Only {ours} samples fell into it, too few to divide among its parts.")
    if ours < MUCH_TIME * whole:
        return fine(text)
    slower = {name: count for name, count in ticks.items() if name not in (FRONT, OTHER)}
    worst = max(slower, key=lambda name: slower[name], default=FRONT)
    if slower.get(worst, 0) < 0.25 * ours:
        where = f": {site} makes most of them" if site else ""
        return look(
            text + "Most of it is the fast path itself, so only fewer calls make it less. Have the "
            f"program use its objects again{where}."
        )
    text += f"{share(slower[worst], ours)} of that goes to the {worst}. "
    if worst == SAMPLING:
        return act(
            text + "Sample less often; profiles then need a longer run:",
            setting(pid, "sample", "8M"),
        )
    # Spans that come and go keep the page heap busy as well, large blocks keep it busy alone.
    missed = slower.get(TRANSFER, 0) + slower.get(CENTRAL, 0)
    if worst in (TRANSFER, CENTRAL) or 2 * missed > slower[worst]:
        if caches.heavy:
            return look(
                text + "Larger caches would spare it, but they hold much memory already. Have the "
                "program use its buffers again: “Who allocates most” says where."
            )
        return after(text, larger(caches, pid))
    return look(
        text + "Large blocks come and go: have the program keep its buffers and use them again. "
        "“Sizes” and “Who allocates most” say which."
    )


def misses(caches: Caches, worst_share: float, used: int, pid: str) -> Advice:
    """`worst_share`: the neediest vCPU's part; `used`: vCPUs with any."""
    text = f"{share(caches.rate, 1)} of the allocations found their CPU's cache empty"
    if caches.speed is None:
        return look(
            text + " since the process started. That may have been at its start alone, when every "
            "cache is empty. Watch the running process for a rate:",
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
    if caches.heavy:
        return look(
            f"{text}Each of those takes a lock, but caches hold "
            f"{share(caches.held, caches.live)} of what is live already: larger ones would cost "
            "more memory still. Have the program use its buffers again instead: “Who allocates "
            "most” says where."
        )
    return after(f"{text}Each of those takes a lock. ", larger(caches, pid))


def larger(caches: Caches, pid: str) -> Advice:
    """To let the caches hold more."""
    value = caches.doubled
    if not value:
        return fine("What each CPU may keep is not known, or is a GiB already.")
    return act(
        "Let each CPU keep twice as much. It takes effect at once and costs at most that much "
        f"memory. To keep it, start the process with STRATA_CPU_CACHE_BYTES={value}.",
        setting(pid, "cpu_cache_bytes", value),
    )
