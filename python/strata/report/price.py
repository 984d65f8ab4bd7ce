"""The section about the price of growth (STRATA_PRICE); only where it is on. docs/price.md."""

from __future__ import annotations

from strata.price import Price, cost, read
from strata.report.advice import Advice, fine, look
from strata.report.model import Recording
from strata.report.page import Section
from strata.stats import human

MOST_WEIGHT = 10_000


def section(recording: Recording) -> Section | None:
    last = recording.last
    price = read(last.stats.data) if last is not None else None
    if price is None or not price.on:
        return None
    return Section(
        "price",
        "The price of growth",
        "While memory is scarce, a process that grows waits, so that nobody is killed.",
        advice(price, recording.pid),
        "",
        ("", "value"),
        [
            ["left for all", f"{human(price.left)} of {human(price.supply)}"],
            ["a MiB of growth costs", cost(price.seconds_a_mib)],
            ["owed", human(price.debt)],
            ["waits", f"{price.waits:,}"],
            ["waited", f"{price.waited_s:,.1f} s, all threads together"],
            ["forks waited", f"{price.fork_waited_s:,.1f} s"],
            ["weight", str(price.weight)],
        ],
    )


def advice(price: Price, pid: str) -> Advice:
    left = f"{human(price.left)} of {human(price.supply)} are left. "
    if price.waiting or (price.debt and price.seconds_a_mib):
        may_weigh_more = price.weight < MOST_WEIGHT
        return look(
            f"{left}This process has grown by {human(price.debt)} that it has not paid for, and "
            "waits. Give it more memory, or look for what grows"
            + (", or let it take more than the others:" if may_weigh_more else "."),
            f"strata set {pid} weight={min(2 * price.weight, MOST_WEIGHT)}" * may_weigh_more,
        )
    if price.waited_s >= 1:
        return fine(
            f"{left}Nothing waits now. Since its start this process has waited "
            f"{price.waited_s:,.0f} s to grow, all threads together: memory was scarce then."
        )
    return fine(f"{left}Growth has cost this process nothing worth mentioning.")
