"""What STRATA_CONTEXTS gains and costs: Redis under YCSB-C as in pageutil.py, its page utilization
in qemu-user and its memory and speed without; and bench/programs/hotcold.cpp, whose contexts differ
in heat by construction. Writes docs/benchmarks/contexts.md."""

from __future__ import annotations

import datetime
import json
import os
import re
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from strata.procfs import cpu_times, spent_since

from strata_bench import execute, machine, pageutil
from strata_bench.groups import Group
from strata_bench.redis_load import kib_fields, started

GROUP = Group("contexts", "Groups by calling context", "", (), (), rounds=5)
CONTEXTS = (0, 8, 32)
RECORDS, QUICK_RECORDS = 100_000, 4_000
READS, QUICK_READS = 200_000, 10_000
ROUNDS, QUICK_ROUNDS = 5, 2
FIGURE = re.compile(r"(\w+)=([\d.]+)")
ABOUT = """`STRATA_CONTEXTS=N` puts objects in N groups by the place that allocates them \
([hotness](../hotness.md#without-annotations)). Redis keeps records of 1,000 bytes as values and \
is read as YCSB-C does, by Zipf's law with 0.99, hot keys scattered: page utilization in one epoch \
of reads in qemu-user ([how](pageutil.md)); resident memory after the reads, and requests in a \
second of the server's CPU time, without. hotcold makes 100,000 hot objects of 96 bytes among a \
million cold ones of the same size in two places of its code: resident memory, the pages that its \
hot objects lie on, and the time of one step of a chase over them. Addresses are random, so with \
few groups both may fall into one: the figure is the median of the rounds.
"""


@dataclass
class Figures:
    """Of one number of contexts; a value a round."""

    utilization: float = 0
    pages: int = 0
    rss_mib: list[float] = field(default_factory=list)
    requests: list[float] = field(default_factory=list)
    hotcold: list[dict[str, float]] = field(default_factory=list)


def settings(lib: Path, contexts: int) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("STRATA_")}
    return kept | {"LD_PRELOAD": str(lib), "STRATA_CONTEXTS": str(contexts)}


def utilization(lib: Path, contexts: int, out: Path, *, quick: bool) -> tuple[float, int]:
    """Of an epoch of reads at an even pace, and the pages that they touched."""
    records = QUICK_RECORDS if quick else RECORDS
    epoch = pageutil.QUICK_EPOCH if quick else pageutil.EPOCH
    store, keys, folder = pageutil.Redis(), pageutil.Keys(records), out / f"contexts-{contexts}"
    rate = records / pageutil.SPARSE / epoch
    with pageutil.measured(store, folder, epoch, settings(lib, contexts)) as process:
        store.begin(process)
        store.fill(records)
        phase = pageutil.read_for(store, keys, 2.2 * epoch, rate, pageutil.EVEN)
    found = json.loads((folder / "pageutil.json").read_text())
    row = pageutil.outcome_of(store, records, phase, found).epoch
    return row["utilization"], row["pages"]


def serve(lib: Path, contexts: int, figures: Figures, *, quick: bool) -> None:
    """Redis itself: what it holds and how fast it answers."""
    records, reads = (QUICK_RECORDS, QUICK_READS) if quick else (RECORDS, READS)
    keys = pageutil.Keys(records)
    store = pageutil.Redis()
    with started(settings(lib, contexts)) as (process, _, port):
        store.begin_at(port, process)
        before = cpu_times(process.pid)
        store.fill(records)
        for _ in range(reads // pageutil.BATCH):
            store.read(keys.draw(pageutil.BATCH))
        figures.requests.append((records + reads) / spent_since(before, process.pid))
        status = kib_fields(Path(f"/proc/{process.pid}/status"))
        figures.rss_mib.append(status["VmRSS"] / 1024)


def chase(program: Path, lib: Path, contexts: int, figures: Figures, *, quick: bool) -> None:
    hot = ["--hot=10000", "--hops=1000000"] if quick else []
    done = subprocess.run(
        [program, *hot], env=settings(lib, contexts), check=True, capture_output=True, text=True
    )
    figures.hotcold.append({name: float(value) for name, value in FIGURE.findall(done.stdout)})


def spread(values: list[float], base: list[float]) -> str:
    """The geometric mean of the paired ratios, with the lowest and the highest."""
    ratios = [a / b for a, b in zip(values, base, strict=True)]
    mean = statistics.geometric_mean(ratios)
    return f"{mean:.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def page(found: dict[int, Figures], how: str) -> str:
    base = found[0]
    lines = [f"# {GROUP.title}\n", ABOUT, how + "\n",
             "Redis; ratios to `STRATA_CONTEXTS=0`, paired:\n",
             "| contexts | utilization | pages touched | resident | ratio | requests a CPU second |"
             " ratio |", "|---:|" + "---:|" * 6]  # fmt: skip
    for contexts, f in found.items():
        lines.append(
            f"| {contexts} | {100 * f.utilization:.1f} % | {f.pages:,} |"
            f" {statistics.median(f.rss_mib):.1f} MiB | {spread(f.rss_mib, base.rss_mib)} |"
            f" {statistics.median(f.requests):,.0f} | {spread(f.requests, base.requests)} |"
        )
    lines += ["\nhotcold:\n", "| contexts | pages of the hot objects | resident | ratio |"
              " a step | ratio |", "|---:|" + "---:|" * 5]  # fmt: skip
    for contexts, f in found.items():
        pages, rss, step = (
            [run[name] for run in f.hotcold] for name in ("hot_pages_kib", "rss_kib", "ns_per_hop")
        )
        rss_base, step_base = (
            [run[name] for run in base.hotcold] for name in ("rss_kib", "ns_per_hop")
        )
        lines.append(
            f"| {contexts} | {statistics.median(pages) / 1024:.1f} MiB |"
            f" {statistics.median(rss) / 1024:.1f} MiB | {spread(rss, rss_base)} |"
            f" {statistics.median(step):.2f} ns | {spread(step, step_base)} |"
        )
    return "\n".join(lines) + "\n"


def run(
    lib: Path, program: Path, out: Path, say: Callable[[str], None], *, quick: bool
) -> dict[int, Figures]:
    found = {contexts: Figures() for contexts in CONTEXTS}
    for at in range(QUICK_ROUNDS if quick else ROUNDS):
        say(f"Redis and hotcold, round {at + 1}")
        for contexts, figures in found.items():
            serve(lib, contexts, figures, quick=quick)
            chase(program, lib, contexts, figures, quick=quick)
    for contexts, figures in found.items():
        say(f"Redis in qemu-user, STRATA_CONTEXTS={contexts}")
        figures.utilization, figures.pages = utilization(lib, contexts, out, quick=quick)
    return found


def write(bench: Path, lib: Path, place: Path | None, console: Console, *, quick: bool) -> None:
    """Measures, and writes the page; a quick one lies beside its data."""
    root = bench.parent
    out = root / "build" / "contexts"
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    facts = machine.facts(root)

    def say(line: str) -> None:
        console.print(f"bench: {line}", highlight=False, soft_wrap=True)

    execute.build_programs(bench, root / "build" / "bench", "hotcold")
    found = run(lib, root / "build" / "bench" / "hotcold", out, say, quick=quick)
    how = (
        f"`make bench GROUP={GROUP.name}` on {datetime.date.today().isoformat()}, tree"
        f" {facts['tree']}, {facts['processor']}: {(time.monotonic() - began) / 60:.1f} minutes;"
        " ratios are the geometric mean over the rounds, with the lowest and the highest."
    )
    target = place or (out if quick else root / "docs" / "benchmarks") / "contexts.md"
    text = page(found, how)
    target.write_text(text)
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    say(f"wrote {target}")
