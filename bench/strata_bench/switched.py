"""What a setting costs a server, told by one server: a redis-server under a constant load, whose
setting is switched over the control socket in random order, slice by slice. Two processes differ
by one or two per cent in their layout alone; slices of one process do not.

What outlives a slice is shared by all: an object that was sampled in one may be freed in another.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from strata import redis
from strata.control import ask
from strata.errors import StrataError
from strata.processes import Process
from strata.redis import RedisError

from strata_bench import redis_load
from strata_bench.allocators import Allocator
from strata_bench.plan import Case
from strata_bench.results import Results, Run

SEED = 3
SETTLE_SECONDS = 0.03
SLICE_SECONDS = 0.33  # 300 rounds of three in less than six minutes
FILL_SECONDS = 30.0
FILLED = 0.95  # of the keys, which the load draws at random
MOST_SECONDS = 900  # the load ends by then, whatever becomes of us
VALUE_BYTES = 700


@dataclass(frozen=True)
class Reading:
    """What the server had done at one moment."""

    requests: int
    cpu_ns: int  # of its main thread
    at_ns: int


def per_second(before: Reading, after: Reading) -> dict[str, str]:
    requests = after.requests - before.requests
    if requests <= 0 or after.cpu_ns <= before.cpu_ns:
        raise RedisError("the server did nothing in a slice: is the load gone?")
    return {
        "program": "redis",
        "requests_per_s": f"{requests / (after.at_ns - before.at_ns) * 1e9:.1f}",
        "requests_per_cpu_s": f"{requests / (after.cpu_ns - before.cpu_ns) * 1e9:.1f}",
    }


def slices(
    values: Mapping[str, str],
    rounds: int,
    switch: Callable[[str], None],
    read: Callable[[], Reading],
    wait: Callable[[float], None],
) -> Iterator[tuple[int, str, dict[str, str]]]:
    """Each value once a round, in an order drawn anew: (round, its name, what was measured)."""
    order = random.Random(SEED)
    for number in range(1, rounds + 1):
        names = list(values)
        order.shuffle(names)
        for name in names:
            switch(values[name])
            wait(SETTLE_SECONDS)
            before = read()
            wait(SLICE_SECONDS)
            yield number, name, per_second(before, read())


@contextlib.contextmanager
def _load(port: int, keys: int) -> Iterator[subprocess.Popen[bytes]]:
    """Overwrites random keys without an end, each with an expiry of its own."""
    program = shutil.which("redis-benchmark")
    if program is None:
        raise RedisError("redis-benchmark is not installed")
    process = subprocess.Popen(
        [
            *("timeout", str(MOST_SECONDS), program, "-p", str(port), "-q", "-n", "2000000000"),
            *("-r", str(keys), "-P", "16", "-c", "20"),
            *("setex", "key:__rand_int__", "1000", "v" * VALUE_BYTES),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()  # timeout hands it on
        process.wait()


def _wait_until_filled(connection: socket.socket, keys: int) -> None:
    deadline = time.monotonic() + FILL_SECONDS
    while True:
        field = redis.info(connection, "keyspace").get("db0", "keys=0")
        if int(field.partition("=")[2].partition(",")[0]) >= FILLED * keys:
            return
        if time.monotonic() > deadline:
            raise RedisError(f"the load did not fill {keys} keys in {FILL_SECONDS:.0f} s")
        time.sleep(0.1)


def _measure(
    allocator: Allocator, setting: str, keys: int, values: Mapping[str, str], rounds: int
) -> Iterator[tuple[int, str, dict[str, str]]]:
    with contextlib.ExitStack() as stack:
        process, connection, port = stack.enter_context(
            redis_load.server(allocator, {"STRATA_CONTROL": "always"})
        )
        load = stack.enter_context(_load(port, keys))
        _wait_until_filled(connection, keys)
        spent = Path(f"/proc/{process.pid}/task/{process.pid}/schedstat")

        def switch(value: str) -> None:
            ask(Process(process.pid), f"set {setting}={value}")
            if load.poll() is not None:
                raise RedisError(f"redis-benchmark ended with {load.returncode}")

        def read() -> Reading:
            requests = int(redis.info(connection, "stats")["total_commands_processed"])
            return Reading(requests, int(spent.read_text().split()[0]), time.monotonic_ns())

        yield from slices(values, rounds, switch, read, time.sleep)


def run(
    case: Case,
    setting: str,
    allocators: Mapping[str, Allocator],
    rounds: int,
    done: Callable[[Run], None],
    *,
    quick: bool,
) -> Results:
    """All rounds on one server. The variants say their value of the setting in their environment;
    it is all in which they differ."""
    option = f"STRATA_{setting.upper()}"
    values = {name: allocator.env[option] for name, allocator in allocators.items()}
    first = next(iter(allocators.values()))
    plain = Allocator(first.name, first.version, first.library)
    keys = int(case.quick[0] if quick else case.args[0])
    results = Results()

    def add(one: Run) -> None:
        results.add(one)
        done(one)

    number = 1
    try:
        for number, name, fields in _measure(plain, setting, keys, values, rounds):
            add(Run(case.name, name, number, fields))
    except (RedisError, StrataError, OSError) as error:
        add(Run(case.name, first.name, number, {}, str(error)))
    return results
