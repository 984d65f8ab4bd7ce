"""What a report is made from: statistics samples and profiles, as they lie in a folder.

The library may be older than this tool, a file may be cut off and every string may come from the
program, so what is read here is taken only as far as it makes sense: a number that is none is
missing, a row that lacks a column is left out, and `Recording.missing` says why a profile is not
there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import polars as pl

from strata.errors import StrataError
from strata.files import MOST_TEXT, UnreadableError, read_file, read_within
from strata.report.document import Document, as_number
from strata.report.profiles import Profile, read_profile
from strata.symbolize import Warn

# churn: the objects allocated while the report was taken; allocs: since the start of the process.
KINDS = ("heap", "allocs", "churn", "peak", "lifetime", "fragmentation")
PLACEHOLDER = "PID"
CPU = "cpu"  # of the kernel's making, by cpu_profile.py
META = "report.json"
SAMPLES = "samples.jsonl"
OCCUPANCY_LISTS = 8
CLASSES = 8  # of lifetimes
MOST_LINES = 1 << 30  # bytes of all samples


def frame(document: Document, name: str, *columns: str) -> pl.DataFrame:
    """The rows of a list of objects that have all these columns as numbers."""
    rows = []
    for row in document.rows(name):
        if not isinstance(row, dict):
            continue
        values = [as_number(row.get(column)) for column in columns]
        if None not in values:
            rows.append([int(value or 0) for value in values])
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.Int64), orient="row")


@dataclass(frozen=True)
class Sample:
    """The library's figures at one moment, `at` seconds after the first."""

    at: float
    rss: int | None
    stats: Document
    by_class: dict[int, int] = field(default_factory=dict)  # live bytes; 0: nothing predicted

    @property
    def usable(self) -> bool:
        return self.stats.whole("bytes", "resident") is not None


@dataclass
class Recording:
    """Everything that was gathered."""

    meta: Document = field(default_factory=lambda: Document({}))
    samples: list[Sample] = field(default_factory=list)
    profiles: dict[str, Profile] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # kind -> why it is not there
    others: list[int] = field(default_factory=list)  # processes whose files lie there, too
    runs: bool = True  # here and now, so that it can be asked

    @property
    def last(self) -> Sample | None:
        return self.samples[-1] if self.samples else None

    @property
    def number(self) -> int | None:
        """What the process is, or was."""
        number = self.meta.whole("pid")
        if number is None and self.last is not None:
            number = self.last.stats.whole("pid")
        return number

    @property
    def pid(self) -> str:
        """The process for commands that a person may paste; a placeholder if there is none."""
        return PLACEHOLDER if self.number is None or not self.runs else str(self.number)

    @property
    def seconds(self) -> float:
        """The time between the first and the last sample."""
        return self.samples[-1].at - self.samples[0].at if self.samples else 0.0

    @property
    def swing(self) -> int:
        """Bytes not in use now that the program will take again: while it was watched it freed as
        much, and took it back."""
        held = [sample.stats.whole("bytes", "live") or 0 for sample in self.samples]
        if not held:
            return 0
        before = list(accumulate(held, max))
        after = list(accumulate(reversed(held), max))[::-1]
        came_back = max(
            min(most, later) - low for most, low, later in zip(before, held, after, strict=True)
        )
        return min(came_back, max(held) - held[-1])

    def gained(self, *path: str) -> float | None:
        """How much a counter rose between the first and the last sample; its total if one only."""
        if self.last is None:
            return None
        total = self.last.stats.number(*path)
        before = self.samples[0].stats.number(*path) if len(self.samples) > 1 else 0
        return None if total is None or before is None else max(0.0, total - before)


def _read_json(path: Path) -> object:
    try:
        return json.loads(read_within(path, MOST_TEXT))
    except (UnreadableError, ValueError, RecursionError):
        return None


def _written(path: Path) -> float:
    """When; long ago if it is gone, or a link to nothing."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _by_class(row: Document) -> dict[int, int]:
    names = [str(number) for number in range(CLASSES + 1)]
    found = {int(name): row.whole("by_class", name) for name in names}
    return {number: max(0, value) for number, value in found.items() if value is not None}


def _samples_of_lines(text: str) -> list[Sample]:
    """Samples of a samples.jsonl; lines that cannot be read (the last, cut off) are left out."""
    samples = []
    for line in text.split("\n"):
        try:
            row = Document(json.loads(line))
        except (ValueError, RecursionError):
            continue
        at = row.number("at")
        stats = Document(row.data.get("stats"))
        sample = Sample(at or 0.0, row.whole("rss"), stats, _by_class(row))
        if at is not None and sample.usable:
            samples.append(sample)
    return sorted(samples, key=lambda sample: sample.at)


def _samples_of_files(folder: Path) -> tuple[list[Sample], list[int]]:
    """Statistics that STRATA_STATS wrote as single files, in the order of their times: those of the
    process that wrote last, and which others there are."""
    found = []
    for path in folder.glob("*.json"):
        if path.name != META:
            sample = Sample(_written(path), None, Document(_read_json(path)))
            if sample.usable and sample.stats.text("strata"):  # the library's, with its version
                found.append(sample)
    found.sort(key=lambda sample: sample.at)
    if not found:
        return [], []
    pids = [sample.stats.whole("pid") for sample in found]
    ours = [sample for sample, pid in zip(found, pids, strict=True) if pid == pids[-1]]
    others = sorted({pid for pid in pids if pid is not None and pid != pids[-1]})
    return [Sample(sample.at - ours[0].at, None, sample.stats) for sample in ours], others


def _profile_file(folder: Path, kind: str) -> Path | None:
    """KIND.pb.gz, or the newest file that begins with the kind's name."""
    exact = folder / f"{kind}.pb.gz"
    if exact.exists():
        return exact
    others = [*folder.glob(f"{kind}*.pb.gz"), *folder.glob(f"{kind}*.pprof")]
    return max(others, key=_written) if others else None


def load(folder: Path, warn: Warn = lambda _: None) -> Recording:
    """What a folder holds: of a report, or files that the library itself wrote."""
    if not folder.is_dir():
        raise StrataError(f"{folder}: not a folder with a saved report")
    recording = Recording(meta=Document(_read_json(folder / META)))
    lines = folder / SAMPLES
    if lines.exists():
        text = read_file(lines, MOST_LINES).decode(errors="replace")
        recording.samples = _samples_of_lines(text)
    else:
        recording.samples, recording.others = _samples_of_files(folder)
    for kind in (*KINDS, CPU):
        path = _profile_file(folder, kind)
        why = recording.meta.text("missing", kind)
        if path is None:
            recording.missing[kind] = why or "there is no such file"
            continue
        try:
            recording.profiles[kind] = read_profile(kind, path, warn)
        except StrataError as error:
            recording.missing[kind] = str(error)
    if not recording.samples and not recording.profiles:
        raise StrataError(
            f"{folder}: no statistics and no profile that can be read; "
            f"expected {SAMPLES} or *.json, and heap.pb.gz and the like"
        )
    return recording
