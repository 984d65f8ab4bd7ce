"""`python -m strata.demo`: runs the demo and writes the page."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from strata.demo import entry, memory, report
from strata.demo.measure import Arm, measure
from strata.demo.plan import FULL, QUICK, Load, Plan, Requests, draw
from strata.demo.server import Allocator, Server, find_libc, find_redis
from strata.errors import StrataError
from strata.library import find_library

HEADROOM = 1.6  # of the largest live data: what a server may need at its peak
THP_MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def check_memory(plan: Plan, load: Load) -> int:
    """Bytes that one server may need; an error if the machine has not got them free."""
    need = int(HEADROOM * max(load.live_bytes.values())) + plan.keys * 200
    free = memory.mem_available()
    if free < need:
        raise StrataError(
            f"the demo needs {need >> 20} MiB of free memory, here are {free >> 20} MiB; "
            "try --quick",
        )
    return need


def run_all(allocators: list[Allocator], plan: Plan, console: Console) -> tuple[list[Arm], Load]:
    """The same load on each allocator, in rounds that begin with another one each."""
    redis = find_redis()
    load = draw(plan)
    memory.warm_up(check_memory(plan, load))
    requests = Requests(plan)
    arms = {allocator.name: Arm(allocator.name) for allocator in allocators}
    columns = (
        TextColumn("[bold]{task.fields[where]:<22}[/bold]{task.description:<7}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, refresh_per_second=4, transient=True) as bar:
        for number in range(plan.rounds):
            first = number % len(allocators)
            task = bar.add_task("start", where="", total=1)

            def begin(phase: str, steps: int, at: TaskID = task) -> Callable[[int], None]:
                bar.reset(at, total=steps, description=phase)
                return lambda count: bar.advance(at, count)

            for allocator in allocators[first:] + allocators[:first]:
                where = f"{number + 1} of {plan.rounds}, {allocator.name}"
                bar.update(task, where=where, description="start")
                with Server(redis, allocator) as server:
                    run = measure(server, requests, plan, load, begin)
                arms[allocator.name].runs.append(run)
            bar.remove_task(task)
    return list(arms.values()), load


def print_table(arms: list[Arm], console: Console) -> None:
    """The rows that matter most; the page has the others."""
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("")
    for arm in arms:
        table.add_column(arm.name, justify="right")
    section = ""
    for row in report.table(arms):
        if not row.brief:
            continue
        if row.section != section:
            section = row.section
            table.add_section()
            table.add_row(f"[bold]{section}[/bold]")
        cells = [
            f"[green]{cell}[/green]" if at == row.best else cell
            for at, cell in enumerate(row.cells)
        ]
        table.add_row(f"  {row.label}", *cells)
    console.print(table)
    console.print(
        "A CPU second is one of the thread that serves the requests; p99 is that of a pipeline. In "
        f"brackets the lowest and the highest round, green where one leads. "
        f"{report.even_line(arms)}",
        highlight=False,
    )


def machine_line(redis: Path, arms: list[Arm]) -> str:
    """The machine and the versions, as far as they explain the figures."""
    shown = subprocess.run([redis, "--version"], capture_output=True, text=True, check=True).stdout
    version = next((word[2:] for word in shown.split() if word.startswith("v=")), "?")
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    try:
        mode = THP_MODE.read_text().partition("[")[2].partition("]")[0]
    except OSError:
        mode = "none"
    runs = [run for arm in arms for run in arm.runs]
    cache = next((run.cache_mode for run in runs if run.cache_mode), "unknown")
    options = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("STRATA_")]
    return (
        f"Redis {version} of this system, unmodified, without persistence; {os.cpu_count()} CPUs "
        f"({model}), Linux {platform.release()}, {platform.libc_ver()[1]} glibc, hugepages in mode "
        f"{mode}. Redis's own switch against hugepages (disable-thp) is off for all. "
        f"Strata's caches: {cache}"
        + (f"; options from the environment: {' '.join(options)}." if options else ".")
    )


def write_page(arms: list[Arm], load: Load, plan: Plan, out: Path) -> Path:
    """Draws the pictures and writes them, the raw figures and the page."""
    from strata.demo import figures, page  # matplotlib takes a second to load

    speed = figures.rates(arms)
    rss = figures.memory_over_time(arms, load)
    heap = figures.heap(arms)
    for picture in (speed, rss, heap):
        (out / f"{picture.name}.png").write_bytes(picture.wide)
    ours = [run for run in map(report.shown, arms) if run.snapshots["idle"].used is not None]
    names = [arm.name for arm in arms]
    html = page.render(
        names,
        f"The same Redis under the same load, on {report.join(names)} in turn, "
        f"{plan.rounds} times over, {time.strftime('%d %B %Y')}.",
        {
            "Work": report.work_sentence(arms),
            "Size": report.peak_sentence(arms),
            "Return": report.return_sentence(arms, load),
            "Hugepages": report.coverage_sentence(arms),
        },
        report.table(arms),
        [
            ("Requests", speed, [report.speed_sentence(arms)]),
            (
                "Memory over time",
                rss,
                [
                    f"{report.peak_sentence(arms)} {report.return_sentence(arms, load)} "
                    "A line for each round; dashed: keys and values.",
                    report.physical_sentence(arms),
                ],
            ),
            (
                "The heap's hugepages before and after the delete",
                heap,
                [
                    report.heap_sentence(arms),
                    *(report.used_sentence(run) for run in ours),
                    report.coverage_sentence(arms),
                ],
            ),
        ],
        [*report.setting_lines(plan), machine_line(find_redis(), arms)],
        report.even_line(arms),
    )
    path = out / "index.html"
    path.write_text(html, encoding="utf-8")
    write_data(arms, plan, out / "data.json")
    return path


def write_data(arms: list[Arm], plan: Plan, path: Path) -> None:
    """The raw figures, for whoever wants to draw them differently."""
    document = {
        "plan": asdict(plan),
        "runs": [
            {
                "allocator": run.name,
                "round": number,
                "peak_rss": run.peak_rss,
                "phases": {
                    name: {
                        "requests": phase.requests,
                        "seconds": phase.seconds,
                        "p50": phase.percentile(50),
                        "p99": phase.percentile(99),
                    }
                    for name, phase in run.phases.items()
                },
                "cpu": {name: asdict(spent) for name, spent in run.spent.items()},
                "spans": run.spans,
                "snapshots": {name: asdict(shot) for name, shot in run.snapshots.items()},
                "samples": [asdict(sample) for sample in run.samples],
            }
            for arm in arms
            for number, run in enumerate(arm.runs, 1)
        ],
    }
    path.write_text(json.dumps(document))


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write.")] = Path("out/demo"),
    lib: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The libstrata.so to show.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small load, two rounds.")] = False,
) -> None:
    """Run Redis on glibc's malloc, on jemalloc and on Strata under the same load; write a page."""
    plan = QUICK if quick else FULL
    library, _ = find_library(lib)
    find_redis()
    out.mkdir(parents=True, exist_ok=True)
    allocators = [
        Allocator("glibc", find_libc()),
        Allocator("jemalloc", None),
        Allocator("Strata", library),
    ]
    console = Console()
    console.print(
        f"Redis on {report.join([a.name for a in allocators])} in turn: fill {plan.keys:,} keys, "
        f"delete {plan.delete_share:.0%}, idle {plan.idle_seconds:g} s, refill, read; "
        f"{plan.rounds} rounds.",
        highlight=False,
    )
    arms, load = run_all(allocators, plan, console)
    print_table(arms, console)
    path = write_page(arms, load, plan, out)
    console.print(f"The page: {path}", highlight=False, soft_wrap=True)


def main() -> None:
    entry.run(demo, "strata.demo")


if __name__ == "__main__":
    main()
