"""Paired ratios with bootstrap intervals, and what may be said from them.

Runs of one round are paired, so what disturbs a whole round cancels out. The figure is the
geometric mean of the rounds' ratios. Its interval is a percentile bootstrap over rounds, drawn
wider for few rounds as Hesterberg proposes ("What Teachers Should Know about the Bootstrap",
2014, section 3.3): plain percentiles from ten rounds cover the truth 90 times in a hundred, not 95.

With several machines the bootstrap draws machines first and rounds within each drawn one. So the
interval is about machines like these: where they disagree it is wide, however many the rounds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from strata.compare.plan import DEFAULT_MARGIN

CONFIDENCE = 0.95
RESAMPLES = 4000
MIN_ROUNDS = 6  # below it an interval covers the truth too seldom to be shown as a verdict
MAX_MORE_ROUNDS = 10_000


class Verdict(Enum):
    BETTER = "better"
    WORSE = "worse"
    SAME = "no difference"
    OPEN = "undecided"
    TOO_FEW = "too few rounds"


@dataclass(frozen=True)
class Interval:
    """A ratio to the first arm with its confidence interval."""

    ratio: float
    low: float
    high: float
    rounds: int  # of all hosts together
    least: int = 0  # in the host that has the fewest; 0: there is one host, all are its own
    hosts: tuple[float, ...] = ()  # each host's own ratio, where there are several
    hosts_differ: bool = False  # by more than their rounds explain

    @property
    def rounds_each(self) -> int:
        return self.least or self.rounds

    def __str__(self) -> str:
        return f"{self.ratio:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Judgement:
    """What the interval allows to say; `more_rounds` is set where that many would suffice."""

    interval: Interval
    verdict: Verdict
    more_rounds: int | None = None

    def sentence(self, margin: float) -> str:
        change = abs(self.interval.ratio - 1) * 100
        match self.verdict:
            case Verdict.SAME:
                return f"no difference within {margin * 100:g} %"
            case Verdict.TOO_FEW:
                return f"too few rounds, {self.more_rounds} more at least"
            case Verdict.OPEN if self.more_rounds is None:
                return "undecided: the hosts differ"
            case Verdict.OPEN:
                return f"undecided: about {self.more_rounds} more rounds"
            case _:
                return f"{change:.1f} % {self.verdict.value}"


def _t_quantile(probability: float, freedom: int) -> float:
    """Student's t by bisection over its distribution, integrated by Simpson's rule."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    scale /= math.sqrt(freedom * math.pi)

    def density(x: float) -> float:
        return scale * math.exp(-(freedom + 1) / 2 * math.log1p(x * x / freedom))

    def below(x: float) -> float:
        steps = 400
        width = x / steps
        inner = sum((4 if i % 2 else 2) * density(i * width) for i in range(1, steps))
        return 0.5 + width / 3 * (density(0) + inner + density(x))

    low, high = 0.0, 64.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < probability else (low, middle)
    return (low + high) / 2


@functools.cache
def tail(rounds: int, confidence: float = CONFIDENCE) -> float:
    """The share to cut off at either end of the resamples: wider than plain for few rounds."""
    t = _t_quantile((1 + confidence) / 2, rounds - 1)
    cut: float = NormalDist().cdf(-math.sqrt(rounds / (rounds - 1)) * t)
    return cut


def interval(ratios: Sequence[float], seed: int = 1) -> Interval:
    """The geometric mean of paired ratios and its interval; the same seed gives the same one."""
    logs = np.log(np.asarray(ratios, dtype=float))
    count = len(logs)
    centre = float(np.exp(logs.mean()))
    if count < 2:
        return Interval(centre, 0.0, math.inf, count)
    generator = np.random.default_rng(seed)
    means = logs[generator.integers(0, count, (RESAMPLES, count))].mean(axis=1)
    cut = tail(count)
    low, high = np.quantile(means, [cut, 1 - cut])
    return Interval(centre, float(np.exp(low)), float(np.exp(high)), count)


def interval_over_hosts(ratios: Sequence[Sequence[float]], seed: int = 1) -> Interval:
    """As interval(), for the rounds of several machines, each of which counts alike."""
    if len(ratios) == 1:
        return interval(ratios[0], seed)
    logs = [np.log(np.asarray(rounds, dtype=float)) for rounds in ratios]
    means = np.array([rounds.mean() for rounds in logs])
    count, least = sum(map(len, logs)), min(map(len, logs))
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, len(logs), (RESAMPLES, len(logs)))
    resampled = np.empty(drawn.shape)
    for host, rounds in enumerate(logs):
        here = drawn == host  # each draw of a host draws its rounds anew
        picks = generator.integers(0, len(rounds), (int(here.sum()), len(rounds)))
        resampled[here] = rounds[picks].mean(axis=1)
    cut = tail(len(logs))
    low, high = np.exp(np.quantile(resampled.mean(axis=1), [cut, 1 - cut]))
    return Interval(
        float(np.exp(means.mean())),
        float(low),
        float(high),
        count,
        least,
        tuple(float(ratio) for ratio in np.exp(means)),
        least > 1 and _differ(logs),
    )


def _differ(logs: Sequence[NDArray[np.float64]]) -> bool:
    """Whether the hosts furthest apart are so by more than three standard errors."""
    first, last = min(logs, key=np.mean), max(logs, key=np.mean)
    error = math.sqrt(sum(rounds.var(ddof=1) / len(rounds) for rounds in (first, last)))
    return float(last.mean() - first.mean()) > 3 * error + 1e-9


def judge(found: Interval, higher_is_better: bool, margin: float = DEFAULT_MARGIN) -> Judgement:
    """Same: the whole interval lies within the margin. Better or worse: it leaves 1 out."""
    rounds = found.rounds_each
    if rounds < MIN_ROUNDS:
        return Judgement(found, Verdict.TOO_FEW, MIN_ROUNDS - rounds)
    bound = math.log1p(margin)
    low, high = math.log(found.low), math.log(found.high)
    if -bound <= low and high <= bound:
        return Judgement(found, Verdict.SAME)
    if low > 0 or high < 0:
        better = (low > 0) == higher_is_better
        return Judgement(found, Verdict.BETTER if better else Verdict.WORSE)
    if found.hosts_differ:  # no number of rounds makes them agree
        return Judgement(found, Verdict.OPEN)
    # The interval narrows with the root of the rounds. If the ratio stays where it is, it is
    # decided when half the width is below the distance to 1, or below what is left to the margin.
    distance = abs(math.log(found.ratio))
    enough = max(distance, bound - distance)
    factor = ((high - low) / 2 / enough) ** 2
    more = math.ceil(rounds * factor) - rounds
    return Judgement(found, Verdict.OPEN, min(max(1, more), MAX_MORE_ROUNDS))
