"""Measures Strata against its peers and writes the results: build/bench/NAME.tsv and, with its
pictures, docs/benchmarks/NAME.md, where NAME is a group's or `works`. A run that leaves works,
peers or rounds out writes its page beside the TSV instead, so that a committed page always comes
from a whole run. docs/benchmarks.md, the page above them, is kept by hand; a test holds it to
them."""

from __future__ import annotations

import datetime
import shlex
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from strata.compare.statistics import MIN_ROUNDS as JUDGED_FROM
from strata_bench import (
    accuracy,
    allocators,
    bugs,
    classic_groups,
    contexts,
    cycle_group,
    execute,
    groups,
    hades,
    hoard_group,
    lifetimes_group,
    lint,
    loads,
    loads_model,
    machine,
    pageutil,
    plots,
    price,
    reap_groups,
    request_pools,
    server_group,
    taxonomy,
    traces,
)
from strata_bench.allocators import PEERS, STRATA
from strata_bench.plan import CASES, Case, Kind
from strata_bench.report import Report, figure
from strata_bench.results import Results, Run
from strata_bench.targets import Row, against_best, judge

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
PAGES = ROOT / "docs" / "benchmarks"
MIN_ROUNDS = 5
QUICK_ROUNDS = 2
GROUPS = (
    groups.GROUPS
    | server_group.GROUPS
    | cycle_group.GROUPS
    | taxonomy.GROUPS
    | hoard_group.GROUPS
    | reap_groups.GROUPS
    | classic_groups.GROUPS
    | lifetimes_group.GROUPS
    | {
        each.GROUP.name: each.GROUP
        for each in (accuracy, bugs, contexts, hades, lint, pageutil, price)
    }
)

console = Console()


def choose_cases(only: list[str]) -> list[Case]:
    """The works whose name is, or begins with, one of `only`; all of them without it."""
    chosen = [c for c in CASES if not only or any(c.name.startswith(o) for o in only)]
    if not chosen:
        raise typer.BadParameter(f"no such work; there are {', '.join(c.name for c in CASES)}")
    return chosen


def choose_peers(text: str | None) -> list[str]:
    if text is None:
        return list(PEERS)
    names = [n for n in text.split(",") if n]
    unknown = [n for n in names if n not in PEERS]
    if unknown:
        raise typer.BadParameter(f"unknown {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return [p for p in PEERS if p in names]


def parse_env(pairs: list[str]) -> dict[str, str]:
    """KEY=VALUE settings for Strata; the shell's own STRATA_ variables are not passed on."""
    wrong = [p for p in pairs if "=" not in p]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]} is not KEY=VALUE")
    return dict(p.split("=", 1) for p in pairs)


def say_case(case: Case, results: Results) -> str:
    """One line for a finished work."""
    value = results.median(case.name, STRATA, case.metric)
    found = against_best(results, case)
    behind = f", {found[1]}× {found[0]}" if found else ""
    return f"{case.name:20} strata {figure(value)} {case.unit}{behind}"


def make_progress() -> Progress:
    return Progress(
        TextColumn("{task.description:28}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def measure(cases: list[Case], field: allocators.Field, rounds: int, quick: bool) -> Results:
    results = Results()
    plan = [(c, execute.steps_of(c, field.allocators, rounds, quick)) for c in cases]
    programs = ROOT / "build" / "bench"
    with make_progress() as progress:
        task = progress.add_task("", total=sum(len(steps) for _, steps in plan))

        def done(run: Run) -> None:
            progress.update(task, advance=1, description=f"{run.case} {run.allocator}")
            if run.error:
                progress.console.print(f"[red]{run.case} {run.allocator}: {run.error}")

        for case, steps in plan:
            progress.update(task, description=case.name)
            execute.run_case(steps, programs, quick, results, done)
            progress.console.print(say_case(case, results), highlight=False)
    return results


def show_targets(rows: list[Row]) -> None:
    table = Table(title="Targets")
    for header in ("work", "target", "measured", ""):
        table.add_column(header)
    colours = {True: "green", False: "red", None: "yellow"}
    for row in rows:
        verdict = f"[{colours[row.met]}]{row.verdict}"
        table.add_row(row.work, row.target, row.measured, verdict)
    console.print(table)


def check_preload(field: allocators.Field) -> None:
    """Every library must really load: a silently ignored preload would measure glibc."""
    program = ROOT / "build" / "bench" / "tight"
    for allocator in list(field.allocators.values()):
        library = allocator.library
        if library is None or allocators.loads(library, allocator.environment(), program):
            continue
        if allocator.name.startswith(STRATA):
            raise typer.BadParameter(f"{library} cannot be preloaded")
        del field.allocators[allocator.name]
        field.skipped[allocator.name] = f"{library} cannot be preloaded"


def record_traces(group: groups.Group, lib: Path, out: Path) -> tuple[groups.Group, dict[str, str]]:
    """Records what the group replays; the group without what could not be recorded, and why."""
    lacking: dict[str, str] = {}
    for work in group.works:
        if work.case.kind is Kind.TRACE:
            console.print(f"bench: recording {work.case.program}", highlight=False)
            if why := traces.record(work.case.program, lib, out):
                lacking[work.case.name] = why
    works = tuple(w for w in group.works if w.case.name not in lacking)
    targets = tuple(t for t in group.targets if t.work not in lacking)
    return replace(group, works=works, targets=targets), lacking


def provide_loads(
    group: groups.Group, lib: Path, out: Path, *, quick: bool
) -> tuple[groups.Group, dict[str, str]]:
    """The group with the loads that can run here, and a model of them; why others cannot."""
    named = [w.case for w in group.works if w.case.kind is Kind.LOAD]
    lacking = {c.name: why for c in named if (why := loads.lacking(c.program, out))}
    learned = [w.case for w in group.works if loads_model.VARIANT.name in w.only]
    learned = [case for case in learned if case.name not in lacking]
    if learned:
        console.print("bench: recording the loads and training a model", highlight=False)
        if why := loads_model.provide(learned, lib, out, quick=quick):
            lacking[loads_model.VARIANT.name] = why
    works = tuple(w for w in group.works if w.case.name not in lacking)
    variants = tuple(v for v in group.variants if v.name not in lacking)
    return replace(group, works=works, variants=variants), lacking


def run_group(
    group: groups.Group, lib: Path, rounds: int | None, place: Path | None, quick: bool
) -> None:
    """Runs one group and writes its page, beside the TSV unless the run is whole."""
    out = ROOT / "build" / "bench"
    execute.build_programs(BENCH, out)
    missing = [w.case.program for w in group.works if w.case.kind is Kind.PROGRAM]
    missing = [name for name in missing if not (out / name).exists()]
    if missing:
        raise typer.BadParameter(f"there is no program {missing[0]}")
    if any(w.case.kind is Kind.SERVER for w in group.works):
        request_pools.build_modules()
    group, unprovided = provide_loads(group, lib, out, quick=quick)
    found, skipped = groups.prepare(group, lib, out)
    group, unrecorded = record_traces(group, lib, out)
    skipped |= unprovided | unrecorded
    for name, why in skipped.items():
        console.print(f"[yellow]bench: {name} is left out: {why}")
    if group.variants[0].name in skipped or len(found) < 2:
        raise typer.BadParameter(f"{group.name}: nothing is left to compare")
    count = rounds or (groups.QUICK_ROUNDS if quick else group.rounds)
    facts = machine.facts(ROOT)
    started = time.monotonic()
    with make_progress() as progress:
        task = progress.add_task(
            group.name,
            total=sum(
                len(groups.turns(group, work, found, number, count))
                for work in group.works
                for number in range(1, count + 1)
            ),
        )

        def done(run: Run) -> None:
            progress.update(task, advance=1, description=f"{run.case} {run.allocator}")

        results = groups.run(group, found, out, count, done, quick=quick)
    minutes = (time.monotonic() - started) / 60
    how = (
        f"`make bench GROUP={group.name}` on {datetime.date.today().isoformat()}, tree"
        f" {facts['tree']}, {facts['processor']}, THP mode {facts['THP mode']}, load before the"
        f" start {facts['load before the start']}: {count} interleaved rounds in {minutes:.1f}"
        " minutes."
    )
    if group.tables:
        judged = (
            "bold where it leaves 1 out"
            if count >= JUDGED_FROM
            else f"with fewer than {JUDGED_FROM} rounds nothing is judged (`open`)"
        )
        how += (
            " The first column is the median, the others are paired ratios to it, the geometric"
            f" mean with its 95 % bootstrap interval; {judged}. Where a figure is 0, the medians"
            " stand instead."
        )
    results.write_tsv(out / f"{group.name}.tsv", [w.case for w in group.works])
    whole = not quick and count >= group.rounds
    target = place or (PAGES if whole else out) / f"{group.name}.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = group.beside(found) if group.beside is not None else []
    text = groups.page(group, results, skipped, how, target.parent / "img", beside)
    if group.picture:
        request_pools.picture(found, target.parent / "img" / f"{group.name}.png")
    target.write_text(text)
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"bench: wrote {out / group.name}.tsv and {target}",
        highlight=False,
    )


def run_accuracy(lib: Path, place: Path | None, quick: bool) -> None:
    """Writes the page of the models' accuracy, beside the recordings unless the run is whole."""
    out = ROOT / "build" / "accuracy"
    started = time.monotonic()
    facts = machine.facts(ROOT)
    say = partial(console.print, highlight=False, soft_wrap=True)
    found = accuracy.run(lib, out, lambda line: say(f"bench: {line}"), quick=quick)
    if not found.rows:
        raise typer.BadParameter("accuracy: nothing could be recorded")
    how = (
        f"`make bench GROUP=accuracy` on {datetime.date.today().isoformat()}, tree"
        f" {facts['tree']}, {facts['processor']}: {(time.monotonic() - started) / 60:.1f} minutes."
    )
    whole = not quick and len(found.rates) == len(accuracy.SUBJECTS)
    target = place or (PAGES if whole else out) / "accuracy.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    text = accuracy.page(found, how)
    target.write_text(text)
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    say(f"bench: wrote {target}")


def run_hades(place: Path | None, quick: bool) -> None:
    """Writes the page of values that move; a quick one beside the programs."""
    out = ROOT / "build" / "bench"
    program = ROOT / "build" / "bin" / "crestdb"
    if not program.exists():
        raise typer.BadParameter(f"{program} is not there; `make crestdb` builds it")
    started = time.monotonic()
    facts = machine.facts(ROOT)
    say = partial(console.print, highlight=False, soft_wrap=True)
    execute.build_programs(BENCH, out, "deref")
    body = hades.measure(program, out, lambda line: say(f"bench: {line}"), quick=quick)
    how = (
        f"`make bench GROUP=hades` on {datetime.date.today().isoformat()}, tree"
        f" {facts['tree']}, {facts['processor']}: {(time.monotonic() - started) / 60:.1f} minutes;"
        " ratios are medians with quartiles."
    )
    target = place or (out if quick else PAGES) / "hades.md"
    text = hades.page(body, how)
    target.write_text(text)
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    say(f"bench: wrote {target}")


def run_pageutil(place: Path | None, quick: bool) -> None:
    """Writes the page of the stores' page utilization, beside its data unless the run is whole."""
    out = ROOT / "build" / "pageutil"
    started = time.monotonic()
    facts = machine.facts(ROOT)
    say = partial(console.print, highlight=False, soft_wrap=True)
    outcomes = pageutil.run(out, lambda line: say(f"bench: {line}"), quick=quick)
    if not outcomes:
        raise typer.BadParameter("pageutil: nothing could be measured")
    how = (
        f"`make bench GROUP=pageutil` on {datetime.date.today().isoformat()}, tree"
        f" {facts['tree']}, {facts['processor']}: {(time.monotonic() - started) / 60:.1f} minutes."
    )
    whole = not quick and len(outcomes) == 2 * len(pageutil.STORES)
    target = place or (PAGES if whole else out) / "pageutil.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    pageutil.draw(outcomes, target.parent / "img" / "pageutil.png")
    text = pageutil.page(outcomes, how)
    target.write_text(text)
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    say(f"bench: wrote {target}")


def run_lint(place: Path | None, quick: bool) -> None:
    """Writes the page of the errors found in seeded programs."""
    out = ROOT / "build" / "lint"
    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    facts = machine.facts(ROOT)
    say = partial(console.print, highlight=False, soft_wrap=True)
    rows = lint.run(out, lambda line: say(f"bench: {line}"), quick=quick)
    if not rows:
        raise typer.BadParameter("lint: nothing could be built")
    how = (
        f"`make bench GROUP=lint` on {datetime.date.today().isoformat()}, tree"
        f" {facts['tree']}, {facts['processor']}: {(time.monotonic() - started) / 60:.1f} minutes."
    )
    whole = not quick and len(rows) == len(lint.SUBJECTS)
    target = place or (PAGES if whole else out) / "lint.md"
    text = lint.page(rows, how)
    target.write_text(text)
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    say(f"bench: wrote {target}")


def main(
    lib: Annotated[Path, typer.Option(help="The libstrata.so to measure.")] = ROOT
    / "build/lib/libstrata.so",
    quick: Annotated[bool, typer.Option("--quick", help="Two small rounds.")] = False,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of each work.")] = None,
    group: Annotated[
        str | None, typer.Option(help=f"Only this experiment: {', '.join(GROUPS)}.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only works that begin with this; repeatable.")
    ] = None,
    peers: Annotated[
        str | None, typer.Option(help=f"Comma-separated, of {', '.join(PEERS)}.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE for Strata only; repeatable.")
    ] = None,
    docs: Annotated[Path | None, typer.Option(help="Where the page goes.")] = None,
    list_works: Annotated[bool, typer.Option("--list", help="Names the works and ends.")] = False,
) -> None:
    """Runs the benchmarks: every work in turn on Strata and its peers."""
    if list_works:
        for case in CASES:
            console.print(f"{case.name:20} {case.program} {' '.join(case.args)}", highlight=False)
        return
    lib = lib.resolve()
    if not lib.exists():
        raise typer.BadParameter(f"{lib} is not there; `make lib` builds it")
    if group is not None:
        if group not in GROUPS:
            raise typer.BadParameter(f"no such group; there are {', '.join(GROUPS)}")
        if only or peers or env:
            raise typer.BadParameter("--group stands alone: no --only, --peers or --env with it")
        if group == hades.GROUP.name:
            run_hades(docs, quick)
        elif group == accuracy.GROUP.name:
            run_accuracy(lib, docs, quick)
        elif group == pageutil.GROUP.name:
            run_pageutil(docs, quick)
        elif group == bugs.GROUP.name:
            bugs.write(BENCH, lib, docs, console, quick=quick)
        elif group == lint.GROUP.name:
            run_lint(docs, quick)
        elif group == price.GROUP.name:
            price.write(BENCH, lib, docs, console, quick=quick)
        elif group == contexts.GROUP.name:
            contexts.write(BENCH, lib, docs, console, quick=quick)
        else:
            run_group(GROUPS[group], lib, rounds, docs, quick)
        return
    rounds = rounds or MIN_ROUNDS
    cases = choose_cases(only or [])
    started = time.monotonic()
    out = ROOT / "build" / "bench"
    console.print("bench: building the programs", highlight=False)
    execute.build_programs(BENCH, out)
    field = allocators.find(
        lib,
        parse_env(env or []),
        choose_peers(peers),
        out,
        lambda line: console.print(f"bench: {line}", highlight=False),
    )
    check_preload(field)
    for name, why in field.skipped.items():
        console.print(f"[yellow]bench: {name} is left out: {why}")
    facts = machine.facts(ROOT)
    results = measure(cases, field, QUICK_ROUNDS if quick else rounds, quick)

    whole = not (quick or only or peers or env) and rounds >= MIN_ROUNDS
    page = docs or (PAGES if whole else out) / "works.md"
    results.write_tsv(out / "works.tsv", cases)
    images = plots.draw(results, page.parent / "img")
    rows = judge(results)
    facts["run time"] = f"{(time.monotonic() - started) / 60:.1f} minutes"
    command = "make bench" if whole and not docs else shlex.join(["bench/run.py", *sys.argv[1:]])
    date = datetime.date.today().isoformat()
    page.parent.mkdir(parents=True, exist_ok=True)
    report = Report(results, field, images, page)
    page.write_text(report.text(command, date, rows, facts))
    show_targets(rows)
    console.print(f"bench: wrote {out / 'works.tsv'} and {page}", highlight=False)
    if any(r.error for r in results.runs if r.allocator.startswith(STRATA)):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
