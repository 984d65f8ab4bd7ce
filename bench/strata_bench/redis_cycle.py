"""The day of a Redis: filled, most keys deleted at random, at rest, refilled, read. What each phase
costs the server's own thread, how much memory rests, and what comes back on hugepages."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strata.procfs import CpuTime, cpu_times
from strata.redis import (
    Client,
    Measured,
    Pipeline,
    bulk,
    delete_pipeline,
    get_pipeline,
    set_pipeline,
)

from strata_bench.allocators import Allocator
from strata_bench.redis_load import kib_fields, server

SMALLEST, DOUBLINGS = 64, 6  # 64 B to 4 KiB, as many keys in each doubling
PIPELINE = 64
LANES = 2
DELETED = 0.7
PHASES = ("fill", "delete", "refill", "read")


@dataclass(frozen=True)
class Phase:
    """What the client saw, and what the server's threads spent meanwhile."""

    seen: Measured
    main: CpuTime
    others: CpuTime

    def fields(self, name: str) -> dict[str, str]:
        return {
            f"{name}_per_s": f"{self.seen.rate:.0f}",
            f"{name}_per_cpu_s": f"{self.seen.requests / max(self.main.seconds, 1e-3):.0f}",
            f"{name}_cpu_seconds": f"{self.main.seconds:.3f}",
            f"{name}_system_seconds": f"{self.main.system:.2f}",
            f"{name}_others_seconds": f"{self.others.seconds:.3f}",
            f"{name}_p50_us": f"{self.seen.percentile(50) * 1e6:.0f}",
            f"{name}_p99_us": f"{self.seen.percentile(99) * 1e6:.0f}",
        }


class Load:
    """Keys with values of fixed sizes, and the order in which each phase asks for them."""

    def __init__(self, keys: int) -> None:
        rng = random.Random(7)
        self.sizes = [int(SMALLEST * 2 ** rng.uniform(0, DOUBLINGS)) for _ in range(keys)]
        self.all = rng.sample(range(keys), keys)
        self.deleted = rng.sample(range(keys), int(keys * DELETED))
        self.refilled = rng.sample(self.deleted, len(self.deleted))
        self._pattern = rng.randbytes(2 * (SMALLEST << DOUBLINGS))

    def pipelines(self, verb: str, keys: list[int]) -> Iterator[Pipeline]:
        for at in range(0, len(keys), PIPELINE):
            chunk = keys[at : at + PIPELINE]
            names = [b"$11\r\nkey:%07d\r\n" % key for key in chunk]
            if verb == "DEL":
                yield delete_pipeline(names)
                continue
            values = [bulk(self._pattern[key % 997 :][: self.sizes[key]]) for key in chunk]
            yield (set_pipeline if verb == "SET" else get_pipeline)(names, values)

    def reads(self, seconds: float) -> Iterator[Pipeline]:
        """All keys in turn, and on from the first until the time has passed."""
        until = time.monotonic() + seconds
        while True:
            for pipeline in self.pipelines("GET", self.all):
                yield pipeline
                if time.monotonic() > until:
                    return


def measure(allocator: Allocator, keys: int, rest: float, read: float) -> dict[str, str]:
    """One cycle of one server, with so many seconds of rest and of reads."""
    load = Load(keys)
    with (
        server(allocator, {}, ("--disable-thp", "no")) as (process, _, port),
        Client(port, LANES) as client,
    ):
        rollup = Path(f"/proc/{process.pid}/smaps_rollup")
        phases: dict[str, Phase] = {}

        def run(name: str, pipelines: Iterator[Pipeline]) -> None:
            before = cpu_times(process.pid)
            seen = client.run(pipelines)
            after = cpu_times(process.pid)
            phases[name] = Phase(seen, after[0] - before[0], after[1] - before[1])

        run("fill", load.pipelines("SET", load.all))
        run("delete", load.pipelines("DEL", load.deleted))
        resting = cpu_times(process.pid)[1]
        time.sleep(rest)
        rest_cpu = cpu_times(process.pid)[1] - resting
        rested = kib_fields(rollup)
        run("refill", load.pipelines("SET", load.refilled))
        run("read", load.reads(read))
        ended = kib_fields(rollup)
    fields = {
        "program": "cycle",
        "keys": str(keys),
        "rested_rss_kib": str(rested["Rss"]),
        "rss_kib": str(ended["Rss"]),
        "coverage": f"{ended['AnonHugePages'] / max(1, ended['Anonymous']):.4f}",
        "rest_others_seconds": f"{rest_cpu.seconds:.3f}",
        "others_seconds": f"{sum(phase.others.seconds for phase in phases.values()):.3f}",
    }
    for name in PHASES:
        fields |= phases[name].fields(name)
    return fields
