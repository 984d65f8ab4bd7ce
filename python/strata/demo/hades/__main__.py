"""`python -m strata.demo.hades`: the same load on values that stay and on values that move."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from strata.demo import entry
from strata.demo.hades import picture, runs, swap
from strata.demo.hades.runs import Result
from strata.errors import StrataError
from strata.terminal import say

STRUCTURE = "harris-table"


@dataclass(frozen=True)
class Plan:
    keys: int
    seconds: float
    rounds: int
    swap_mib: int


FULL = Plan(keys=1_000_000, seconds=6, rounds=3, swap_mib=4096)
QUICK = Plan(keys=200_000, seconds=2, rounds=1, swap_mib=1024)


@dataclass(frozen=True)
class Arms:
    plain: list[Result]
    tidied: list[Result]

    def values(self, name: str) -> tuple[list[float], list[float]]:
        return [getattr(r, name) for r in self.plain], [getattr(r, name) for r in self.tidied]


def measure(program: Path, plan: Plan, folder: Path) -> Arms:
    """Both arms in turn, so that what disturbs the machine disturbs both."""
    arms = Arms([], [])
    for number in range(plan.rounds):
        for tidy, into in ((False, arms.plain), (True, arms.tidied)):
            name = "tidied" if tidy else "plain"
            say(f"round {number + 1} of {plan.rounds}: {name}, {plan.keys:,} keys")
            more = ("--map", str(folder / f"{name}.csv"))
            into.append(
                runs.run(
                    program,
                    tidy=tidy,
                    structure=STRUCTURE,
                    keys=plan.keys,
                    seconds=plan.seconds,
                    more=more,
                )
            )
            if into[-1].missing:
                raise StrataError(f"{into[-1].missing:,} keys were not found")
    return arms


def cell(values: list[float], form: str) -> str:
    ordered = sorted(values)
    middle = form.format(ordered[len(ordered) // 2])
    if len(ordered) == 1:
        return middle
    return f"{middle}  ({form.format(ordered[0])} to {form.format(ordered[-1])})"


ROWS = (
    ("operations_per_second", "operations a second", "{:,.0f}"),
    ("p90_us", "90 % end within, µs", "{:.2f}"),
    ("resident_mib", "memory in use, MiB", "{:,.0f}"),
    ("page_utilization", "used bytes of the used pages, %", "{:.1f}"),
)


def verdict(arms: Arms) -> str:
    """One sentence; nothing is said to be faster where the runs overlap."""
    plain, tidied = arms.values("operations_per_second")
    if len(plain) == 1:
        speed = f"{tidied[0] / plain[0]:.2f} times the throughput, which one round does not prove"
    elif min(tidied) > max(plain):
        speed = f"{min(tidied) / max(plain):.2f} times the throughput or more"
    elif max(tidied) < min(plain):
        speed = f"{max(tidied) / min(plain):.2f} of the throughput at best"
    else:
        speed = "the same throughput, as far as these runs tell"
    before, after = arms.values("resident_mib")
    share = sorted(after)[len(after) // 2] / sorted(before)[len(before) // 2]
    return f"Tidied: {share:.0%} of the memory, {speed}."


def show(console: Console, arms: Arms) -> None:
    table = Table(box=SIMPLE_HEAD)
    for column in ("", "plain", "tidied"):
        table.add_column(column, justify="left" if not column else "right")
    for name, label, form in ROWS:
        table.add_row(label, *(cell(values, form) for values in arms.values(name)))
    console.print(table)


def main(
    out: Annotated[Path, typer.Option(help="Where the picture and the figures go.")],
    program: Annotated[Path, typer.Option(help="crestdb.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer keys, one round.")] = False,
) -> None:
    """CrestDB under YCSB-C, once with values that stay and once with values that move."""
    began = time.monotonic()
    plan = QUICK if quick else FULL
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    with swap.swap(plan.swap_mib) as space:
        if not space:
            say(f"{space.why}: cold values stay in memory, so it will not fall")
        arms = measure(program, plan, out)
    maps = [pl.read_csv(out / f"{name}.csv") for name in ("plain", "tidied")]
    where = f"swap on {space.kind}" if space else "no swap"
    about = (
        f"CrestDB, {STRUCTURE}, YCSB-C, {plan.keys:,} keys of 30 bytes, "
        f"values of 1,024 bytes; {where}"
    )
    bars = [
        ("operations a second", arms.values("operations_per_second"), "{:,.0f}"),
        ("memory in use, MiB", arms.values("resident_mib"), "{:,.0f}"),
        ("used bytes of the used pages, %", arms.values("page_utilization"), "{:.1f}"),
    ]
    picture.draw(out / "hades.png", maps[0], maps[1], bars, about)
    for name in ("plain", "tidied"):
        (out / f"{name}.csv").unlink()
    figures = {
        "swap": space.kind,
        "plan": asdict(plan),
        "plain": [asdict(r) for r in arms.plain],
        "tidied": [asdict(r) for r in arms.tidied],
    }
    (out / "hades.json").write_text(json.dumps(figures, indent=1) + "\n")
    console.print(about)
    show(console, arms)
    console.print(verdict(arms))
    console.print(f"The address space, before and after: {out / 'hades.png'}")
    say(f"took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    entry.run(main, "make hades")
