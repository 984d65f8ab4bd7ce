"""`strata lifetimes`: profiles of lifetimes become a data set."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strata.errors import StrataError, remedy
from strata.learn.classes import NAMES
from strata.terminal import console, say

if TYPE_CHECKING:
    from strata.learn.cluster import Cluster
    from strata.learn.dataset import Merged

HELP = """Merge lifetime profiles into one data set, a Parquet file.

Each SOURCE is a profile or a folder of them (*.pb.gz, at any depth), as `strata run --learn` and
`strata profile --kind lifetime` write them, or a recording of `strata trace --stacks`.
docs/learning.md has the columns."""


def add_to(app: typer.Typer) -> None:
    app.command("lifetimes", help=HELP)(lifetimes)


def lifetimes(
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The data set to write.")
    ],
    test_share: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of the functions to hold out for the test.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed; another one holds out other functions.")] = 1,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Read on the workers of this Dask scheduler."),
    ] = None,
) -> None:
    from strata.learn import dataset

    split = dataset.Split(test_share, seed)
    with console(stderr=True).status("reading profiles"), ExitStack() as cleanup:
        if cluster is None:
            merged = dataset.merge(sources, output, split, say)
        else:
            workers = cleanup.enter_context(closing(join(cluster)))
            merged = dataset.merge(sources, output, split, say, workers.read_all)
    show(merged, output)


def join(address: str) -> Cluster:
    try:
        from strata.learn.cluster import Cluster
    except ImportError as error:
        raise StrataError(f"--cluster needs dask ({error}): {remedy('cluster')}") from error
    return Cluster(address)


def show(merged: Merged, output: Path) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("95 % of the objects die within")
    for name in ("contexts", "objects", "MiB"):
        table.add_column(name, justify="right")
    for label, contexts, objects, weight in merged.table.iter_rows():
        table.add_row(
            NAMES[label - 1], f"{contexts:,}", f"{objects:,.0f}", f"{weight / (1 << 20):,.1f}"
        )
    out = console()
    out.print(table)
    parts = ", ".join(f"{name} {count:,}" for name, count in merged.splits.items())
    left_out = f" ({merged.skipped} left out)" if merged.skipped else ""
    profiles = "profile" if merged.profiles == 1 else "profiles"
    out.print(f"{merged.profiles:,} {profiles}{left_out}; contexts: {parts}", soft_wrap=True)
    out.print(f"The data set: {output}", soft_wrap=True)
