"""`strata simulate`: recorded or made-up items, through one packing policy after the other."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strata.errors import StrataError, why_refused
from strata.files import check_output
from strata.terminal import console, say

if TYPE_CHECKING:
    from rich.table import Table

    from strata.learn.model_file import Model
    from strata.simulate.core import Domain, Outcome
    from strata.simulate.items import Items
    from strata.simulate.ladder import Classes, Ladder

HELP = """Replay items that begin and end through packing policies, and compare what they hold.

Each FILE is a trace of `strata trace`, CSV, or Parquet. The items are objects
on hugepages, files on flash, or jobs on machines: docs/simulate.md."""
PICTURES = (".html", ".png", ".json")
TABLES = (".csv", ".parquet")
NOISE = 10.0
PAGES = 256  # of an erase block
MOST_BLOCKS = 1 << 18
NS = 1e9


class Kind(StrEnum):
    HEAP = "heap"
    FLASH = "flash"
    JOBS = "jobs"


class Made(StrEnum):
    FLASH = "flash"
    JOBS = "jobs"


@dataclass(frozen=True)
class Simulation:
    """What all policies did with the items of one file."""

    items: Items
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    domain: Domain
    ladder: Ladder
    deadline: int
    full: float
    noise: tuple[float, ...]
    seed: int
    parts: int
    model: Model | None


def blocks_for(items: Items, full: float, classes: int) -> int:
    """Of a device which the files fill to so many percent when they need the most; but each class
    has room to be written and cleaned."""
    import polars as pl

    frame = items.frame
    steps = pl.concat(
        [
            frame.select(at="first", change="size"),
            frame.drop_nulls("last").select(at="last", change=-pl.col("size")),
        ]
    )
    needed = steps.sort("at", "change").select(pl.col("change").cum_sum().max())
    most = int(needed.item())
    blocks = max(int(most / (full / 100) / PAGES) + 1, most // PAGES + 2 * classes + 3)
    if blocks > MOST_BLOCKS:
        raise StrataError(f"{items.name}: {most:,} pages at once are too many; sizes are pages")
    return blocks


def says(model: Model, items: Items, ladder: Ladder) -> Classes | None:
    from strata.simulate.model import predicted

    if not items.stacks:
        say(f"{items.name}: no stacks, so --model has nothing to go by; record with --stacks")
        return None
    return predicted(items, ladder, model)


def simulated(items: Items, plan: Plan) -> Simulation:
    from strata.simulate.core import Domain, Setting, simulate, write_events
    from strata.simulate.policies import rows

    modelled = says(plan.model, items, plan.ladder) if plan.model is not None else None
    blocks = blocks_for(items, plan.full, plan.ladder.count) if plan.domain is Domain.FLASH else 0
    setting = Setting(plan.domain, plan.deadline, blocks, plan.parts)
    outcomes, notes = [], []
    with tempfile.TemporaryDirectory(prefix="strata-simulate-") as folder:
        events = Path(folder, "items.events")
        write_events(items, events)
        for row in rows(plan.domain, items, plan.ladder, plan.noise, plan.seed, modelled):
            done = simulate(row.name, row.policy, events, row.classes, row.ladder, setting)
            outcomes.append(done)
            if row.note is not None:
                notes.append(row.note)
    return Simulation(items, tuple(outcomes), tuple(notes))


def table(domain: Domain, outcomes: tuple[Outcome, ...]) -> Table:
    from rich.table import Table

    from strata.simulate.page import COLUMNS, cells

    view = Table(box=None, pad_edge=False)
    view.add_column("policy", no_wrap=True)
    for column in COLUMNS[domain]:
        view.add_column(column, justify="right", no_wrap=True)
    for outcome in outcomes:
        view.add_row(outcome.policy, *cells(domain, outcome))
    return view


def heading(simulation: Simulation) -> str:
    from strata.report.page import plural
    from strata.simulate.page import unit_of

    seconds = max(outcome.parts[-1][0] for outcome in simulation.outcomes) / NS
    unit, name = unit_of(seconds)
    took = f"{seconds / unit:.4g}"
    lasted = f"{took} {name.removesuffix('s') if took == '1' else name}"
    return f"{simulation.items.name}: {plural(simulation.items.frame.height, 'item')} in {lasted}"


def gather(files: list[Path], made: Made | None, seed: int) -> list[Items]:
    from strata.simulate import generate, items

    if made is not None:
        if files:
            raise StrataError("--generate makes its items and takes no FILE")
        return [generate.flash(seed) if made is Made.FLASH else generate.jobs(seed)]
    if not files:
        raise StrataError("expected FILE..., or --generate flash, or --generate jobs")
    return [items.read(path) for path in files]


def check_outputs(output: Path | None, saved: Path | None) -> None:
    """Before the work: what cannot be written is told before minutes are spent."""
    for path, endings in ((output, PICTURES), (saved, TABLES)):
        if path is None:
            continue
        if path.suffix not in endings:
            raise StrataError(f"{path}: expected a name that ends in {', '.join(endings)}")
        check_output(path)


def save(items: Items, path: Path) -> None:
    """As a table that the command reads."""
    import polars as pl

    rows = items.frame.select(pl.col("start") / NS, pl.col("end") / NS, "size", "context")
    try:
        if path.suffix == ".csv":
            rows.write_csv(path)
        else:
            rows.write_parquet(path)
    except OSError as error:
        raise StrataError(f"{path}: {why_refused(error)}") from error


def simulate_command(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE...")] = None,
    domain: Annotated[Kind, typer.Option(help="What the items are.")] = Kind.HEAP,
    made: Annotated[
        Made | None, typer.Option("--generate", help="Make up items instead of reading FILE.")
    ] = None,
    save_to: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Write the made-up items, .csv or .parquet."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="FILE", help="Add a row for this model of `strata train`."),
    ] = None,
    noise: Annotated[
        list[float] | None,
        typer.Option(
            min=0,
            max=100,
            help="Add a row with so many percent of the oracle's answers wrong; repeatable.",
        ),
    ] = None,
    base: Annotated[
        float | None,
        typer.Option(min=1e-9, max=1e9, help="Upper bound of the shortest class, in seconds."),
    ] = None,
    ratio: Annotated[
        int | None,
        typer.Option(
            min=2, max=1 << 20, help="How many times longer each class is than the one before."
        ),
    ] = None,
    classes: Annotated[
        int | None,
        typer.Option(min=1, max=16, help="Number of classes of lifetimes; the last has no bound."),
    ] = None,
    deadline: Annotated[
        int, typer.Option(min=1, max=1000, help="Deadline of a bin, in bounds of its class.")
    ] = 2,
    full: Annotated[
        float, typer.Option(min=1, max=99, help="How full of files the flash gets, in percent.")
    ] = 80.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of --generate and --noise.")] = 1,
    parts: Annotated[int, typer.Option(min=2, max=100_000, help="Points in the picture.")] = 200,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Draw it: .html or .png; or .json."),
    ] = None,
) -> None:
    if save_to is not None and made is None:
        raise StrataError("--save goes with --generate")
    check_outputs(output, save_to)
    for name, value in (("--base", base), ("--full", full)):
        if value is not None and math.isnan(value):
            raise StrataError(f"{name} {value}: expected a number")
    from strata.simulate.core import PROGRAM, Domain
    from strata.simulate.ladder import Ladder
    from strata.simulate.page import write
    from strata.simulate.policies import LADDERS
    from strata.trace.command import find_tool

    place = Domain(made.value if made is not None else domain.value)
    usual = LADDERS[place]
    ladder = Ladder(
        round(base * NS) if base is not None else usual.base,
        ratio or usual.ratio,
        classes or usual.count,
    )
    loaded = None
    if model is not None:
        from strata.learn import model_file

        loaded = model_file.load(model)
    spoiled = tuple(noise if noise is not None else [NOISE])
    plan = Plan(place, ladder, deadline, full, spoiled, seed, parts, loaded)
    find_tool(PROGRAM)  # before the work
    out = console(soft_wrap=True)
    done = []
    for items in gather(files or [], made, seed):
        if save_to is not None:
            save(items, save_to)
        for note in items.notes:
            say(note)
        with console(stderr=True).status(f"replaying {items.name}"):
            done.append(simulated(items, plan))
        out.print(heading(done[-1]))
        out.print(table(place, done[-1].outcomes))
        for note in done[-1].notes:
            out.print(note)
    if output is not None:
        write(output, place, done)
        out.print(f"{output}: over time")


def add_to(app: typer.Typer) -> None:
    """Adds the command to the `strata` command."""
    app.command("simulate", help=HELP)(simulate_command)
