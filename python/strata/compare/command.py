"""`strata compare` on the command line: makes or finds the plan, runs it here or elsewhere, shows
what came out. A run directory is written from the first record on."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strata.compare import runner
from strata.compare.plan import DEFAULT_MARGIN, Metric, Plan
from strata.compare.record import MixedError, Record, RunDirectory
from strata.errors import StrataError, remedy
from strata.terminal import console, echo, say

if TYPE_CHECKING:
    from rich.progress import Progress

INTERRUPTED = 130
NEEDED = ("matplotlib", "numpy", "polars")  # by the result; a base install goes without
HELP = """Compare allocators or settings on a COMMAND, or on a server under a load.

Each round runs every arm once, in a random order. The others are compared with the first arm.
Exit status 0: done; 1: runs failed; 130: interrupted, `--resume DIR` goes on."""


def check_packages() -> None:
    """Tells what the result will need before hours are spent on the runs."""
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if lacking:
        raise StrataError(f"a comparison needs {', '.join(lacking)}: {remedy('compare')}")


def make_plan(
    arms: list[str],
    command: list[str],
    server: str | None,
    load: str | None,
    ready_port: int,
    rounds: int,
    warm_up: bool,
    seed: int,
    timeout: float,
    metrics: list[str],
) -> Plan:
    """The plan that the options describe, or a clear error."""
    if server is not None or load is not None:
        if command:
            raise StrataError("either --server with --load, or a COMMAND behind --, not both")
        if server is None or load is None:
            raise StrataError("--server and --load belong together")
        command = shlex.split(server)
        if "{port}" not in server and not ready_port:
            raise StrataError("--server needs {port} in its command, or --ready-port NUMBER")
    if not command:
        raise StrataError("nothing to run: `strata compare --arm A --arm B -- COMMAND`")
    return Plan(
        arms=arms,
        command=command,
        load=shlex.split(load) if load else [],
        ready_port=ready_port,
        rounds=rounds,
        warm_up=warm_up,
        seed=seed,
        timeout=timeout,
        metrics=[Metric.parse(text) for text in metrics],
    )


class Shown:
    """The progress line on stderr, and a line for each failed run."""

    def __init__(self, progress: Progress, total: int, done: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total, completed=done)

    def start(self, round_number: int, arm: str, host: str = "") -> None:
        where = f" on {host}" if host else ""
        what = f"round {round_number}" if round_number else "warm-up"
        self._progress.update(self._task, description=f"{what}: {arm}{where}")

    def record(self, record: Record) -> None:
        self._progress.update(self._task, advance=1)
        if record.error:
            where = f" on {record.host}" if record.host else ""
            line = f"strata: {record.arm}, round {record.round}{where}: {record.error}"
            self._progress.console.print(line, highlight=False, markup=False, soft_wrap=True)


def make_progress() -> Progress:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    err = console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def run_here(folder: RunDirectory, lib: Path | None) -> list[str]:
    """Runs what is missing on this machine; a line if it had to end before."""
    host = os.uname().nodename
    arms = runner.prepare(folder.plan, lib)
    fingerprints = {arm.name: arm.fingerprint() for arm in arms.values()}
    folder.check_same(host, fingerprints, os.uname().release)
    for line in runner.warnings(folder.plan, arms):
        say(line)
    done = folder.done(host)
    total = len(folder.plan.runs())
    with make_progress() as progress:
        shown = Shown(progress, total, len(done))

        def keep(record: Record) -> None:
            folder.add(record)
            shown.record(record)

        try:
            runner.run_plan(folder.plan, arms, host, done, shown.start, keep)
        except MixedError as error:  # replaced while it was measured
            return [str(error)]
    return []


def finish(folder: RunDirectory, margin: float, *, as_json: bool) -> bool:
    """Shows and writes the result; whether every run went well."""
    from strata.compare import output
    from strata.compare.result import Result

    result = Result(folder.plan, folder.records, margin)
    output.write(result, folder.path)
    if as_json:
        echo(json.dumps(result.to_json(), indent=1))
    else:
        out = console()
        out.print(output.table(result))
        out.print(output.COUNTED)
        for line in output.notes(result):
            out.print(line)
        out.print(f"All of it: {folder.path / 'index.html'}", soft_wrap=True)
    return not result.failures() and not result.missing()


def open_folder(
    resume: Path | None, out: Path | None, plan: Plan | None, rounds: int | None
) -> RunDirectory:
    """The run directory to add to: a new one, or the one to resume if its plan is the same."""
    if resume is None:
        assert plan is not None
        default = Path(f"strata-compare-{time.strftime('%Y%m%d-%H%M%S')}")
        return RunDirectory.create(out or default, plan)
    if out is not None:
        raise StrataError("--resume and --out cannot be used together")
    folder = RunDirectory.open(resume)
    if plan is not None and plan.hash != folder.plan.hash:
        raise StrataError(f"the run in {resume} has another plan than this command line")
    if rounds is not None:
        folder.extend(rounds)
    return folder


def compare_command(
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND [ARGUMENT]...")] = None,
    arm: Annotated[
        list[str] | None,
        typer.Option(help="NAME[:OPTION=VALUE,...]: strata, glibc, jemalloc, path:FILE ..."),
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="The server to measure; {port} and {dir} are filled in.")
    ] = None,
    load: Annotated[str | None, typer.Option(help="What to run against the server.")] = None,
    ready_port: Annotated[
        int, typer.Option(help="The server is ready when this port answers; {port} if not given.")
    ] = 0,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="How often each arm runs; 10 times if not given.")
    ] = None,
    warm_up: Annotated[bool, typer.Option(help="Run one round first that does not count.")] = True,
    seed: Annotated[int, typer.Option(help="Seed of the order of runs and of the bootstrap.")] = 1,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that one run may take.")] = 600,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=REGEX takes a figure from the output; NAME:lower=REGEX if less is better."
        ),
    ] = None,
    margin: Annotated[
        float, typer.Option(min=0.0001, max=1, help="A smaller difference does not matter.")
    ] = DEFAULT_MARGIN,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The run directory.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue in this run directory.")] = None,
    lib: Annotated[Path | None, typer.Option(help="The libstrata.so of the arms `strata`.")] = None,
    hosts: Annotated[
        Path | None, typer.Option(help="A file of ssh hosts, one a line: run on all of them.")
    ] = None,
    remote_strata: Annotated[
        str, typer.Option(help="The strata command on those hosts.")
    ] = "strata",
    ray: Annotated[bool, typer.Option("--ray", help="Run on all nodes of a Ray cluster.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    if hosts is not None and ray:
        raise StrataError("--hosts and --ray cannot be used together")
    if hosts is not None and lib is not None:
        raise StrataError("--lib names a file here; on --hosts, STRATA_LIB in their environment")
    check_packages()
    plan = None
    if resume is None or arm or command or server or load:
        plan = make_plan(
            arm or [],
            command or [],
            server,
            load,
            ready_port,
            rounds or 10,
            warm_up,
            seed,
            timeout,
            metric or [],
        )
        if not hosts and not ray:
            runner.prepare(plan, lib)  # mistakes are told before a folder is made
        elif len(plan.arms) < 2:
            raise StrataError("two or more --arm are needed")
    folder = open_folder(resume, out, plan, rounds)
    interrupted = False
    problems: list[str] = []
    try:
        if hosts is not None:
            from strata.compare.hosts import read_hosts, run_on_hosts

            problems = run_on_hosts(folder, read_hosts(hosts), remote_strata)
        elif ray:
            from strata.compare.ray_job import run_on_ray

            problems = run_on_ray(folder, lib)
        else:
            problems = run_here(folder, lib)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        folder.close()
    for line in problems:
        say(line)
    fine = finish(folder, margin, as_json=json_)
    if interrupted:
        say(f"interrupted; `strata compare --resume {folder.path}` goes on")
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if fine and not problems else 1)


def worker_command() -> None:
    """Runs a plan from stdin for another machine and writes the records to stdout."""
    from strata.compare.worker import serve

    raise typer.Exit(serve(sys.stdin, sys.stdout))


def add_to(app: typer.Typer) -> None:
    app.command("compare", help=HELP, no_args_is_help=True)(compare_command)
    app.command("compare-worker", hidden=True)(worker_command)
