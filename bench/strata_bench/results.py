"""Runs of the measured works: kept, written as TSV, and compared in pairs within each round."""

from __future__ import annotations

import csv
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from strata_bench.plan import Case


@dataclass(frozen=True)
class Run:
    """One run of one work with one allocator; `error` is empty when it went well."""

    case: str
    allocator: str
    round: int
    fields: dict[str, str]
    error: str = ""

    def number(self, key: str) -> float | None:
        try:
            return float(self.fields[key])
        except (KeyError, ValueError):
            return None

    def series(self, key: str) -> list[float]:
        text = self.fields.get(key, "")
        return [float(part) for part in text.split(",")] if text else []


@dataclass(frozen=True)
class Ratio:
    """Paired ratios of two allocators over the rounds."""

    median: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass
class Results:
    runs: list[Run] = field(default_factory=list)

    def add(self, run: Run) -> None:
        self.runs.append(run)

    def of(self, case: str, allocator: str) -> list[Run]:
        return [r for r in self.runs if (r.case, r.allocator) == (case, allocator)]

    def allocators(self, case: str) -> list[str]:
        """Those that ran this work at least once without an error."""
        return list(dict.fromkeys(r.allocator for r in self.runs if r.case == case and not r.error))

    def values(self, case: str, allocator: str, key: str) -> dict[int, float]:
        """The figure of each round that went well."""
        found: dict[int, float] = {}
        for run in self.of(case, allocator):
            value = run.number(key)
            if value is not None and not run.error:
                found[run.round] = value
        return found

    def median(self, case: str, allocator: str, key: str) -> float | None:
        values = self.values(case, allocator, key)
        return statistics.median(values.values()) if values else None

    def worst(self, case: str, allocator: str, key: str) -> float | None:
        values = self.values(case, allocator, key)
        return max(values.values()) if values else None

    def ratio(self, case: str, over: str, under: str, key: str) -> Ratio | None:
        """`over` divided by `under`, round by round, where both have a figure."""
        top = self.values(case, over, key)
        bottom = self.values(case, under, key)
        pairs = [top[r] / bottom[r] for r in sorted(top.keys() & bottom.keys()) if bottom[r] > 0]
        if not pairs:
            return None
        return Ratio(statistics.median(pairs), min(pairs), max(pairs), len(pairs))

    def failures(self) -> list[Run]:
        return [r for r in self.runs if r.error]

    def write_tsv(self, path: Path, cases: list[Case]) -> None:
        """One line a run, the compared figure first; the program's own fields stay in the last."""
        by_name = {c.name: c for c in cases}
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as out:
            writer = csv.writer(out, dialect="excel-tab")
            writer.writerow(
                ["case", "allocator", "round", "unit", "value", "hwm_kib", "error", "fields"]
            )
            for run in self.runs:
                case = by_name[run.case]
                writer.writerow(
                    [
                        run.case,
                        run.allocator,
                        run.round,
                        case.unit,
                        run.fields.get(case.metric, ""),
                        run.fields.get("hwm_kib", ""),
                        run.error,
                        " ".join(f"{k}={v}" for k, v in run.fields.items()),
                    ]
                )


def geometric_mean(values: list[float]) -> float | None:
    return statistics.geometric_mean(values) if values else None
