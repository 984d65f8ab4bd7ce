"""What the records say: each figure's median per arm and its paired ratio to the first arm."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from strata.compare.parsers import higher_is_better
from strata.compare.plan import Plan
from strata.compare.record import Record, of_one_session
from strata.compare.statistics import Interval, Judgement, interval_over_hosts, judge
from strata.stats import human

# Shown in this order, after what the load printed.
OWN = {
    "wall_s": ("wall time", False),
    "cpu_s": ("CPU time", False),
    "user_s": ("  of it user", False),
    "system_s": ("  of it system", False),
    "peak_rss": ("peak RSS", False),
    "mean_rss": ("mean RSS", False),
    "coverage": ("hugepage coverage", True),
    "minor_faults": ("minor faults", False),
    "major_faults": ("major faults", False),
}
# What this project's programs print of themselves and is measured from outside too.
MEASURED = {*OWN, "sys_s", "hwm_kib", "minflt"}


@dataclass(frozen=True)
class Cell:
    """One figure of one arm."""

    arm: str
    median: float | None
    runs: int
    judgement: Judgement | None  # None for the first arm, and where no ratio can be made
    why_not: str = ""  # where none can be made for a reason that the medians do not show

    def sentence(self, margin: float) -> str:
        return self.judgement.sentence(margin) if self.judgement else self.why_not


@dataclass(frozen=True)
class Row:
    """One figure over all arms."""

    name: str
    label: str
    higher_is_better: bool
    cells: list[Cell]


@dataclass(frozen=True)
class Failures:
    """How often an arm's runs failed, and the first reason."""

    arm: str
    failed: int
    of: int
    reason: str


class Result:
    def __init__(self, plan: Plan, records: list[Record], margin: float) -> None:
        self.plan = plan
        self.margin = margin
        self.records = of_one_session(records)
        self._by_arm: dict[str, dict[tuple[str, int], Record]] = {arm: {} for arm in plan.arms}
        for record in self.records:
            if record.counts:
                self._by_arm[record.arm][record.host, record.round] = record
        self.rows = [self._row(name) for name in self._figures()]
        self.rows = [row for row in self.rows if any(c.median for c in row.cells)]

    @property
    def hosts(self) -> list[str]:
        return list(dict.fromkeys(record.host for record in self.records))

    def _figures(self) -> list[str]:
        """Names to compare: what the load printed and has a direction, then our own."""
        seen = dict.fromkeys(
            name for runs in self._by_arm.values() for r in runs.values() for name in r.figures
        )
        printed = [n for n in seen if n not in MEASURED and self.direction(n) is not None]
        return [*printed, *(n for n in OWN if n in seen)]

    def direction(self, name: str) -> bool | None:
        """Whether more is better; None for a figure that is only kept."""
        if name in OWN:
            return OWN[name][1]
        for metric in self.plan.metrics:
            if metric.name == name:
                told = higher_is_better(name)
                return (
                    metric.higher_is_better
                    if metric.higher_is_better is not None
                    else (True if told is None else told)
                )
        return higher_is_better(name)

    def values(self, arm: str, name: str) -> dict[tuple[str, int], float]:
        return {
            key: record.figures[name]
            for key, record in self._by_arm[arm].items()
            if name in record.figures
        }

    def _pairs(self, arm: str, name: str) -> dict[tuple[str, int], tuple[float, float]]:
        """The arm's figure and the first arm's, where a round has both."""
        base = self.values(self.plan.arms[0], name)
        mine = self.values(arm, name)
        return {key: (mine[key], base[key]) for key in sorted(base.keys() & mine.keys())}

    def interval(self, arm: str, name: str) -> Interval | None:
        """The paired ratio to the first arm; None where either has a zero or no common round."""
        hosts: dict[str, list[float]] = {}
        for (host, _), (mine, base) in self._pairs(arm, name).items():
            if mine <= 0 or base <= 0:
                return None
            hosts.setdefault(host, []).append(mine / base)
        return interval_over_hosts(list(hosts.values()), self.plan.seed) if hosts else None

    def _why_not(self, arm: str, name: str) -> str:
        pairs = list(self._pairs(arm, name).values())
        zeros = sum(min(pair) <= 0 for pair in pairs)
        return f"no ratio: zero in {zeros} of {len(pairs)} rounds" if zeros else ""

    def _row(self, name: str) -> Row:
        more = bool(self.direction(name))
        cells = []
        for arm in self.plan.arms:
            values = list(self.values(arm, name).values())
            first = arm == self.plan.arms[0]
            found = None if first else self.interval(arm, name)
            cells.append(
                Cell(
                    arm,
                    statistics.median(values) if values else None,
                    len(values),
                    None if found is None else judge(found, more, self.margin),
                    "" if first else self._why_not(arm, name),
                )
            )
        return Row(name, OWN[name][0] if name in OWN else name, more, cells)

    def failures(self) -> list[Failures]:
        found = []
        for arm in self.plan.arms:
            runs = [r for r in self.records if r.arm == arm]
            failed = [r for r in runs if r.error]
            if failed:
                found.append(Failures(arm, len(failed), len(runs), failed[0].error))
        return found

    def missing(self) -> int:
        """Runs of the plan that are not there yet, over all hosts seen."""
        done = {record.key for record in self.records}
        hosts = self.hosts or [""]
        return sum((h, r, a) not in done for h in hosts for r, a in self.plan.runs())

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": self.plan.hash,
            "arms": self.plan.arms,
            "hosts": self.hosts,
            "margin": self.margin,
            "missing_runs": self.missing(),
            "figures": [
                {
                    "name": row.name,
                    "higher_is_better": row.higher_is_better,
                    "arms": [_cell_json(cell, self.margin) for cell in row.cells],
                }
                for row in self.rows
            ],
            "failures": [vars(failure) for failure in self.failures()],
        }


def _cell_json(cell: Cell, margin: float) -> dict[str, Any]:
    document: dict[str, Any] = {"arm": cell.arm, "median": cell.median, "runs": cell.runs}
    if cell.judgement is not None:
        found = cell.judgement.interval
        bounded = found.rounds > 1
        document |= {
            "ratio": found.ratio,
            "low": found.low if bounded else None,
            "high": found.high if bounded else None,
            "rounds": found.rounds,
            "verdict": cell.judgement.verdict.value,
            "more_rounds": cell.judgement.more_rounds,
        }
        if found.hosts:
            document["host_ratios"] = list(found.hosts)
    sentence = cell.sentence(margin)
    return document | ({"sentence": sentence} if sentence else {})


def show(name: str, value: float | None) -> str:
    """A figure with its unit, as a person reads it."""
    if value is None:
        return "–"
    if name in ("peak_rss", "mean_rss"):
        return human(value)
    if name == "coverage":
        return f"{value * 100:.1f} %"
    if name in ("wall_s", "cpu_s", "user_s", "system_s"):
        return f"{value:.3f} s" if value < 10 else f"{value:.1f} s"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
