"""`strata report`: the command line of the report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.control import ask
from strata.errors import StrataError
from strata.files import make_folder, write_file
from strata.processes import Process, find_process
from strata.terminal import console, in_a_line, say

HELP = """Explain a process's memory on one page.

Give a running process, by number or name, or a folder: an earlier report's, or one with files
that the library wrote (STRATA_STATS, STRATA_PROFILE). The page, index.html, and the data go to
the folder given with -o; a summary goes to the terminal."""
MOST_SECONDS = 3600


def add_to(app: typer.Typer) -> None:
    app.command("report", help=HELP)(report)


def report(
    target: Annotated[str, typer.Argument(metavar="PID|NAME|DIR", help="What to explain.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="DIR", help="Where to write. Default: strata-report-PID, or DIR."
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(min=0, max=MOST_SECONDS, help="How long to watch a process."),
    ] = 10.0,
) -> None:
    if not target:  # as of a variable that is not set; pathlib takes it for the current folder
        raise StrataError("expected a process or a folder, got an empty name")
    if Path(target).is_dir():
        draw(Path(target), out or Path(target))
        return
    if "/" in target:
        raise StrataError(f"{target}: no such folder")
    process = find_process(target)
    folder = out or Path(f"strata-report-{process.pid}")
    gather(process, folder, seconds)
    draw(folder, folder)


def gather(process: Process, folder: Path, seconds: float) -> None:
    """Watches a process, showing on stderr how far that is."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from strata.report.collect import Collector

    def ask_it(request: str, extra_seconds: float) -> bytes:
        return ask(process, request, extra_seconds)

    err = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    quiet = not err.is_terminal
    with Progress(*columns, console=err, transient=True, disable=quiet) as bar:
        task = bar.add_task(f"watching process {process.pid}", total=max(seconds, 0.001))

        def warn(message: str) -> None:
            bar.console.print(f"strata: {in_a_line(message)}", soft_wrap=True)

        def progress(done: float) -> None:
            bar.update(task, completed=done)

        Collector(process, ask_it, folder, progress, warn).run(seconds)


def draw(source: Path, folder: Path) -> None:
    """Writes the page of what `source` holds, and shows it in short."""
    from strata.report import build, collect, model, terminal

    collect.spare_strange_page(folder)
    told: list[str] = []

    def tell_once(why: str) -> None:
        if why not in told:
            told.append(why)
            say(why)

    recording = model.load(source, tell_once)
    if recording.number is not None:
        recording.runs = Process(recording.number).runs_strata()
    sections = build.sections(recording)
    page = folder / collect.PAGE_FILE
    if recording.others:
        others = ", ".join(str(pid) for pid in recording.others)
        console(stderr=True).print(
            f"strata: {source} also has statistics of {others}; this is {recording.pid}, "
            "which wrote last",
            soft_wrap=True,
        )
    make_folder(folder)
    write_file(page, build.page(recording, sections))
    out = console()
    out.print(terminal.summary(recording, sections))
    out.print(f"The page: {page}", soft_wrap=True)
