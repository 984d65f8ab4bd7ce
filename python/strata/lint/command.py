"""`strata lint` on the command line."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from strata.errors import StrataError
from strata.files import write_file
from strata.lint import engine, output
from strata.lint.finding import (
    beyond,
    distinct,
    is_allowed,
    read_baseline,
    write_baseline,
)
from strata.lint.units import Program, find
from strata.terminal import console, echo, say

HELP = """Find misuse of memory, files, locks and format strings in the programs that a build made.

BUILD is a folder, program, library or object that strata-cc or strata-c++ built: CC=strata-cc make.
Exit status 0: nothing found; 1: something found; 2: it could not be analysed."""


def choose(names: list[str], folder: Path) -> list[Path]:
    """The properties asked for: names of shipped ones or files."""
    out = []
    for name in names or list(engine.SHIPPED):
        shipped = folder / f"{name}.prop"
        path = shipped if "/" not in name and shipped.exists() else Path(name)
        if not path.is_file():
            raise StrataError(
                f"--property {name}: no such file, and the properties that ship are "
                + ", ".join(engine.SHIPPED)
            )
        out.append(path)
    return out


def side_by_side(programs: list[Program]) -> int:
    """As many as there are processors and as MOST_BYTES holds of the biggest."""
    biggest = max((sum(b.stat().st_size for b in p.bitcode) for p in programs), default=0)
    fit = engine.MOST_BYTES // (engine.LEAST_BYTES + engine.BYTES_EACH * biggest)
    return max(1, min(len(os.sched_getaffinity(0)), fit))


def analyse_all(
    programs: list[Program], files: list[Path], binary: Path, *, quiet: bool
) -> list[engine.Outcome]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    out = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        Progress(
            *columns, console=out, transient=True, disable=quiet or not out.is_terminal
        ) as bar,
        ThreadPoolExecutor(side_by_side(programs)) as pool,
    ):

        def analyse(number: int, program: Program) -> engine.Outcome:
            task = bar.add_task(program.name, total=None)
            where = f"{program.name} ({number + 1} of {len(programs)})"

            def step(phase: str, done: int, total: int) -> None:
                bar.update(
                    task, description=f"{where}: {phase}", completed=done, total=max(total, 1)
                )

            try:
                return engine.analyse(program, files, binary, step)
            finally:
                bar.remove_task(task)

        for program in programs:
            for lost in program.lost[:3]:
                say(f"{lost} is gone; {program.name} is analysed without it")
        waiting = [pool.submit(analyse, n, p) for n, p in enumerate(programs) if p.bitcode]
        try:
            return [one.result() for one in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def lint_command(
    build: Annotated[Path, typer.Argument(metavar="BUILD")],
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "-p",
            metavar="NAME|FILE",
            help="taint, heap, file, lock, or a file of yours; repeatable. Default: all four.",
        ),
    ] = None,
    sarif: Annotated[Path | None, typer.Option(help="Write SARIF 2.1.0 there.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page there.")] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Leave out what this file of --write-baseline lists.")
    ] = None,
    write_baseline_: Annotated[
        Path | None,
        typer.Option(
            "--write-baseline",
            metavar="PATH",
            help="List what is found in this file, for --baseline.",
        ),
    ] = None,
    possible: Annotated[
        bool,
        typer.Option(
            "--possible",
            help="Also list possible errors: they depend on what lint does not follow.",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    binary = engine.find_engine()
    files = choose(property_ or [], engine.properties(binary))
    known = read_baseline(baseline) if baseline else None
    programs = find(build)
    started = time.monotonic()
    outcomes = analyse_all(programs, files, binary, quiet=quiet)
    if not outcomes:
        raise StrataError(
            f"{build}: the bitcode of what was built is gone; build it anew"
            " (with ccache: STRATA_LINT_CC='ccache clang-19' and not 'ccache strata-cc')"
        )
    everything = distinct([f for o in outcomes for f in o.findings])
    findings = [f for f in everything if possible or not f.possible]
    left_out = [f for f in everything if not possible and f.possible and not is_allowed(f)]
    if known is not None:
        left_out = beyond(left_out, known)
    told = [f for f in findings if not is_allowed(f)]
    allowed = len(findings) - len(told)
    if write_baseline_ is not None:
        write_baseline(write_baseline_, told)
    fresh = beyond(told, known) if known is not None else told
    lines = sum(o.lines for o in outcomes)
    if sarif is not None:
        write_file(sarif, output.sarif(fresh))
    if html is not None:
        write_file(html, output.html(fresh, lines, [p.name for p in programs]))
    if fresh:
        echo(output.text(fresh))
    seconds = time.monotonic() - started
    more = f", {allowed} allowed" if allowed else ""
    more += f", {len(told) - len(fresh)} in the baseline" if known is not None else ""
    if left_out:
        more += f", {len(left_out)} possible (--possible shows them)"
    echo(f"{len(fresh)} found{more}; {lines:,} lines in {seconds:.1f} s")
    if given_up := sum(o.given_up for o in outcomes):
        say(f"{given_up} paths were too long to follow; errors beyond them are not reported")
    if any(o.coarse for o in outcomes):
        say("too many pointers to tell where each leads; errors behind them are not reported")
    raise typer.Exit(1 if fresh and write_baseline_ is None else 0)


def add_to(app: typer.Typer) -> None:
    app.command("lint", help=HELP)(lint_command)
