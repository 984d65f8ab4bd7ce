"""What moving values brings: CrestDB with values that stay and with values that move, in turn.
After figures 5 to 7 of HADES (Banakar et al., DIMES 2025). Writes docs/benchmarks/hades.md."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from strata.compare.statistics import interval
from strata.demo.hades import runs, swap
from strata.demo.hades.runs import Result
from strata.errors import StrataError
from strata.procfs import MemoryGroup

from strata_bench.groups import Group

GROUP = Group("hades", "Values that move", "", (), (), rounds=1)
MIXES = {"A": 2.0, "B": 3.0, "C": 4.0}  # what the paper reaches: utilization, times that of before
MEMORY, SPEED, P90, COLLECTOR, DEREF = 0.30, 0.99, 1.03, 0.01, 1.0
BACKENDS = ("pageout", "cold", "pressure", "cgroup", "none")
DAMON = (
    "`damon` is not here: the host has DAMON on. On Linux 6.12 in qemu (2026-11-27, 200,000"
    " keys), where `make test-kernel` tries it, 248 MiB fell"
    " to 43 within 45 s; `pageout` left 36.\n"
)
SWAP_MIB = 6144
JOIN = 'echo $$ >"$0" && exec "$@"'
# The kernel refuses a limit that it cannot page enough out for, which is the faster the less the
# program brings back meanwhile. So it stands still: it is the parent of the shell.
LOWER = (
    "kill -STOP $PPID; done=1; for i in $(seq 100); do "
    "if echo {bytes} >{file}; then done=0; break; fi; sleep 0.05; done 2>/dev/null; "
    "kill -CONT $PPID; exit $done"
)
ABOUT = """CrestDB ([crestdb](../crestdb.md)) with keys of 30 bytes and values of 1,024, with \
values that stay where malloc put them and with values that Strata moves \
([hotness](../hotness.md)), in turn. Requests are drawn from YCSB's Zipf distribution (0.99) \
before a run, one for ten keys, and replayed in a loop by two threads: some values are used again \
and again and most never, as in the paper, where 4 of 12 GiB are active. Both stores stand in \
memory, and one is measured for a fraction of a second while the other is stopped, in turns, so \
that what else goes on here meets both. Ratios are the median over the turns, with the quartiles. \
*Utilization*: unique bytes of values that were used in the time measured, by the 4 KiB pages they \
lie on. The paper's 10 million pairs do not fit this machine's time; a table below shows what the \
size changes. Memory is what is resident at the end.
"""


@dataclass(frozen=True)
class Sizes:
    turns: int
    seconds: float  # of a turn
    rounds: int  # where each measurement is a process of its own
    keys: int  # of the table of all structures
    large: int  # of memory and speed
    scale: tuple[int, ...]


FULL = Sizes(
    turns=14,
    seconds=0.35,
    rounds=3,
    keys=200_000,
    large=1_000_000,
    scale=(300_000, 1_000_000, 2_000_000),
)
QUICK = Sizes(turns=1, seconds=0.3, rounds=1, keys=20_000, large=100_000, scale=(20_000, 100_000))


@dataclass
class Pairs:
    """Of one row: both measurements of each turn."""

    label: str
    plain: list[Result] = field(default_factory=list)
    tidied: list[Result] = field(default_factory=list)

    def ratio(self, name: str) -> str:
        ratios = self._ratios(name)
        if len(ratios) < 2:
            return f"{ratios[0]:.2f}"
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return f"{middle:.2f} ({low:.2f} to {high:.2f})"

    def middle_ratio(self, name: str) -> float:
        return statistics.median(self._ratios(name))

    def middle(self, name: str, *, tidied: bool) -> float:
        values = sorted(getattr(r, name) for r in (self.tidied if tidied else self.plain))
        return float(values[len(values) // 2])

    def _ratios(self, name: str) -> list[float]:
        return [
            getattr(b, name) / getattr(a, name)
            for a, b in zip(self.plain, self.tidied, strict=True)
        ]


Say = Callable[[str], None]


def pairs(program: Path, label: str, sizes: Sizes, say: Say, **how: object) -> Pairs:
    found = Pairs(label)
    how["seconds"] = sizes.seconds
    with (
        runs.Standing(program, tidy=False, **how) as plain,
        runs.Standing(program, tidy=True, **how) as tidied,
    ):
        arms = [(plain, found.plain), (tidied, found.tidied)]
        for store, _ in arms:
            store.measure()  # when it has run up; to warm up again what the other one displaced
        for _ in range(sizes.turns):
            for store, into in arms:
                into.append(store.measure())
                if into[-1].missing:
                    raise StrataError(f"{label}: {into[-1].missing} keys were not found")
            arms.reverse()
    say(
        f"{label}: utilization {found.middle('page_utilization', tidied=False):.1f} "
        f"-> {found.middle('page_utilization', tidied=True):.1f} %"
    )
    return found


def structures(program: Path) -> list[str]:
    done = subprocess.run([str(program), "structures"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def _table(header: Sequence[str], left: int, rows: Sequence[Sequence[str]]) -> list[str]:
    rule = "|" + "---|" * left + "---:|" * (len(header) - left)
    return [f"| {' | '.join(header)} |", rule, *(f"| {' | '.join(r)} |" for r in rows), ""]


def _verdict(what: str, value: float, asked: str, met: bool) -> str:
    return f"- {what}: {value:.2f}, asked for {asked}: {'met' if met else 'missed'}."


def utilization(program: Path, sizes: Sizes, say: Say) -> list[str]:
    """Every structure under A, B and C, with memory plentiful."""
    rows, verdicts = [], []
    for mix, wanted in MIXES.items():
        worst = float("inf")
        for name in structures(program):
            p = pairs(
                program,
                f"{name}, YCSB-{mix}",
                sizes,
                say,
                structure=name,
                mix=mix,
                keys=sizes.keys,
                more=("--reclaim", "none"),
            )
            worst = min(worst, p.middle_ratio("page_utilization"))
            rows.append(
                (
                    name,
                    mix,
                    f"{p.middle('page_utilization', tidied=False):.1f} %",
                    f"{p.middle('page_utilization', tidied=True):.1f} %",
                    p.ratio("page_utilization"),
                    p.ratio("operations_per_second"),
                    p.ratio("p90_us"),
                )
            )
        verdicts.append(
            _verdict(
                f"YCSB-{mix}, utilization of the worst structure, times before",
                worst,
                f"≥ {wanted:.0f}",
                worst >= wanted,
            )
        )
    header = ("structure", "mix", "before", "tidied", "times", "operations / s", "p90")
    return [
        "## Utilization, all structures\n",
        f"{sizes.keys:,} keys.\n",
        *_table(header, 2, rows),
        *verdicts,
        "",
    ]


def memory(program: Path, sizes: Sizes, kind: str, say: Say) -> list[str]:
    """YCSB-C at several sizes, where cold values are paged out."""
    rows, verdicts = [], []
    for keys in sizes.scale:
        p = pairs(program, f"{keys:,} keys, swap on {kind}", sizes, say, keys=keys)
        rows.append(
            (
                f"{keys:,}",
                f"{p.middle('resident_mib', tidied=False):,.0f} MiB",
                f"{p.middle('resident_mib', tidied=True):,.0f} MiB",
                p.ratio("resident_mib"),
                f"{p.middle('page_utilization', tidied=False):.1f} → "
                f"{p.middle('page_utilization', tidied=True):.1f} %",
                p.ratio("operations_per_second"),
                p.ratio("p90_us"),
            )
        )
        if keys == sizes.large:
            got = p.middle_ratio("resident_mib")
            verdicts.append(
                _verdict(
                    f"{kind}: memory at {keys:,} keys, share of before",
                    got,
                    f"≤ {MEMORY:.2f}",
                    got <= MEMORY,
                )
            )
    header = ("keys", "plain", "tidied", "share", "utilization", "operations / s", "p90")
    return [f"## Memory, YCSB-C, swap on {kind}\n", *_table(header, 1, rows), *verdicts, ""]


def speed(program: Path, sizes: Sizes, say: Say) -> list[str]:
    """Nothing is paged out: what tidying itself costs, and brings."""
    p = pairs(program, "memory plentiful", sizes, say, keys=sizes.large, more=("--reclaim", "none"))
    q = pairs(
        program,
        "fresh requests",
        sizes,
        say,
        keys=sizes.large,
        more=("--reclaim", "none", "--fresh", "--run-up", "10"),
    )
    rows = [
        (
            what,
            each.ratio("operations_per_second"),
            each.ratio("p90_us"),
            f"{each.middle('page_utilization', tidied=False):.1f} → "
            f"{each.middle('page_utilization', tidied=True):.1f} %",
            f"{each.middle('collector_seconds', tidied=True):.2f} s",
        )
        for what, each in (("replayed", p), ("drawn anew (`--fresh`)", q))
    ]
    got, p90 = p.middle_ratio("operations_per_second"), p.middle_ratio("p90_us")
    header = ("requests", "operations / s", "p90", "utilization", "collector, run-up included")
    return [
        "## Speed, memory plentiful\n",
        f"YCSB-C, {sizes.large:,} keys, nothing is paged out.\n",
        *_table(header, 1, rows),
        _verdict("throughput", got, f"≥ {SPEED}", got >= SPEED),
        _verdict("p90", p90, f"≤ {P90}", p90 <= P90),
        "",
    ]


def backends(program: Path, sizes: Sizes, say: Say) -> list[str]:
    rows = []
    for name in BACKENDS:
        p = pairs(
            program, f"backend {name}", sizes, say, keys=sizes.large, more=("--reclaim", name)
        )
        rows.append(
            (
                f"`{name}`",
                f"{p.middle('resident_mib', tidied=True):,.0f} MiB",
                p.ratio("resident_mib"),
                p.ratio("operations_per_second"),
            )
        )
    header = ("backend", "tidied", "memory", "operations / s")
    return [
        "## Backends\n",
        f"YCSB-C, {sizes.large:,} keys, swap on zram.\n",
        *_table(header, 1, rows),
        DAMON,
    ]


def limited(program: Path, sizes: Sizes, say: Say) -> list[str]:
    """A cgroup limit of a third of the footprint, set when the store has run up."""
    head = ["## Under a limit of a third\n"]
    group = MemoryGroup.create(f"strata-hades-{os.getpid()}")
    if group is None:
        return [*head, "Not measured: no memory cgroup can be made here.\n"]
    prefix = ("sh", "-c", JOIN, str(group.procs))
    rows, kept = [], {}
    try:
        whole = runs.run(program, tidy=False, keys=sizes.large, seconds=0.1, prefix=prefix)
        third = int(whole.resident_mib / 3) << 20
        for tidy in (False, True):
            name = "tidied" if tidy else "plain"
            ratios: list[float] = []
            for _ in range(sizes.rounds):
                found = []
                for then in ("true", LOWER.format(bytes=third, file=group.limit)):
                    group.limit.write_text("-1")
                    more = ("--then", then)
                    found.append(
                        runs.run(
                            program,
                            tidy=tidy,
                            keys=sizes.large,
                            seconds=sizes.seconds * 3,
                            prefix=prefix,
                            more=more,
                        ).operations_per_second
                    )
                ratios.append(found[1] / found[0])
            kept[name] = interval(ratios).ratio
            rows.append((name, f"{kept[name]:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"))
            say(f"limit, {name}: {kept[name]:.2f}")
    except StrataError as error:
        return [*head, f"Not measured: {error}.\n"]
    finally:
        group.remove()
    about = (
        f"YCSB-C, {sizes.large:,} keys, swap on zram. The limit is set when the store has run up,"
        " so loading is not under it. Operations a second with the limit by those without.\n"
    )
    verdict = _verdict("tidied, with the limit", kept["tidied"], "≥ 0.98", kept["tidied"] >= 0.98)
    return [*head, about, *_table(("", "with the limit / without"), 1, rows), verdict, ""]


def dereference(folder: Path) -> list[str]:
    done = subprocess.run([str(folder / "deref")], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    over = found["guided_ns"] - found["plain_ns"]
    return [
        "## A use in a hot loop\n",
        f"`build/bench/deref`: {found['plain_ns']:.2f} ns by a plain pointer, "
        f"{found['guided_ns']:.2f} ns by a guide.\n",
        _verdict("nanoseconds over a plain pointer", over, f"≤ {DEREF:.0f}", over <= DEREF),
        "",
    ]


def steady(program: Path, sizes: Sizes, say: Say) -> list[str]:
    """The collector's share of a core once nothing is to gain, from two lengths of one run."""
    short, long = 1.0 if sizes is QUICK else 5.0, 3.0 if sizes is QUICK else 35.0
    used = [
        runs.run(
            program, tidy=True, keys=sizes.large, seconds=s, more=("--reclaim", "none")
        ).collector_seconds
        for s in (short, long)
    ]
    share = max(0.0, used[1] - used[0]) / (long - short)
    say(f"collector: {share:.4f} of a core")
    return [
        "## The collector at rest\n",
        f"{sizes.large:,} keys: {share:.2%} of a core in steady state, from runs of {short:.0f} "
        f"and {long:.0f} s.\n",
        f"- collector: {share:.4f} of a core, asked for ≤ {COLLECTOR}: "
        f"{'met' if share <= COLLECTOR else 'missed'}.",
        "",
    ]


def measure(program: Path, folder: Path, say: Say, *, quick: bool) -> list[str]:
    """The page's sections."""
    sizes = QUICK if quick else FULL
    body = [*speed(program, sizes, say), *utilization(program, sizes, say)]
    for kind in swap.KINDS:
        with swap.swap(SWAP_MIB, (kind,)) as space:
            if not space:
                body += [f"## Memory, YCSB-C, swap on {kind}\n", f"Not measured: {space.why}.\n"]
                continue
            body += memory(program, sizes, space.kind, say)
            if kind == "zram":
                body += [*backends(program, sizes, say), *limited(program, sizes, say)]
    return [*body, *steady(program, sizes, say), *dereference(folder)]


def page(body: Sequence[str], how: str) -> str:
    return "\n".join([f"# {GROUP.title}\n", ABOUT, how + "\n", *body]).rstrip() + "\n"
