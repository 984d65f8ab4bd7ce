"""Page utilization of three stores under YCSB-C: after the slides of HADES (Banakar et al., DIMES
2025), figure 4. Each runs in qemu-user under `strata pageutil`, is filled, and is then read: keys
by Zipf's law with 0.99, the hot ones anywhere among them. Judged is one epoch of reads. Writes
docs/benchmarks/pageutil.md."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from strata.plot import PALETTE, STYLE, label_beside
from strata.redis import bulk

from strata_bench.groups import Group
from strata_bench.redis_load import _free_port

GROUP = Group("pageutil", "Page utilization under YCSB-C", "", (), (), rounds=1)
FIELDS, FIELD_BYTES = 10, 100  # of a record, as YCSB has them
ZIPF = 0.99
RECORDS, QUICK_RECORDS = 100_000, 4_000
EPOCH, QUICK_EPOCH = 5.0, 1.5
SPARSE = 500
BATCH = 16
START_SECONDS, STOP_SECONDS = 60.0, 120.0
EVEN, FAST = "even pace", "as fast as it goes"
FEW, SOME = 3, 15  # per cent of a page
SLIDES = "75 % of Redis' touched pages use 3 % or less of their bytes; 95 % of MongoDB's and\
 Memcached's less than 15 %"
CAPTION = "Share of the touched pages by the share of their bytes that was touched"
ABOUT = f"""Debian's redis-server, memcached and sqlite3 (a database in memory), unmodified and on \
the malloc that they come with, run under `strata pageutil` ([how](../pageutil.md)): they are \
filled with records of {FIELDS * FIELD_BYTES:,} bytes, and then read as YCSB-C does, by Zipf's law \
with {ZIPF}, hot keys scattered. Redis and memcached keep a record as one value, SQLite as a row \
of {FIELDS} columns. First the reads come at an even pace, one for every {SPARSE} records in an \
epoch of {EPOCH:g} s; then as fast as the store answers. Each line of the picture is one epoch \
that held nothing else. It is figure 4 of the HADES slides, which measured epochs of 360 s with \
Pin, and say: {SLIDES}. They also say that Redis touched 0.5 MiB of 1.2 GiB, which is one record \
in 2,000 or so: the even pace is the one to compare. What the kernel copies for a program is not \
counted, here as with Pin; memcached has it send values as they lie.
"""


@dataclass(frozen=True)
class Outcome:
    name: str
    pace: str
    records: int
    reads: int  # in the epoch
    epoch: dict[str, Any]
    whole: dict[str, Any]  # the heap over the run


def key(number: int) -> bytes:
    return b"user%012d" % number


class Keys:
    """Zipf's law over the records, which are shuffled, so that hot ones lie anywhere."""

    def __init__(self, records: int) -> None:
        self._random = np.random.default_rng(7)
        weights = 1 / np.arange(1, records + 1) ** ZIPF
        self._cdf = np.cumsum(weights) / weights.sum()
        self._names = self._random.permutation(records)

    def draw(self, count: int) -> list[bytes]:
        ranks = np.searchsorted(self._cdf, self._random.random(count))
        return [key(int(n)) for n in self._names[np.minimum(ranks, len(self._names) - 1)]]


def value(number: int, field: int) -> bytes:
    return (b"%d.%d." % (number, field)).ljust(FIELD_BYTES, b"x")


def record(number: int) -> bytes:
    return b"".join(value(number, field) for field in range(FIELDS))


class Wire:
    """A connection on which the length of each answer is known."""

    def __init__(self, port: int, alive: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError):
                self._socket = socket.create_connection(("127.0.0.1", port), START_SECONDS)
                return
            if alive.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the server did not start")
            time.sleep(0.1)

    def ask(self, request: bytes, answer_bytes: int) -> None:
        self._socket.sendall(request)
        while answer_bytes > 0:
            part = self._socket.recv(min(answer_bytes, 1 << 20))
            if not part:
                raise RuntimeError("the server closed the connection")
            answer_bytes -= len(part)


class Redis:
    name = "Redis"

    def __init__(self) -> None:
        self._port = _free_port()
        self.command = ["redis-server", "--port", f"{self._port}", "--bind", "127.0.0.1",
                        "--save", "", "--appendonly", "no", "--loglevel", "warning"]  # fmt: skip
        self._answer = len(bulk(bytes(FIELDS * FIELD_BYTES)))

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        self.begin_at(self._port, process)

    def begin_at(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self._wire = Wire(port, process)

    def fill(self, records: int) -> None:
        for first in range(0, records, BATCH):
            numbers = range(first, min(first + BATCH, records))
            request = b"".join(
                b"*3\r\n$3\r\nSET\r\n" + bulk(key(n)) + bulk(record(n)) for n in numbers
            )
            self._wire.ask(request, len(numbers) * len(b"+OK\r\n"))

    def read(self, keys: list[bytes]) -> None:
        request = b"".join(b"*2\r\n$3\r\nGET\r\n" + bulk(name) for name in keys)
        self._wire.ask(request, len(keys) * self._answer)


class Memcached:
    name = "memcached"

    def __init__(self) -> None:
        self._port = _free_port()
        user = ["-u", "root"] if os.geteuid() == 0 else []
        self.command = ["memcached", "-p", f"{self._port}", "-l", "127.0.0.1", "-U", "0",
                        "-m", "1024", *user]  # fmt: skip
        self._bytes = FIELDS * FIELD_BYTES
        head = len(b"VALUE %s 0 %d\r\n" % (key(0), self._bytes))
        self._answer = head + self._bytes + len(b"\r\nEND\r\n")

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        self._wire = Wire(self._port, process)

    def fill(self, records: int) -> None:
        for first in range(0, records, BATCH):
            numbers = range(first, min(first + BATCH, records))
            request = b"".join(
                b"set %s 0 0 %d\r\n" % (key(n), self._bytes) + record(n) + b"\r\n" for n in numbers
            )
            self._wire.ask(request, len(numbers) * len(b"STORED\r\n"))

    def read(self, keys: list[bytes]) -> None:
        request = b"".join(b"get %s\r\n" % name for name in keys)
        self._wire.ask(request, len(keys) * self._answer)


class Sqlite:
    """The shell, which gets SQL on its standard input and answers a line after each batch."""

    name = "SQLite"
    command = ("sqlite3", "-batch", ":memory:")

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout

    def _ask(self, sql: str) -> None:
        self._in.write((sql + "\n.print done\n").encode())
        self._in.flush()
        for line in self._out:
            if line == b"done\n":
                return
        raise RuntimeError("sqlite3 ended")

    def fill(self, records: int) -> None:
        columns = ", ".join(f"field{f} text" for f in range(FIELDS))
        self._ask(f"create table usertable (k text primary key, {columns});")
        # in the order in which keys are hashed, as YCSB inserts them
        order = np.random.default_rng(1).permutation(records).tolist()
        for first in range(0, records, 500):
            rows = ",".join(
                f"('{key(n).decode()}',"
                + ",".join(f"'{value(n, f).decode()}'" for f in range(FIELDS))
                + ")"
                for n in order[first : first + 500]
            )
            self._ask(f"insert into usertable values {rows};")

    def read(self, keys: list[bytes]) -> None:
        self._ask("\n".join(f"select * from usertable where k='{k.decode()}';" for k in keys))


Store = Redis | Memcached | Sqlite
STORES: tuple[Callable[[], Store], ...] = (Redis, Memcached, Sqlite)


@contextlib.contextmanager
def measured(
    store: Store, folder: Path, epoch: float, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The store under `strata pageutil`; its results lie in the folder afterwards. What is
    preloaded by `environment` is so in the store."""
    libraries = (environment or {}).get("LD_PRELOAD")
    env = {k: v for k, v in environment.items() if k != "LD_PRELOAD"} if environment else None
    command = [sys.executable, "-m", "strata", "pageutil", "-o", str(folder)]
    command += ["--lib", libraries] if libraries else []
    command += ["--epoch", f"{epoch:g}", "--", *store.command]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=env)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(BrokenPipeError):
            process.communicate(timeout=STOP_SECONDS)


@dataclass(frozen=True)
class Phase:
    """Reads that were made in turn: when each batch was answered."""

    pace: str
    began: float
    batches: list[float]


def read_for(store: Store, keys: Keys, seconds: float, rate: float, pace: str) -> Phase:
    """Whole batches, `rate` reads a second or as fast as they are answered (0)."""
    phase = Phase(pace, time.time(), [])
    while (now := time.time()) < phase.began + seconds:
        if rate:
            due = phase.began + len(phase.batches) * BATCH / rate
            if due > now:
                time.sleep(due - now)
        store.read(keys.draw(BATCH))
        phase.batches.append(time.time())
    return phase


def outcome_of(store: Store, records: int, phase: Phase, found: dict[str, Any]) -> Outcome:
    start = found["started_unix"]
    inside = [
        row for row in found["epochs"]
        if start + row["begin"] >= phase.began and start + row["end"] <= phase.batches[-1]
    ]  # fmt: skip
    if not inside:
        raise RuntimeError("no whole epoch of reads")
    row = inside[-1]  # what filling set off has ended
    reads = BATCH * sum(row["begin"] <= at - start < row["end"] for at in phase.batches)
    return Outcome(store.name, phase.pace, records, reads, row, found["heap"])


def run_store(store: Store, out: Path, records: int, epoch: float) -> list[Outcome]:
    keys = Keys(records)
    folder = out / store.name.lower()
    seconds = 2.2 * epoch  # one epoch at least lies within
    with measured(store, folder, epoch) as process:
        store.begin(process)
        store.fill(records)
        phases = [
            read_for(store, keys, seconds, records / SPARSE / epoch, EVEN),
            read_for(store, keys, seconds, 0, FAST),
        ]
    found = json.loads((folder / "pageutil.json").read_text())
    return [outcome_of(store, records, phase, found) for phase in phases]


def draw(outcomes: list[Outcome], path: Path) -> None:
    """A panel for each pace, a line for each store."""
    paces = list(dict.fromkeys(outcome.pace for outcome in outcomes))
    names = list(dict.fromkeys(outcome.name for outcome in outcomes))
    with plt.rc_context(STYLE):
        figure, row = plt.subplots(1, len(paces), figsize=(9.6, 3.9), sharey=True, squeeze=False)
        for axes, pace in zip(row[0], paces, strict=True):
            labels = []
            for outcome in (one for one in outcomes if one.pace == pace):
                heights = [100 * share for share in outcome.epoch["cdf"]]
                colour = PALETTE[names.index(outcome.name)]
                axes.plot(range(len(heights)), heights, color=colour, lw=1.9)
                used = 100 * outcome.epoch["utilization"]
                labels.append((heights, f"{outcome.name}: {used:.1f} % in use", colour))
            axes.set_xlim(0, 100)
            axes.set_ylim(0, 112)
            axes.set_yticks(range(0, 101, 20))
            axes.set_xlabel("bytes of a page that were touched, %, at most")
            axes.set_title(f"YCSB-C, {pace}")
            axes.grid(color="#eef1f4")
            label_beside(axes, labels)
        row[0][0].set_ylabel("touched pages of the heap, %")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
        plt.close(figure)


def page(outcomes: list[Outcome], how: str) -> str:
    lines = [f"# {GROUP.title}\n", ABOUT, how + "\n", f"![{CAPTION}](img/pageutil.png)\n",
             "| store | reads come | records | reads | pages touched | utilization |"
             f" pages ≤ {FEW} % | pages ≤ {SOME} % | the run with its fill |",
             "|---|---|" + "---:|" * 7]  # fmt: skip
    for outcome in outcomes:
        row = outcome.epoch
        shares = " | ".join(f"{100 * row['cdf'][at]:.1f} %" for at in (FEW, SOME))
        lines.append(
            f"| {outcome.name} | {outcome.pace} | {outcome.records:,} | {outcome.reads:,} |"
            f" {row['pages']:,} | {100 * row['utilization']:.1f} % | {shares} |"
            f" {100 * outcome.whole['utilization']:.1f} % of {outcome.whole['pages']:,} pages |"
        )
    return "\n".join(lines) + "\n"


def run(out: Path, say: Callable[[str], None], *, quick: bool) -> list[Outcome]:
    """All that are installed here; what is left out is said."""
    outcomes: list[Outcome] = []
    for make in STORES:
        store = make()
        if shutil.which(store.command[0]) is None:
            say(f"{store.name} is left out: {store.command[0]} is not installed")
            continue
        say(f"{store.name}: filling and reading in qemu-user")
        records, epoch = (QUICK_RECORDS, QUICK_EPOCH) if quick else (RECORDS, EPOCH)
        try:
            outcomes += run_store(store, out, records, epoch)
        except (RuntimeError, OSError, ValueError) as error:
            say(f"{store.name} is left out: {error}")
    return outcomes
