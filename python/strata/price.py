"""`strata price`: who pays for memory. What each process on Strata with STRATA_PRICE=on owes and
has waited, and what growth costs it now. docs/price.md."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import typer

from strata.control import ask
from strata.errors import StrataError
from strata.processes import Process, find_process, strata_processes
from strata.report.document import as_number
from strata.terminal import console, echo

NAMES = (
    *("weight", "seconds_a_mib", "supply_bytes", "left_bytes", "debt_bytes"),
    *("waiting_threads", "waits", "waited_ns", "fork_waited_ns"),
)


@dataclass(frozen=True)
class Price:
    """The figures of one process, as its statistics have them."""

    on: bool
    weight: int
    seconds_a_mib: float
    supply: int
    left: int
    debt: int
    waiting: int
    waits: int
    waited_s: float
    fork_waited_s: float

    @property
    def state(self) -> str:
        if self.waiting:
            return f"{self.waiting} waiting" if self.waiting > 1 else "waits"
        return "pays nothing" if self.seconds_a_mib == 0 else "may pay"


def read(statistics: object) -> Price | None:
    """None from a library that knows of no price, or where the figures make no sense."""
    found = statistics.get("price") if isinstance(statistics, dict) else None
    if not isinstance(found, dict):
        return None
    figures = {name: as_number(found.get(name)) for name in NAMES}
    known = {name: value for name, value in figures.items() if value is not None}
    if len(known) < len(NAMES) or not isinstance(found.get("on"), bool):
        return None
    return Price(
        on=found["on"],
        weight=int(known["weight"]),
        seconds_a_mib=known["seconds_a_mib"],
        supply=int(known["supply_bytes"]),
        left=int(known["left_bytes"]),
        debt=int(known["debt_bytes"]),
        waiting=int(known["waiting_threads"]),
        waits=int(known["waits"]),
        waited_s=known["waited_ns"] / 1e9,
        fork_waited_s=known["fork_waited_ns"] / 1e9,
    )


def cost(seconds_a_mib: float) -> str:
    """What a MiB of growth costs."""
    if seconds_a_mib == 0:
        return "nothing"
    if seconds_a_mib < 1:
        return f"{1000 * seconds_a_mib:.0f} ms"
    return f"{seconds_a_mib:,.1f} s" if seconds_a_mib < 100 else f"{seconds_a_mib:,.0f} s"


def ask_price(process: Process) -> Price | None:
    """Of one of many: None if it is gone meanwhile, or one that we must not ask (`strata ps` says
    why)."""
    try:
        return read(json.loads(ask(process, "stats json")))
    except (StrataError, ValueError, RecursionError):
        return None


def price_command(
    target: Annotated[
        str | None, typer.Argument(metavar="[PID|NAME]", help="One process. Default: all.")
    ] = None,
) -> None:
    """Show what memory costs each process with STRATA_PRICE=on, and how long it has waited."""
    from rich.table import Table

    from strata.stats import human

    table = Table(
        "pid", "command", "weight", "left", "a MiB costs", "owes", "waits", "waited", "for forks",
        "now", box=None, pad_edge=False,
    )  # fmt: skip
    asked = [find_process(target)] if target is not None else list(strata_processes())
    if target is not None:
        ask(asked[0], "stats json")  # who cannot be asked is an error here
    off = 0
    for process in asked:
        price = ask_price(process)
        if price is None or not price.on:
            off += 1
            continue
        table.add_row(
            str(process.pid),
            process.name,
            str(price.weight),
            f"{human(price.left)} of {human(price.supply)}",
            cost(price.seconds_a_mib),
            human(price.debt),
            f"{price.waits:,}",
            f"{price.waited_s:,.1f} s",
            f"{price.fork_waited_s:,.1f} s",
            price.state,
        )
    if table.row_count:
        console().print(table)
    elif target is not None:
        pid = asked[0].pid
        echo(f"process {pid} has no STRATA_PRICE=on: `strata set {pid} price=on`")
    elif off:
        echo("no process that can be asked has STRATA_PRICE=on: `strata set PID price=on`")
    else:
        echo("no process that you can see runs on Strata")


def add_to(app: typer.Typer) -> None:
    app.command("price")(price_command)
