"""`strata trace`: records the allocations of a command, and prints what a trace holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from strata.elf import read_elf, why_not_preloadable
from strata.errors import StrataError, why_refused
from strata.files import UnreadableError, follow, open_file
from strata.launch import preload_value, resolve, run
from strata.library import checkouts, library_folders
from strata.terminal import say

LIBRARY = "libstrata-trace.so"
PREFIX = "STRATATRACE_"
TRACE_HELP = """Record every malloc and free of COMMAND in a trace file, or print what one holds.

The command runs as it is, on the malloc that it has. Other processes that it starts write traces of
their own, FILE.PID. Input, output, signals and the exit status are the command's."""


def find_tool(name: str) -> Path:
    """A part of ours that is built or installed beside libstrata.so."""
    candidates = []
    if named := os.environ.get("STRATA_LIB"):
        candidates.append(Path(named).absolute().parent / name)
    candidates += [root / "build" / "lib" / name for root in checkouts()]
    for folder in library_folders():
        candidates += [folder / name, folder.parent / "libexec" / "strata" / name]
    for path in candidates:
        if path.is_file():
            return path
    raise StrataError(
        f"{name} not found: build it with `make lib`, or name the libstrata.so beside it by "
        "STRATA_LIB"
    )


def is_trace(path: Path) -> bool:
    try:
        with open_file(path) as file:
            return file.read(4) == b"STB1"
    except (OSError, UnreadableError):
        return False


def others(output: Path) -> Iterator[Path]:
    """The traces beside this one, of other processes of the same command."""
    for path in sorted(output.parent.glob(f"{output.name}.*")):
        number = path.name[len(output.name) + 1 :]
        if number.replace(".", "").isdecimal() and is_trace(path):
            yield path


def make_room(output: Path) -> None:
    """Removes an earlier recording of this name. Anything else that is there stays."""
    if not output.parent.is_dir():
        raise StrataError(f"{output.parent}: no such directory")
    if output.is_dir():
        raise StrataError(f"{output}: is a directory")
    if not os.access(output.parent, os.W_OK):
        raise StrataError(f"{output.parent}: permission denied")
    if output.is_file():
        if not is_trace(output) and output.stat().st_size != 0:
            raise StrataError(f"{output}: exists, and is not a trace")
        output.unlink()
    for path in others(output):
        path.unlink()
    if not output.exists():
        # Told here, once, and not by each process that would have written there.
        try:
            output.touch()
            output.unlink()
        except OSError as error:
            raise StrataError(f"{output}: cannot be written: {why_refused(error)}") from error


def record(command: list[str], output: Path, stacks: bool) -> int:
    library = find_tool(LIBRARY)
    output = output.absolute()
    if output.is_symlink() and (output.is_file() or not output.exists()):
        output = Path(os.path.realpath(follow(output)))  # the link stays one
    make_room(output)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(PREFIX)}
    environment["LD_PRELOAD"] = preload_value(library, environment.get("LD_PRELOAD"))
    environment[f"{PREFIX}FILE"] = str(output)
    environment[f"{PREFIX}PARENT"] = str(os.getpid())
    if stacks:
        environment[f"{PREFIX}STACKS"] = "1"
    program = resolve(command[0], environment)
    facts = read_elf(library)
    obstacle = why_not_preloadable(program, facts) if facts is not None else None
    if obstacle is not None:
        raise StrataError(f"{obstacle}; it cannot be recorded", 126)
    outcome = run(program, command, environment, library, lambda _: None)
    if output.is_file():
        beside = list(others(output))
        more = f", and {len(beside)} of other processes beside it" if beside else ""
        from strata.stats import human

        say(f"trace: {output} ({human(output.stat().st_size)}){more}")
    elif output.exists():
        say(f"trace: written to {output}")
    elif beside := list(others(output)):
        say(f"no trace of the command itself; {len(beside)} of processes that it started")
    else:
        say("no trace: the command was killed early, allocates nothing, or is linked statically")
    return outcome.status


def add_to(app: typer.Typer) -> None:
    """Adds the command to the `strata` command."""

    @app.command("trace", help=TRACE_HELP, context_settings={"allow_interspersed_args": False})
    def trace_command(
        command: Annotated[
            list[str] | None, typer.Argument(metavar="-- COMMAND [ARGUMENT]...")
        ] = None,
        output: Annotated[
            Path | None, typer.Option("-o", "--output", metavar="FILE", help="The trace to write.")
        ] = None,
        stacks: Annotated[
            bool, typer.Option("--stacks", help="Record the call stack of each allocation, too.")
        ] = False,
        info: Annotated[
            Path | None, typer.Option("--info", metavar="FILE", help="Print what a trace holds.")
        ] = None,
        annotate: Annotated[
            Path | None,
            typer.Option(
                "--annotate",
                metavar="FILE",
                help="Copy this trace to -o, with the lifetime of each object.",
            ),
        ] = None,
    ) -> None:
        if annotate is not None:
            if command or stacks or info is not None or output is None:
                raise StrataError("--annotate FILE takes -o FILE and nothing else")
            from strata.trace.annotate import annotate as write_annotated

            write_annotated(annotate, output, say)
            return
        if info is not None:
            if command or output is not None or stacks:
                raise StrataError("--info prints a trace and takes nothing else")
            from strata.trace.info import show

            show(info, say)
            return
        if not command or output is None:
            raise StrataError(
                "expected -o FILE -- COMMAND, or --info FILE, or --annotate FILE -o FILE"
            )
        raise typer.Exit(record(command, output, stacks))
