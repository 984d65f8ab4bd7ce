"""Runs the whole load against one server, some times over for each allocator, and keeps what was
seen. While a phase runs nobody looks at the heap; between two phases all are walked alike."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from strata.demo import memory
from strata.demo.plan import Load, Plan, Requests
from strata.demo.server import Server
from strata.errors import StrataError
from strata.redis import Client, Measured

SAMPLE_SECONDS = 0.25
WALK_EVERY = 8  # without a cgroup, hugepages are counted by a walk that the server feels


@dataclass(frozen=True)
class Sample:
    """The server's memory at one moment."""

    at: float  # seconds on the monotonic clock
    rss: int
    physical: int  # the cgroup's usage, or how much less memory is free than at the start
    huge: int | None
    minor_faults: int


@dataclass(frozen=True)
class Snapshot:
    """The server's memory between two phases, in more detail."""

    rss: int
    physical: int
    anonymous: int
    huge: int
    minor_faults: int
    occupancy: dict[int, int]  # resident 4 KiB pages by number of the 2 MiB range
    used: list[tuple[int, int]] | None  # Strata's own: (used, resident) 8 KiB pages a hugepage

    @property
    def coverage(self) -> float:
        return self.huge / self.anonymous if self.anonymous else 0.0


@dataclass(frozen=True)
class Spent:
    """CPU time of a phase: of the thread that serves the requests, and of all others."""

    serving: memory.CpuTime
    others: memory.CpuTime


@dataclass
class Run:
    """Everything measured of one server."""

    name: str
    in_cgroup: bool = False
    cache_mode: str | None = None
    phases: dict[str, Measured] = field(default_factory=dict)
    spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    spent: dict[str, Spent] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    peak_rss: int = 0

    @property
    def peak_physical(self) -> int:
        seen = [sample.physical for sample in self.samples]
        return max([*seen, *(snapshot.physical for snapshot in self.snapshots.values())])


@dataclass
class Arm:
    """All rounds of one allocator."""

    name: str
    runs: list[Run] = field(default_factory=list)


class Sampler(threading.Thread):
    """Reads the counters four times a second until stopped."""

    def __init__(self, server: Server, free_at_start: int) -> None:
        super().__init__(daemon=True, name="sampler")
        self._server = server
        self._free_at_start = free_at_start
        self._done = threading.Event()
        self._count = 0
        self._huge: int | None = None
        self.samples: list[Sample] = []

    def physical(self) -> int:
        group = self._server.group
        return group.usage() if group else max(0, self._free_at_start - memory.mem_free())

    def sample(self) -> Sample:
        usage = memory.usage(self._server.pid)
        group = self._server.group
        if group is not None:
            self._huge = group.huge()
        elif self._count % WALK_EVERY == 0:
            self._huge = memory.rollup(self._server.pid).get("AnonHugePages")
        self._count += 1
        now = time.monotonic()
        return Sample(now, usage.rss, self.physical(), self._huge, usage.minor_faults)

    def run(self) -> None:
        due = time.monotonic()
        while True:
            try:
                self.samples.append(self.sample())
            except (OSError, ValueError, IndexError):
                return  # the server has ended; the client reports it
            due = max(due + SAMPLE_SECONDS, time.monotonic())
            if self._done.wait(due - time.monotonic()):
                return

    def stop(self) -> None:
        self._done.set()
        self.join()


def _snapshot(server: Server, sampler: Sampler) -> Snapshot:
    usage = memory.usage(server.pid)
    walked = memory.rollup(server.pid)
    ours = server.allocator.name == "Strata"
    return Snapshot(
        rss=walked["Rss"],
        physical=sampler.physical(),
        anonymous=walked["Anonymous"],
        huge=walked["AnonHugePages"],
        minor_faults=usage.minor_faults,
        occupancy=memory.occupancy(server.pid),
        used=server.stats().occupancy if ours else None,
    )


def _idle(server: Server, seconds: float, progress: Callable[[int], None]) -> None:
    """Sends nothing for a while; progress counts tenths of a second."""
    end = time.monotonic() + seconds
    done = 0
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(0.1, left))
        server.check_alive()
        tenths = min(round(seconds * 10), round((seconds - max(0.0, end - time.monotonic())) * 10))
        progress(tenths - done)
        done = tenths


def measure(
    server: Server,
    requests: Requests,
    plan: Plan,
    load: Load,
    begin: Callable[[str, int], Callable[[int], None]],
) -> Run:
    """Fill, delete, idle, refill, read. `begin(phase, steps)` gives a progress callback."""
    run = Run(server.allocator.name, in_cgroup=server.group is not None)
    sampler = Sampler(server, memory.mem_free() + memory.usage(server.pid).rss)
    sampler.start()
    edges: list[Sample] = []

    def timed(name: str, steps: int, work: Callable[[Callable[[int], None]], None]) -> None:
        progress = begin(name, steps)
        first = sampler.sample()
        before = memory.cpu_times(server.pid)
        work(progress)
        after = memory.cpu_times(server.pid)
        last = sampler.sample()
        run.spans[name] = (first.at, last.at)
        run.spent[name] = Spent(after[0] - before[0], after[1] - before[1])
        edges.extend((first, last))

    def send(client: Client, name: str) -> None:
        phase = load.phases[name]

        def work(progress: Callable[[int], None]) -> None:
            run.phases[name] = client.run(requests.of(phase), progress)

        timed(name, len(phase.keys), work)

    try:
        with Client(server.port, plan.connections) as client:
            run.snapshots["start"] = _snapshot_at_start(server, sampler)
            send(client, "fill")
            server.check_allocator()
            run.snapshots["filled"] = _snapshot(server, sampler)
            send(client, "delete")
            seconds = plan.idle_seconds
            timed("idle", round(seconds * 10), lambda moved: _idle(server, seconds, moved))
            run.snapshots["idle"] = _snapshot(server, sampler)
            send(client, "refill")
            send(client, "read")
            run.snapshots["end"] = _snapshot(server, sampler)
        run.peak_rss = memory.peak_rss(server.pid)
        if server.allocator.name == "Strata":
            run.cache_mode = server.stats().cache_mode
    except (StrataError, OSError):
        server.check_alive()  # a server that died explains more than a broken connection
        raise
    finally:
        sampler.stop()
    run.samples = sorted([*sampler.samples, *edges], key=lambda sample: sample.at)
    return run


def _snapshot_at_start(server: Server, sampler: Sampler) -> Snapshot:
    usage = memory.usage(server.pid)
    return Snapshot(usage.rss, sampler.physical(), 0, 0, usage.minor_faults, {}, None)
