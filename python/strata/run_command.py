"""The command `strata run`."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from strata.elf import uses_musl, why_not_preloadable
from strata.errors import StrataError
from strata.files import UnreadableError, open_file
from strata.launch import Outcome, preload_value, resolve, run, without_strata
from strata.learn.record import Recording
from strata.library import DEFAULT_HEAP, find_heap, is_for_musl, musl_library
from strata.settings import check as check_settings
from strata.terminal import say

GLIBC = "glibc"  # of --heap: the malloc that the command has without us
OPTION_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
HELP = """Run COMMAND on Strata's malloc.

COMMAND and what it starts run with the preload. Input, output, signals and the exit status stay
its own (128+n if signal n ended it). Exit status 2: wrong use; 126: COMMAND cannot be executed;
127: it was not found."""


class Cache(StrEnum):
    AUTO = "auto"
    CPU = "cpu"
    THREAD = "thread"


class Switch(StrEnum):
    ON = "on"
    OFF = "off"


def parse_setting(text: str) -> tuple[str, str]:
    """`NAME=VALUE` as the pair for the environment, with or without the STRATA_ in front."""
    name, equals, value = text.partition("=")
    name = name.upper().removeprefix("STRATA_")
    if not equals or not OPTION_NAME.fullmatch(name):
        raise StrataError(f"--set {text!r}: expected NAME=VALUE, for example HEAP_LIMIT=2G")
    return f"STRATA_{name}", value


def child_environment(
    base: Mapping[str, str],
    library: Path | None,
    cache: Cache | None,
    release: Switch | None,
    settings: list[str],
) -> dict[str, str]:
    """The environment of the command: ours, the preload (none for glibc), and the options given."""
    environment = dict(base)
    if library is not None:
        environment["LD_PRELOAD"] = preload_value(library, base.get("LD_PRELOAD"))
    elif "LD_PRELOAD" in base:
        environment["LD_PRELOAD"] = without_strata(base["LD_PRELOAD"])
    if cache is not None:
        environment["STRATA_CACHE"] = cache.value
    if release is not None:
        environment["STRATA_RELEASE"] = release.value
    environment.update(parse_setting(text) for text in settings)
    return environment


def check_without_options(
    heap: str, cache: Cache | None, release: Switch | None, settings: list[str]
) -> None:
    """Refuses what only Strata itself has."""
    given = (("--cache", cache), ("--release", release), ("--set", settings))
    for option, value in given:
        if value:
            raise StrataError(
                f"{option} goes with Strata's own heap; the heap {heap} has no options"
            )


def print_stats(path: Path, outcome: Outcome, expected: bool) -> None:
    """Shows what the library wrote at the end of the command, or says why there is nothing."""
    if not path.exists():
        if not expected:
            return  # the reason was reported at the start
        if outcome.killed_by:
            say(f"no stats: {outcome.killed_by} ended the command before it could write any")
        else:
            say("no stats: the command ended by _exit, or the library was not loaded into it")
        return
    text = path.read_text(errors="replace")
    of = re.match(r"strata \S+, pid (\d+)\n", text)
    if of is None:
        say("the library's stats are malformed")
        return
    if int(of[1]) != outcome.pid:
        say(f"the command wrote no stats; these are of its child process {of[1]}")
    sys.stderr.write(text)


def run_command(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND [ARGUMENT]...")],
    stats: Annotated[
        bool, typer.Option("--stats", help="Print the allocator's figures on stderr at the end.")
    ] = False,
    heap: Annotated[
        str,
        typer.Option(
            "--heap",
            metavar="NAME",
            help="Another heap: hoard, kingsley, lea, llama, obstack, reap, glibc (docs/heaps.md).",
        ),
    ] = DEFAULT_HEAP,
    lib: Annotated[
        Path | None, typer.Option("--lib", metavar="PATH", help="The libstrata.so to use.")
    ] = None,
    cache: Annotated[
        Cache | None,
        typer.Option(help="Use one cache per CPU or per thread; auto takes what works here."),
    ] = None,
    release: Annotated[
        Switch | None, typer.Option(help="Give free memory back to the system by itself.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set option STRATA_NAME; repeatable."),
    ] = None,
    priced: Annotated[
        bool,
        typer.Option("--price", help="Make growth wait while memory is scarce (docs/price.md)."),
    ] = False,
    learn: Annotated[
        Path | None,
        typer.Option(
            "--learn", metavar="DIR", help="Record lifetimes in DIR, for `strata lifetimes`."
        ),
    ] = None,
    learn_minutes: Annotated[
        float, typer.Option(min=0.01, max=1440, help="How often --learn writes.")
    ] = 5.0,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            metavar="FILE",
            help="Keep apart what will last, as this model of `strata train` says.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Check every block for memory errors; slow (docs/errors.md)."),
    ] = False,
    guard: Annotated[
        str | None,
        typer.Option("--guard", metavar="1/N", help="Guard one of N blocks against memory errors."),
    ] = None,
) -> None:
    set_ = [*(set_ or []), *(["PRICE=on"] if priced else [])]
    library, facts = (None, None) if heap == GLIBC else find_heap(heap, lib)
    if heap != DEFAULT_HEAP:
        check_without_options(heap, cache, release, set_ or [])
        if stats:
            say(f"no stats: the heap {heap} keeps none")
            stats = False
    environment = child_environment(os.environ, library, cache, release, set_ or [])
    program = resolve(command[0], environment)
    if (
        library is not None
        and heap == DEFAULT_HEAP
        and not is_for_musl(library)
        and uses_musl(program)
    ):
        other = musl_library(library)
        if other is not None:
            library, facts = other
            environment = child_environment(os.environ, library, cache, release, set_ or [])
    obstacle = None
    if library is not None and facts is not None:
        obstacle = why_not_preloadable(program, facts, for_musl=is_for_musl(library))
    if obstacle is not None:
        say(f"{obstacle}; running it without Strata")
    if set_:  # these alone: what the shell has set, the library itself warns of
        given = dict(parse_setting(text) for text in set_)
        foreign = {k: v for k, v in os.environ.items() if not k.startswith("STRATA_")}
        check_settings(foreign | given | {"LD_PRELOAD": str(library)}, "--set")
    name = library.name if library is not None else GLIBC
    with ExitStack() as cleanup:
        stats_path = None
        if stats:
            if any(parse_setting(text)[0] == "STRATA_STATS" for text in set_ or []):
                raise StrataError("--stats and --set STATS=... cannot be used together")
            folder = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="strata-run-"))
            stats_path = Path(folder, "stats.txt")
            environment["STRATA_STATS"] = str(stats_path)
        recording = None
        if learn is not None:
            recording = begin_learning(learn, program, heap, set_ or [])
            environment |= recording.environment(learn_minutes)
        if model is not None:
            environment |= with_model(model, heap, set_ or [])
        environment |= with_error_options(check, guard, heap, set_ or [])
        outcome = run(
            program,
            command,
            environment,
            library,
            lambda pid: (
                None
                if obstacle
                else say(f"process {pid} ({command[0]}) runs without {name}: it was not loaded")
            ),
        )
        if stats_path is not None:
            print_stats(stats_path, outcome, expected=obstacle is None)
        if recording is not None and recording.name_functions(say) == 0 and obstacle is None:
            say(f"--learn: no process of {command[0]} wrote lifetimes to {learn}")
    raise typer.Exit(outcome.status)


def with_model(file: Path, heap: str, given: list[str]) -> dict[str, str]:
    if heap != DEFAULT_HEAP:
        raise StrataError(f"--model: the heap {heap} takes none")
    for text in given:
        if parse_setting(text)[0] in ("STRATA_MODEL", "STRATA_LIFETIMES"):
            raise StrataError(f"--model and --set {text} cannot be used together")
    try:
        open_file(file).close()
    except UnreadableError as error:
        raise StrataError(f"--model {file}: {error}") from error
    return {"STRATA_MODEL": str(file.absolute()), "STRATA_LIFETIMES": "model"}


def with_error_options(
    check: bool, guard: str | None, heap: str, given: list[str]
) -> dict[str, str]:
    wanted = {"STRATA_CHECK": "on"} if check else {}
    if guard is not None:
        if not re.fullmatch(r"1/[1-9][0-9]*|on|off", guard):
            raise StrataError(f"--guard={guard}: it takes 1/N, on or off")
        wanted["STRATA_GUARD"] = guard
    for name in wanted:
        option = "--" + name.removeprefix("STRATA_").lower()
        if heap != DEFAULT_HEAP:
            raise StrataError(f"{option}: only Strata's own heap finds memory errors")
        if any(parse_setting(text)[0] == name for text in given):
            raise StrataError(f"{option} and --set {name} cannot be used together")
    return wanted


def begin_learning(folder: Path, program: Path, heap: str, given: list[str]) -> Recording:
    if heap != DEFAULT_HEAP:
        raise StrataError(f"--learn: the heap {heap} takes no samples")
    taken = {"STRATA_PROFILE", "STRATA_PROFILE_INTERVAL"}
    for text in given:
        if parse_setting(text)[0] in taken:
            raise StrataError(f"--learn and --set {text} cannot be used together")
    return Recording(folder, program.name)


def add_to(app: typer.Typer) -> None:
    settings = {"allow_interspersed_args": False}
    app.command("run", help=HELP, context_settings=settings, no_args_is_help=False)(run_command)
