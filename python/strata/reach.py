"""The commands that reach into a running process: ps, stats, profile, release, set, get."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from strata.control import ask
from strata.errors import StrataError
from strata.files import follow, write_file
from strata.processes import Process, find_process, state_of, strata_processes
from strata.terminal import console, echo, echo_bytes

Target = Annotated[str, typer.Argument(metavar="PID|NAME", help="The process, by number or name.")]


NUMBER = re.compile(r"[0-9]{1,20}")


def senseless(process: Process) -> StrataError:
    return StrataError(f"process {process.pid} ({process.name}) sent an answer that makes no sense")


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    PROMETHEUS = "prometheus"


class Kind(StrEnum):
    HEAP = "heap"
    ALLOCS = "allocs"
    PEAK = "peak"
    LIFETIME = "lifetime"
    FRAGMENTATION = "fragmentation"


def watch_figures(process: Process, seconds: float) -> None:
    """One line each so often, which a terminal or a file may keep."""
    from strata.stats import Watch

    lines = Watch()
    while True:
        for line in lines.tick(ask(process, "stats json"), time.localtime(), time.monotonic()):
            echo(line)
        time.sleep(seconds)


def stats_command(
    target: Target,
    format_: Annotated[
        Format, typer.Option("--format", help="Format of the figures.")
    ] = Format.TEXT,
    watch: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            metavar="SECONDS",
            help="Repeat every so many seconds; as text, one line each time.",
        ),
    ] = None,
) -> None:
    """Print the allocator's figures for a running process."""
    process = find_process(target)
    if watch is None:
        echo_bytes(ask(process, f"stats {format_.value}"))
        return
    with contextlib.suppress(KeyboardInterrupt):
        if format_ is Format.TEXT:
            watch_figures(process, watch)
        while True:
            body = ask(process, f"stats {format_.value}")
            if sys.stdout.isatty():
                print("\x1b[H\x1b[2J", end="", flush=True)
            echo_bytes(body)
            time.sleep(watch)


def take_profile(process: Process, kind: Kind, seconds: int = 0) -> bytes:
    """A profile of a running process, which says whose it is."""
    from strata.pprof import PROCESS, parse, process_of, with_comment

    name = process.name
    request = f"profile {kind.value}" + (f" {seconds}" if seconds else "")
    body = ask(process, request, extra_seconds=seconds)
    # An older library does not say it, and its file may have another name: Debian's redis-server is
    # a link to redis-check-rdb.
    return body if process_of(parse(body)) else with_comment(body, f"{PROCESS}{name}")


def profile_command(
    target: Target,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write it.")
    ],
    kind: Annotated[Kind, typer.Option(help="What to profile.")] = Kind.HEAP,
    seconds: Annotated[
        int,
        typer.Option(
            min=0, max=3600, help="Profile only the next SECONDS; 0: all since the start."
        ),
    ] = 0,
) -> None:
    """Write a profile of a running process as gzipped profile.proto (pprof)."""
    process = find_process(target)
    if not output.absolute().parent.is_dir():
        raise StrataError(f"{output.parent}: no such directory")
    follow(output)
    name = process.name
    body = take_profile(process, kind, seconds)
    write_file(output, body)
    echo(f"{output}: {kind.value} profile of process {process.pid} ({name})")


def release_command(
    target: Target,
    amount: Annotated[
        str | None,
        typer.Argument(metavar="[BYTES]", help="How much at least, such as 500M. Default: all."),
    ] = None,
) -> None:
    """Make a running process give free memory back to the system now."""
    from strata.stats import human

    process = find_process(target)
    body = ask(process, "release" if amount is None else f"release {amount}")
    text = body.decode(errors="replace").strip()
    if not NUMBER.fullmatch(text):
        raise senseless(process)
    echo(f"process {process.pid} gave back {human(int(text))}")


def set_command(
    target: Target,
    settings: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...")],
) -> None:
    """Change settings of a running process; `strata get` lists them."""
    process = find_process(target)
    for setting in settings:
        name, equals, _ = setting.partition("=")
        if not equals or not name:
            raise StrataError(f"{setting!r}: expected NAME=VALUE, for example release=off")
    for setting in settings:
        try:
            ask(process, f"set {setting}")
        except StrataError as error:
            raise StrataError(f"{setting}: {error}", error.status) from error


def with_size(value: str, takes: str) -> str:
    """The value of a setting, and beside a number of bytes how much that is."""
    from strata.stats import human

    if "bytes" in takes and NUMBER.fullmatch(value) and int(value) >= 1024:
        return f"{value} ({human(int(value))})"
    return value


def get_command(
    target: Target,
    name: Annotated[str | None, typer.Argument(help="One setting. Default: all.")] = None,
) -> None:
    """Print the settings of a running process."""
    process = find_process(target)
    if name is not None:
        echo(ask(process, f"get {name}").decode(errors="replace").partition("=")[2], end="")
        return
    from rich.table import Table

    table = Table("setting", "value", "takes", "what it does", box=None, pad_edge=False)
    for line in ask(process, "options").decode(errors="replace").splitlines():
        setting, takes, what, *more = [*line.split("\t"), "", ""]
        key, equals, value = setting.partition("=")
        if not equals or len(more) != 2:
            raise senseless(process)
        table.add_row(key, with_size(value, takes), takes, what)
    console().print(table)


def ps_command() -> None:
    """List the processes that run on Strata, and whether they can be asked."""
    from rich.table import Table

    from strata.stats import human

    table = Table("pid", "user", "command", "RSS", "state", box=None, pad_edge=False)
    for process in strata_processes():
        row = (str(process.pid), process.user, process.name, human(process.resident))
        table.add_row(*row, state_of(process))
    if table.row_count == 0:
        print("no process that you can see runs on Strata")
        return
    console().print(table)


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the `strata` command."""
    app.command("ps")(ps_command)
    app.command("stats")(stats_command)
    app.command("profile")(profile_command)
    app.command("release")(release_command)
    app.command("set")(set_command)
    app.command("get")(get_command)
