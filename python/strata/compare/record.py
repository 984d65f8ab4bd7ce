"""One measured run as it is kept, and the folder that keeps them: each record is appended and
synced when it is there, so that a run which is cut off, by whatever, can go on where it was."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from strata.compare.plan import WARM_UP, Plan
from strata.errors import StrataError, why_refused
from strata.files import MOST_BINARY, MOST_TEXT, UnreadableError, follow, read_file, read_within

PLAN = "plan.json"
RECORDS = "records.jsonl"
PARQUET = "records.parquet"
MOST_MEMORY = 1 << 62


@dataclass
class Record:
    """What one run of one arm gave. `error` is empty when it went well; memory is in bytes."""

    plan: str
    host: str
    round: int
    arm: str
    started: float
    error: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    rss_at: list[float] = field(default_factory=list)  # seconds since the start
    rss: list[int] = field(default_factory=list)  # of the command and its children together
    fingerprint: str = ""
    kernel: str = ""
    session: str = ""  # the uninterrupted stretch of runs that it belongs to

    @property
    def key(self) -> tuple[str, int, str]:
        return self.host, self.round, self.arm

    @property
    def counts(self) -> bool:
        """Whether the run goes into the averages."""
        return not self.error and self.round != WARM_UP

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Record:
        document: dict[str, Any] = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("not an object")
        record = cls(**document)
        texts = (record.plan, record.host, record.arm, record.error, record.fingerprint)
        series = (record.rss_at, record.rss)
        if not (
            all(isinstance(text, str) for text in (*texts, record.kernel, record.session))
            and type(record.round) is int
            and isinstance(record.figures, dict)
            and all(isinstance(one, list) for one in series)
            and all(map(is_number, (record.started, *record.figures.values())))
            and all(map(is_number, record.rss_at))
            and all(type(value) is int and 0 <= value < MOST_MEMORY for value in record.rss)
            and len(record.rss_at) == len(record.rss)
        ):
            raise ValueError("wrong types")
        return record


def is_number(value: object) -> bool:
    """One that can be reckoned with: JSON has integers without bound and, in Python, NaN."""
    try:
        return type(value) in (int, float) and math.isfinite(cast("float", value))
    except OverflowError:
        return False


class MixedError(StrataError):
    """A record that may not lie beside the ones that are there."""


def of_one_session(records: Iterable[Record]) -> list[Record]:
    """For each host and round the runs of one session, the fullest and then the latest.

    What a round pairs must have run in one stretch: an interruption may lie days apart.
    """
    rounds: dict[tuple[str, int], dict[str, dict[str, Record]]] = {}
    for record in records:
        sessions = rounds.setdefault((record.host, record.round), {})
        sessions.setdefault(record.session, {})[record.arm] = record
    kept: list[Record] = []
    for sessions in rounds.values():
        latest_first = reversed(list(sessions.values()))
        kept += max(latest_first, key=len).values()  # the first of the fullest
    return kept


class RunDirectory:
    """The folder of one experiment: plan.json and records.jsonl."""

    def __init__(self, path: Path, plan: Plan, records: list[Record]) -> None:
        self.path = path
        self.plan = plan
        self.records = records
        self._file = (path / RECORDS).open("ab")

    @classmethod
    def create(cls, path: Path, plan: Plan) -> RunDirectory:
        if (path / PLAN).exists():
            raise StrataError(f"{path} holds a run already; go on with `--resume {path}`")
        try:
            path.mkdir(parents=True, exist_ok=True)
            _write_synced(path / PLAN, plan.to_json() + "\n")
        except OSError as error:
            raise StrataError(f"{path}: {why_refused(error)}") from error
        return cls(path, plan, [])

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        try:
            text = read_within(path / PLAN, MOST_TEXT).decode()
        except (UnreadableError, UnicodeDecodeError) as error:
            raise StrataError(f"--resume {path}: no {PLAN} in it: {error}") from error
        plan = Plan.from_json(text, str(path / PLAN))
        return cls(path, plan, _read_records(path / RECORDS, plan))

    def extend(self, rounds: int) -> None:
        """More rounds of the same plan."""
        if rounds > self.plan.rounds:
            document = json.loads(self.plan.to_json()) | {"rounds": rounds}
            self.plan = Plan.from_json(json.dumps(document), PLAN)
            _write_synced(self.path / PLAN, self.plan.to_json() + "\n")

    def add(self, record: Record) -> None:
        """Keeps a record; raises MixedError for one of another library or kernel than before."""
        self._check_library(record.host, record.arm, record.fingerprint)
        self._check_kernel(record.host, record.kernel)
        self._file.write(record.to_json().encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.records.append(record)

    def done(self, host: str) -> set[tuple[int, str]]:
        """What need not be run again on a host: all rounds that one session has run to their end.
        A round that was cut off is run again as a whole. A failed run counts as done."""
        kept = [r for r in of_one_session(self.records) if r.host == host]
        arms = Counter(record.round for record in kept)
        return {(r.round, r.arm) for r in kept if arms[r.round] == len(self.plan.arms)}

    def check_same(self, host: str, fingerprints: Mapping[str, str], kernel: str) -> None:
        """Refuses to go on with another library or kernel than the records came from."""
        self._check_kernel(host, kernel)
        for arm, fingerprint in fingerprints.items():
            self._check_library(host, arm, fingerprint)

    def _check_library(self, host: str, arm: str, now: str) -> None:
        before = {r.fingerprint for r in self.records if (r.host, r.arm) == (host, arm)} - {""}
        if now and before and now not in before:
            raise MixedError(
                f"the library of arm {arm} is not the one that the first runs used; start a new run"
            )

    def _check_kernel(self, host: str, now: str) -> None:
        before = {r.kernel for r in self.records if r.host == host} - {""}
        if now and before and now not in before:
            raise MixedError(
                f"the kernel is {now}, the first runs used {min(before)}; start a new run"
            )

    def close(self) -> None:
        self._file.close()


def _write_synced(path: Path, text: str) -> None:
    with follow(path).open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _read_records(path: Path, plan: Plan) -> list[Record]:
    """All whole lines. The last one may be torn where the machine stopped: it is cut off."""
    if not path.exists():
        return []
    content = read_file(path, MOST_BINARY)
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) != len(content):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    records = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            record = Record.from_json(line.decode())
        except (ValueError, RecursionError, TypeError) as error:
            raise StrataError(f"{path}:{number}: not a record: {error}") from error
        if record.plan != plan.hash:
            raise StrataError(f"{path}:{number}: a record of another plan")
        if record.arm not in plan.arms:
            raise StrataError(f"{path}:{number}: a record of an arm that the plan lacks")
        records.append(record)
    return records


def write_parquet(records: Iterable[Record], path: Path) -> None:
    """All runs with one column a figure, for whoever wants to look closer."""
    import polars as pl

    rows = list(records)
    names = sorted({name for record in rows for name in record.figures})
    columns: dict[str, Any] = {
        "plan": [r.plan for r in rows],
        "host": [r.host for r in rows],
        "round": [r.round for r in rows],
        "arm": [r.arm for r in rows],
        "started": [r.started for r in rows],
        "error": [r.error for r in rows],
        "kernel": [r.kernel for r in rows],
        "library": [r.fingerprint for r in rows],
        "session": [r.session for r in rows],
    }
    for name in names:
        columns[name] = pl.Series(name, [r.figures.get(name) for r in rows], dtype=pl.Float64)
    columns["rss_at"] = pl.Series("rss_at", [r.rss_at for r in rows], dtype=pl.List(pl.Float64))
    columns["rss_series"] = pl.Series("rss_series", [r.rss for r in rows], dtype=pl.List(pl.Int64))
    partial = path.with_suffix(".partial")
    pl.DataFrame(columns).write_parquet(partial)
    partial.rename(path)
