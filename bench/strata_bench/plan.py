"""What is measured: one Case for each program with its arguments, and how its figure is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from strata_bench.allocators import PEERS, STRATA, STRATA_KEEPING

NO_RELEASING = tuple(p for p in PEERS if p != "tcmalloc-releasing")


class Kind(Enum):
    PROGRAM = "program"
    REDIS = "redis"
    CYCLE = "cycle"  # redis through a day
    SERVER = "server"  # nginx or Apache
    TRACE = "trace"  # a replay of what was recorded from `program`
    LOAD = "load"  # one of bench/loads, watched from outside


@dataclass(frozen=True)
class Case:
    """A measured work.

    metric: the field of the result line that is compared; higher_is_better says which way.
    speed: counts in the first row of the targets. limit: the most it may be above the fastest peer.
    peers: those it runs with; peer_rounds caps their rounds where one run takes long.
    pooled: measures memory only, so several may run at once.
    quick: other arguments for --quick; quick_peers likewise.
    """

    name: str
    program: str
    args: tuple[str, ...]
    metric: str = "ns"
    unit: str = "ns"
    higher_is_better: bool = False
    speed: bool = False
    limit: float = 1.5
    peers: tuple[str, ...] = NO_RELEASING
    strata: tuple[str, ...] = (STRATA,)
    rounds: int | None = None
    peer_rounds: int | None = None
    pooled: bool = False
    pool_mib: int = 0
    quick: tuple[str, ...] = ("--scale=0.1",)
    quick_peers: tuple[str, ...] | None = None
    kind: Kind = Kind.PROGRAM
    timeout: float = 120.0

    def rounds_for(self, rounds: int, *, is_peer: bool) -> int:
        """How many of so many rounds it runs in."""
        own = rounds if self.rounds is None else min(rounds, self.rounds)
        return own if not is_peer or self.peer_rounds is None else min(own, self.peer_rounds)


def _speed(name: str, program: str, *args: str, limit: float = 1.5) -> Case:
    return Case(
        name, program, (*args, "--seconds=0.35"), speed=True, limit=limit, quick=("--scale=0.1",)
    )


def _both(name: str, program: str, *args: str, limit: float = 1.5) -> list[Case]:
    return [_speed(f"{name}-t{n}", program, *args, f"--threads={n}", limit=limit) for n in (1, 2)]


TIGHT_LIMIT = 1.8
FEW = ("glibc", "jemalloc", "mimalloc3")

SPEED = [
    *(
        _speed(f"tight-{size}-t1", "tight", f"--size={size}", limit=TIGHT_LIMIT)
        for size in (16, 64, 1024)
    ),
    _speed("tight-64-t2", "tight", "--size=64", "--threads=2", limit=TIGHT_LIMIT),
    *_both("batch-1000x64", "batch", "--count=1000", "--size=64"),
    *_both("batch-20000x400", "batch", "--count=20000", "--size=400"),
    *_both("replace", "replace"),
    *_both("replace-changing", "replace", "--mix=changing"),
    *_both("large", "large"),
    *_both("threadtest", "threadtest"),
    *_both("larson", "larson"),
]

OTHER = [
    Case(
        "prodcons",
        "prodcons",
        ("--seconds=1.5",),
        metric="mops",
        unit="Mobj/s",
        higher_is_better=True,
        peers=PEERS,
    ),
    Case(
        "prodcons-long",
        "prodcons",
        ("--ops=6e8",),
        metric="above_second_kib",
        unit="KiB above live",
        peers=(),
        rounds=1,
        quick=("--ops=6e6",),
        timeout=900,
    ),
    Case("cache-thrash-t2", "cache-thrash", ("--threads=2",)),
    Case("cache-scratch-t2", "cache-scratch", ("--threads=2",)),
    Case("tight-64-sized-new", "tight", ("--size=64", "--api=new", "--seconds=0.2")),
    *(
        Case(
            f"realloc-{how}",
            "reallocgrow",
            (f"--how={how}", "--seconds=0.3"),
        )
        for how in ("double", "append", "strings")
    ),
    # The same blocks written to in every page: what their memory costs when it is used.
    *(
        Case(f"large-used-t{n}", "large", (f"--threads={n}", "--touch=pages", "--seconds=0.35"))
        for n in (1, 2)
    ),
    Case("bysize", "bysize", ("--seconds=0.6",)),
    Case(
        "oscillation",
        "oscillation",
        ("--cycles=3", "--idle=2"),
        metric="rss_kib",
        unit="KiB held",
        peers=PEERS,
        rounds=2,
        peer_rounds=1,
        quick=("--cycles=2", "--idle=0.5", "--scale=0.1"),
        quick_peers=FEW,
    ),
    Case(
        "chase",
        "chase",
        ("--seconds=1",),
        unit="ns a hop",
        peers=("glibc", "mimalloc3", "tcmalloc"),
        quick=("--mib=256", "--seconds=0.3"),
        quick_peers=("glibc",),
    ),
    *(
        Case(
            f"burst-{which}",
            "burst",
            (f"--free={which}", "--idle=10"),
            metric="rss_kib",
            unit="KiB held",
            peers=PEERS,
            peer_rounds=1,
            pooled=True,
            pool_mib=1536,
            quick=("--scale=0.25",),
            quick_peers=FEW,
        )
        for which in ("oldest", "random")
    ),
    Case(
        "swing",
        "swing",
        ("--phase=2", "--cycles=2"),
        metric="mops",
        unit="Mop/s",
        higher_is_better=True,
        strata=(STRATA, STRATA_KEEPING),
        peers=("glibc", "jemalloc", "mimalloc3", "tcmalloc-releasing"),
        peer_rounds=1,
        quick=("--phase=0.5", "--cycles=1"),
        quick_peers=(),
    ),
    Case(
        "redis",
        "redis",
        ("300000",),
        metric="requests_per_cpu_s",
        unit="requests a server CPU second",
        higher_is_better=True,
        quick=("30000",),
        quick_peers=FEW,
        kind=Kind.REDIS,
        peers=PEERS,
    ),
    Case("startup", "startup", ("--runs=100",), metric="us", unit="us", quick=("--runs=20",)),
]

CASES = [*SPEED, *OTHER]
