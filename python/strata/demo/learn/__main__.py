"""`python -m strata.demo.learn`: record, train, run, and write the page."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from strata.demo import entry
from strata.demo.learn import load, page
from strata.demo.learn.load import Load
from strata.errors import StrataError
from strata.library import find_library
from strata.report.model import load as load_recording
from strata.report.predictions import held_without
from strata.terminal import in_a_line, say

RECORDING = ("--set", "SAMPLE=64K")  # minutes would do with the default


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    recorded: Load
    measured: Load
    reports: bool


FULL_LOAD = Load(peaks=10, pause_seconds=2.0)
FULL = Plan(replace(FULL_LOAD, peaks=5, idle_seconds=1, seed=7), FULL_LOAD, reports=True)
QUICK_LOAD = Load(peaks=3, pause_seconds=0.3, idle_seconds=8)
QUICK = Plan(replace(QUICK_LOAD, idle_seconds=0, seed=7), QUICK_LOAD, reports=False)


@dataclass(frozen=True)
class Paths:
    """Everything lies in one folder."""

    folder: Path
    server: Path
    library: Path

    @property
    def profiles(self) -> Path:
        return self.folder / "profiles"

    @property
    def model(self) -> Path:
        return self.folder / "server.model"

    @property
    def report(self) -> Path:
        return self.folder / "report"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"


def strata(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "strata", *map(str, words)]


def commands(paths: Paths) -> tuple[list[str], list[str], list[str]]:
    """The three, in a form that a person may paste: without the interpreter."""
    run = ["strata", "run", "--lib", str(paths.library)]
    server = ["--", str(paths.server)]
    return (
        [*run, "--learn", str(paths.profiles), *RECORDING, *server],
        ["strata", "train", str(paths.profiles), "-o", str(paths.model)],
        [*run, "--model", str(paths.model), *server],
    )


def train(command: list[str]) -> str:
    """Runs it; what it says of the model."""
    done = subprocess.run(
        strata(*command[1:]), capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        raise StrataError(f"strata train failed: {in_a_line(done.stderr[-500:])}")
    return done.stdout


def report(pid: int, folder: Path) -> None:
    """What `strata report` says of the process with the model, for the page to link to."""
    words = strata("report", str(pid), "--seconds", "1", "-o", folder)
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        say(f"there is no report: {in_a_line(done.stderr[-500:])}")


def estimate(folder: Path) -> float | None:
    """What the heap would hold without the model, as the report has it."""
    try:
        recording = load_recording(folder)
    except StrataError:
        return None
    found = recording.profiles
    if recording.last is None:
        return None
    return held_without(found.get("heap"), found.get("peak"), recording.last.stats)


def record_train_run(paths: Paths, plan: Plan, console: Console) -> page.Done:
    record, learn, use = commands(paths)
    for old in (paths.profiles, paths.report):
        shutil.rmtree(old, ignore_errors=True)
    paths.log.unlink(missing_ok=True)
    began = time.monotonic()

    def step(command: list[str]) -> None:
        at = f"{time.monotonic() - began:5.0f} s  "
        console.print(at + in_a_line(shlex.join(command)), highlight=False, soft_wrap=True)

    step(record)
    load.serve("recorded", strata(*record[1:]), plan.recorded, paths.log)
    step(learn)
    console.print(train(learn), highlight=False)
    plain = [*use[: use.index("--model")], *use[use.index("--") :]]
    step(plain)
    without = load.serve("without a model", strata(*plain[1:]), plan.measured, paths.log)
    step(use)
    with_model = load.serve(
        "with the model",
        strata(*use[1:]),
        plan.measured,
        paths.log,
        lambda pid: report(pid, paths.report) if plan.reports else None,
    )
    shown = [shlex.join(command) for command in (record, learn, use)]
    return page.Done(without, with_model, shown, notes(plan), estimate(paths.report))


def notes(plan: Plan) -> list[str]:
    load_ = plan.measured
    return [
        f"{load_.peaks} peaks of {load_.visitors} visitors. Each sends {load_.requests} requests "
        f"for {load_.rows:,} rows of 96 to 288 bytes, waits until all are there, and goes, which "
        "frees the rows. One row in a hundred becomes part of the user's session instead and "
        f"stays until the user, one of {load_.users:,}, comes again. Both are allocated by the "
        "same function.",
        f"{load_.pause_seconds:g} s lie between two peaks, and {load_.idle_seconds:g} s idle "
        "behind the last. Requests a second are those of the peaks, the going of the visitors "
        "included.",
        f"Recorded were {plan.recorded.peaks} peaks of other users. The model was trained on the "
        "very program that then runs with it: this shows what is to be gained, not how well a "
        "model does on programs that it has not seen.",
        f"{os.cpu_count()} CPUs; the visitors run on them as well.",
    ]


def print_table(done: page.Done, console: Console) -> None:
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("")
    for run in done.runs:
        table.add_column(run.name, justify="right")
    for name, cells in page.rows(done):
        table.add_row(name, *cells)
    console.print(table)
    console.print(page.verdict(done), highlight=False)
    if said := page.estimate_sentence(done):
        console.print(said, highlight=False)


def learn(
    server: Annotated[
        Path, typer.Option(metavar="PATH", help="The server that `make learn` builds.")
    ] = Path("build/bench/visits-server"),
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write.")] = Path(
        "out/learn"
    ),
    lib: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The libstrata.so to show.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small load.")] = False,
) -> None:
    """Record a server, train a model of it, run it with the model; write a page."""
    if not server.is_file():
        raise StrataError(f"{server}: no such file; `make learn` builds it")
    library, _ = find_library(lib)
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    paths = Paths(out, server, library)
    done = record_train_run(paths, QUICK if quick else FULL, console)
    print_table(done, console)
    path = page.write(done, out)
    console.print(f"The page: {path}", highlight=False, soft_wrap=True)


def main() -> None:
    entry.run(learn, "make learn")


if __name__ == "__main__":
    main()
