"""What to do about objects that move. Rules as in advice.py."""

from __future__ import annotations

from collections.abc import Mapping

from strata.report.advice import MUCH, Advice, after, fine, look, share
from strata.stats import human

# Ct is at most 32 windows. A rate above the policy's own bound then is the program's nature.
MOST_WINDOWS = 32
HIGH_RATE = 0.02  # twice the default target
MANY_GIVEN_UP = 0.1  # of the rounds
ENOUGH_MOVES = 1000
MUCH_OF_A_CORE = 0.02  # twice what the collector takes by default


def moving(
    cold: int, whole: int, counts: Mapping[str, int], rate: float, core: float | None
) -> Advice:
    """What the heaps show; the first thing that keeps them from being tidy."""
    text = f"{share(cold, whole)} of {human(whole)} in moving objects are cold. "
    return after(text, _rule(cold, counts, rate, core))


def _rule(cold: int, counts: Mapping[str, int], rate: float, core: float | None) -> Advice:
    rounds, given_up = counts["rounds"], counts["epochs_given_up"]
    if rounds == 0:
        return look(
            "No round has run yet, so nothing has moved. A domain without a thread of its own "
            "needs calls of collect_now(); with one, report again when the program has worked for "
            "some seconds."
        )
    if given_up > MANY_GIVEN_UP * rounds:
        return look(
            f"{given_up:,} of {rounds:,} rounds were given up because an operation did not end "
            "within 0.1 s. End each hot_scope before the thread waits for anything."
        )
    stopped = counts["aborted_in_use"]
    if stopped > ENOUGH_MOVES and stopped > counts["moves"]:
        return look(
            f"{stopped:,} moves were stopped because an operation was using the object, or many at "
            f"once; {counts['moves']:,} succeeded. End each hot_scope before the thread waits for "
            "anything, and let one use fewer objects."
        )
    if counts["aborted_no_memory"] + counts["aborted_near_limit"] > MANY_GIVEN_UP * rounds:
        return look(
            "Moves find no memory: the process is near its limit. Raise the limit, or give "
            "the machine swap, so that cold pages make room."
        )
    if cold >= MUCH and counts["paged_out_bytes"] == 0:
        return look(
            "None of the cold bytes were paged out. Without swap they have nowhere to go: zram is "
            "enough. With STRATA_HOT_RECLAIM_COLD or NONE the kernel takes them only when it needs "
            "memory.",
            "swapon --show",
            cold,
        )
    if rate > HIGH_RATE and counts["cold_after"] >= MOST_WINDOWS:
        return look(
            f"{share(rate, 1)} of the used bytes come from the cold heap although objects wait for "
            f"{MOST_WINDOWS} windows: what is used comes back later than that. Make the windows "
            "longer (period_ms)."
        )
    if core is not None and core > MUCH_OF_A_CORE:
        return look(
            f"The collector takes {share(core, 1)} of a core. It does so while it tidies; if it "
            "stays, make the windows longer (period_ms)."
        )
    what = ", and the cold ones were handed to the kernel" if counts["paged_out_bytes"] else ""
    return fine(f"Hot objects lie together{what}.")
