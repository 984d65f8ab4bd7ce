"""`strata replay`: the calls of a trace, again, on one allocator after the other."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from strata.compare.arms import Arm, find_arm
from strata.errors import StrataError, why_refused
from strata.library import find_heap
from strata.settings import check as check_settings
from strata.terminal import console, say
from strata.trace.command import find_tool, is_trace

if TYPE_CHECKING:
    import click
    from rich.table import Table

PROGRAM = "strata-replay"
DEFAULT = ("glibc", "strata")
ORDER = "strata.replay.order"  # in the context: the options as they stood on the command line


@dataclass(frozen=True)
class Sample:
    calls: int  # made so far
    live: int
    resident: int  # of the heap: the replayer's own memory is taken off


@dataclass(frozen=True)
class Replay:
    """What one allocator took for it."""

    arm: str
    seconds: tuple[float, ...]  # of each timed run
    cpu_seconds: float  # median
    peak_resident: int  # median
    end_resident: int
    peak_live: int  # the trace's own: of its calls in the recorded order
    events: int
    ignored: int
    failures: int
    overhead: float | None  # seconds, of the replayer itself; known with one thread
    samples: tuple[Sample, ...]
    notes: tuple[str, ...]  # on the trace: that it is damaged, and where

    @property
    def median_seconds(self) -> float:
        return statistics.median(self.seconds)

    @property
    def fragmentation(self) -> float:
        """Resident over live bytes, on average over the calls: 1.2 means 20 % more than asked."""
        live = sum(s.live for s in self.samples)
        return sum(s.resident for s in self.samples) / live if live > 0 else float("nan")


def run_once(arm: Arm, arguments: list[str], trace: Path) -> dict[str, Any]:
    done = subprocess.run(
        [str(find_tool(PROGRAM)), *arguments, str(trace)],
        env=arm.environment(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if line]
    if done.returncode != 0 or not done.stdout.strip():
        why = said[-1].removeprefix(f"{PROGRAM}: ") if said else f"exit status {done.returncode}"
        raise StrataError(f"{arm.name}: {why}")
    answer: dict[str, Any] = json.loads(done.stdout)
    answer["notes"] = [
        line.removeprefix(f"{PROGRAM}: ") for line in said if line.startswith(f"{PROGRAM}: ")
    ]
    wrong = [line for line in said if not line.startswith(f"{PROGRAM}: ")]
    if wrong and "cannot be preloaded" in wrong[0]:
        raise StrataError(f"{arm.name}: {wrong[0]}")
    return answer


def replay(arm: Arm, trace: Path, arguments: list[str], samples: int, runs: int) -> Replay:
    """Timed runs without samples, and one more with them: reading the kernel's figures takes time
    and must not be in it."""
    timing = arguments if "--threads" in arguments else [*arguments, "--overhead"]
    timed = [run_once(arm, timing, trace) for _ in range(runs)]
    alone = [t["overhead_seconds"] for t in timed if "overhead_seconds" in t]
    watched = run_once(arm, [*arguments, "--samples", str(samples)], trace)
    return Replay(
        arm=arm.name,
        seconds=tuple(t["seconds"] for t in timed),
        cpu_seconds=statistics.median(t["cpu_seconds"] for t in timed),
        peak_resident=round(statistics.median(t["peak_resident"] for t in timed)),
        end_resident=watched["end_resident"],
        peak_live=watched["peak_live"],
        events=watched["events"],
        ignored=watched["ignored"],
        failures=watched["failures"],
        overhead=statistics.median(alone) if alone else None,
        samples=tuple(Sample(*s) for s in watched["samples"]),
        notes=tuple(watched["notes"]),
    )


def named_allocator(spec: str) -> Arm:
    try:
        arm = find_arm(spec)
    except StrataError as error:
        raise StrataError(str(error).replace("--arm", "--allocator"), error.status) from error
    if arm.library is not None:
        check_settings(arm.environment(os.environ), f"--allocator {spec!r}")
    return arm


def named_heap(name: str) -> Arm:
    # The process's own heap is none of the tree's, but people ask for it in the same breath.
    return find_arm(name) if name == "glibc" else Arm(name, find_heap(name, None)[0], {})


def named_library(path: str) -> Arm:
    try:
        found = find_arm(f"path:{path}")
    except StrataError as error:
        raise StrataError(str(error).replace("--arm path:", "--preload ")) from error
    return Arm(Path(path).name, found.library, {})


FINDERS = {"allocator": named_allocator, "heap": named_heap, "preload": named_library}


class InOrder(TyperCommand):
    """Keeps the order of options of several names, which is that of the rows."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


def find_arms(order: list[str], given: dict[str, list[str]]) -> list[Arm]:
    """`given`: by option, what it names; `order`: the options as they stood on the command line."""
    left = {option: iter(names) for option, names in given.items()}
    arms = [FINDERS[option](next(left[option])) for option in order if option in FINDERS]
    return arms or [named_allocator(name) for name in DEFAULT]


def make_output(folder: Path) -> None:
    """Before the runs: what cannot be written is told before minutes are spent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StrataError(f"{folder}: {why_refused(error)}") from error


def table(replays: list[Replay]) -> Table:
    from rich.table import Table

    from strata.stats import duration, human

    columns = ("allocator", "time", "CPU time", "peak RSS", "RSS / live", "RSS at end")
    view = Table(box=None, pad_edge=False)
    for column in columns:
        view.add_column(column, no_wrap=True)
    for r in replays:
        view.add_row(
            r.arm,
            duration(1e9 * r.median_seconds),
            duration(1e9 * r.cpu_seconds),
            human(r.peak_resident),
            f"{r.fragmentation:.2f}",
            human(r.end_resident),
        )
    return view


def check_trace(file: Path) -> None:
    """Said once and of the file, before any allocator is asked."""
    if not file.is_file():
        raise StrataError(f"{file}: " + ("is no file" if file.exists() else "no such file"))
    if file.stat().st_size == 0:
        raise StrataError(f"{file}: empty, not a trace")
    if not is_trace(file):
        raise StrataError(f"{file}: not a trace of Strata's")


def replay_command(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trace of `strata trace`.")],
    heap: Annotated[
        list[str] | None,
        typer.Option(
            "--heap", metavar="NAME", help="A heap of this tree, libstrata-NAME.so, or glibc."
        ),
    ] = None,
    preload: Annotated[
        list[Path] | None,
        typer.Option("--preload", metavar="PATH", help="A library with a malloc."),
    ] = None,
    allocator: Annotated[
        list[str] | None,
        typer.Option(
            "--allocator", metavar="NAME", help="glibc, strata, jemalloc, … as `strata compare`'s."
        ),
    ] = None,
    threads: Annotated[
        bool,
        typer.Option(
            "--threads", help="Use as many threads as recorded. Default: one, in the exact order."
        ),
    ] = False,
    touch: Annotated[bool, typer.Option(help="Write to each page of a block.")] = True,
    runs: Annotated[int, typer.Option(min=1, max=1000, help="Timed runs; the median counts.")] = 3,
    samples: Annotated[
        int, typer.Option(min=1, max=100_000, help="How often to look at memory in a run.")
    ] = 200,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Write index.html and result.json."),
    ] = None,
) -> None:
    """Repeat the calls of a trace on several allocators, and compare time and memory."""
    from strata.stats import duration, human

    if output is not None:  # first, lest what it needs be missing once the runs are done
        from strata.trace.page import write
    named = {
        "heap": heap or [],
        "preload": [*map(str, preload or [])],
        "allocator": allocator or [],
    }
    arms = find_arms(context.meta[ORDER], named)
    check_trace(file)
    if output is not None:
        make_output(output)
    arguments = (["--threads"] if threads else []) + ["--touch", "pages" if touch else "none"]
    replays = [replay(arm, file.absolute(), arguments, samples, runs) for arm in arms]
    out = console(soft_wrap=True)
    how = "threads as recorded" if threads else "one thread, in the recorded order"
    first = replays[0]
    for note in first.notes:
        say(note)
    out.print(f"{file}: {first.events:,} calls, {how}, median of {runs}")
    out.print(f"at most {human(first.peak_live)} live, as asked")
    out.print(table(replays))
    alone = [r.overhead for r in replays if r.overhead is not None]
    if alone:
        out.print(f"of the time, the replayer itself: {duration(1e9 * statistics.median(alone))}")
    for r in replays:
        if r.failures:
            out.print(f"{r.arm}: {r.failures:,} requests were refused")
    if output is not None:
        write(output, file, how, replays)
        out.print(f"{output / 'index.html'}: memory over time")


def add_to(app: typer.Typer) -> None:
    """Adds the command to the `strata` command."""
    app.command("replay", cls=InOrder)(replay_command)
