"""`strata pageutil`: runs a command and says how much of the pages that it touches it uses."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strata.elf import read_elf, why_not_preloadable
from strata.launch import preload_value, resolve
from strata.library import DEFAULT_HEAP, find_heap
from strata.terminal import console, echo, say

if TYPE_CHECKING:
    from strata.pageutil.measure import Result

HELP = """Measure which part of its pages COMMAND uses.

The command runs unmodified, in qemu-user and so 10 to 20 times slower. Input,
signals and the exit status are its own. DIR gets index.html, pageutil.png and
pageutil.json: docs/pageutil.md."""


class Granularity(StrEnum):
    BYTE = "byte"
    LINE = "line"


def last_line(result: Result) -> str:
    return f"page utilization: {100 * result.heap.utilization:.1f} % of {result.heap.pages:,} pages"


def preloads(command: list[str], heap: str | None, lib: Path | None, stacks: bool) -> str | None:
    """The program's LD_PRELOAD: a heap of ours if one was asked for, and what tells its blocks."""
    from strata.pageutil.emulate import PLACES
    from strata.trace.command import find_tool

    value = os.environ.get("LD_PRELOAD")
    if heap is not None or lib is not None:
        library, _ = find_heap(heap or DEFAULT_HEAP, lib)
        value = preload_value(library, value)
    on_strata = any(
        Path(entry).name.startswith("libstrata")
        for entry in (value or "").replace(":", " ").split()
    )
    if not (on_strata or stacks):
        return value
    places = find_tool(PLACES)
    facts = read_elf(places)
    obstacle = why_not_preloadable(resolve(command[0], os.environ), facts) if facts else None
    if obstacle is not None:
        say(f"{obstacle}; running it on its own malloc, without call stacks")
        return os.environ.get("LD_PRELOAD")
    return preload_value(places, value)


def tell_limits(result: Result, command: str, status: int) -> None:
    if result.executes and status != 127:
        say(f"{command} executed another program, which was not measured: name that one itself")
    if result.forks:
        many = "process, which was" if result.forks == 1 else "processes, which were"
        say(f"{command} started {result.forks:,} other {many} not measured")
    if result.lost:
        say("more was mapped or allocated than there is room for; the result is a part")


def show(result: Result) -> None:
    from rich.table import Table

    from strata.stats import human

    out = console(soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("mapping", no_wrap=True)
    for name in ("pages", "touched", "utilization"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, use in result.mappings[:8]:
        share = f"{100 * use.utilization:.1f} %"
        table.add_row(name, f"{use.pages:,}", human(use.bytes), share)
    rest = result.mappings[8:]
    if rest:
        table.add_row(f"{len(rest)} more", f"{sum(use.pages for _, use in rest):,}")
    out.print(table)


def pageutil_command(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND [ARGUMENT]...")],
    epoch: Annotated[
        float, typer.Option(min=0.01, max=1e6, metavar="SECONDS", help="Length of an epoch.")
    ] = 10.0,
    granularity: Annotated[
        Granularity, typer.Option(help="Count bytes, or cache lines of 64 bytes.")
    ] = Granularity.BYTE,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where the results go.")
    ] = Path("strata-pageutil"),
    heap: Annotated[
        str | None,
        typer.Option(
            "--heap",
            metavar="NAME",
            help="Run it on `strata` or another of its heaps, and show sizes and stacks.",
        ),
    ] = None,
    lib: Annotated[
        Path | None, typer.Option("--lib", metavar="PATH", help="The libstrata.so to use.")
    ] = None,
    stacks: Annotated[
        bool,
        typer.Option("--stacks", help="Show sizes and stacks on the program's own malloc, too."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the JSON; the last line goes to stderr.")
    ] = False,
) -> None:
    from strata.pageutil import page
    from strata.pageutil.emulate import emulate, find_qemu
    from strata.pageutil.measure import measure
    from strata.pageutil.shared import SharedFile
    from strata.trace.command import find_tool

    find_qemu()
    find_tool("strata-pageutil.so")
    resolve(command[0], os.environ)
    page.prepare(output)
    preload = preloads(command, heap, lib, stacks)
    file = os.memfd_create("strata-pageutil", os.MFD_CLOEXEC)
    done = emulate(command, preload, file, epoch, granularity.value)
    result = measure(SharedFile(file), done.end_ns)
    os.close(file)
    tell_limits(result, command[0], done.outcome.status)
    text = page.write(output, command, done.outcome.status, result)
    if as_json:
        echo(text)
        say(last_line(result))
    else:
        show(result)
        count = len(result.epochs)
        epochs = f"{count:,} epochs" if count > 1 else "one epoch"
        blocks = ", size class and stack" if result.knows_blocks else ""
        echo(f"{output / 'index.html'}: {epochs}, by mapping{blocks}")
        echo(last_line(result))
    raise typer.Exit(done.outcome.status)


def add_to(app: typer.Typer) -> None:
    """Adds the command to the `strata` command."""
    app.command("pageutil", help=HELP, context_settings={"allow_interspersed_args": False})(
        pageutil_command
    )
