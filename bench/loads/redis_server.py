#!/usr/bin/env python3
"""A load: a redis-server with users that stay, and sessions that are set, read and deleted again,
of which one in a hundred stays. The burst sets many sessions at once and then deletes most of them.

The server gets the environment of this program, so a tool that preloads something into its child
measures the server too; `--server-env` sets more for the server alone."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

from marks import Phases
from strata.procfs import cpu_times
from strata.redis import Client, Pipeline, RedisError, bulk, delete_pipeline, set_pipeline
from strata_bench.redis_load import started

PIPELINE = 64
LANES = 2
FIELDS = 6  # of a user
SMALLEST, DOUBLINGS = 48, 7  # of a session: 48 B to 6 KiB, as many in each doubling
WINDOW = 512  # pipelines of sessions that live at a time
STAYS = 100  # one session in so many
KEPT_OF_BURST = 20


class Load:
    """All that is sent, from one seed."""

    def __init__(self) -> None:
        self._random = random.Random(11)
        self._pattern = self._random.randbytes(2 * (SMALLEST << DOUBLINGS))
        self._sessions = 0

    def _value(self) -> bytes:
        size = int(SMALLEST * 2 ** self._random.uniform(0, DOUBLINGS))
        at = self._random.randrange(SMALLEST << DOUBLINGS)
        return bulk(self._pattern[at : at + size])

    def users(self, count: int) -> Iterator[Pipeline]:
        for first in range(0, count, PIPELINE):
            numbers = range(first, min(first + PIPELINE, count))
            requests = []
            for user in numbers:
                fields = b"".join(
                    bulk(b"field:%d" % field) + bulk(self._pattern[user % 997 :][: 70 + 11 * field])
                    for field in range(FIELDS)
                )
                head = b"*%d\r\n$4\r\nHSET\r\n" % (2 + 2 * FIELDS)
                requests.append(head + bulk(b"user:%08d" % user) + fields)
            replies = b":%d\r\n" % FIELDS * len(numbers)
            yield Pipeline(b"".join(requests), replies, len(numbers))

    def set_sessions(self) -> tuple[list[bytes], Pipeline]:
        """The names of those that will go, and the request that sets all."""
        numbers = range(self._sessions, self._sessions + PIPELINE)
        self._sessions += PIPELINE
        names = [bulk(b"session:%010d" % number) for number in numbers]
        going = [name for name in names if self._random.randrange(STAYS)]
        return going, set_pipeline(names, [self._value() for _ in names])

    def sessions(self, count: int) -> Iterator[Pipeline]:
        """A window of sessions moves on: the oldest go as new ones come. At the end all go."""
        window: deque[list[bytes]] = deque()
        for _ in range(0, count, PIPELINE):
            going, request = self.set_sessions()
            window.append(going)
            yield request
            if len(window) > WINDOW:
                yield delete_pipeline(window.popleft())
        while window:
            yield delete_pipeline(window.popleft())

    def burst(self, count: int) -> Iterator[Pipeline]:
        going: list[bytes] = []
        for _ in range(0, count, PIPELINE):
            names, request = self.set_sessions()
            going += [name for name in names if self._random.randrange(KEPT_OF_BURST)]
            yield request
        self._random.shuffle(going)
        for at in range(0, len(going), PIPELINE):
            yield delete_pipeline(going[at : at + PIPELINE])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rest", type=float, default=None)
    parser.add_argument("--server", default="redis-server", metavar="PROGRAM")
    parser.add_argument("--server-env", action="append", default=[], metavar="KEY=VALUE")
    found = parser.parse_args()
    if any("=" not in pair for pair in found.server_env):
        parser.error("--server-env takes KEY=VALUE")
    return found


def end(*_: object) -> None:
    """On SIGTERM the server must go as well."""
    sys.exit(128 + signal.SIGTERM)


def main() -> None:
    asked = arguments()
    signal.signal(signal.SIGTERM, end)
    sessions = int((60_000 if asked.quick else 2_400_000) * asked.scale)
    rest = asked.rest if asked.rest is not None else 0.5 if asked.quick else 4.0
    environment = dict(os.environ) | dict(pair.split("=", 1) for pair in asked.server_env)
    with (
        started(environment, ("--disable-thp", "no"), asked.server) as (process, _, port),
        Client(port, LANES) as client,
    ):

        def cpu_seconds() -> float:
            return sum(each.seconds for each in cpu_times(process.pid))

        phases = Phases("redis_server", process.pid, cpu_seconds)
        load = Load()
        phases.begin("warm-up")
        client.run(load.users(sessions // 20))
        phases.begin("load", measured=True)
        phases.worked(client.run(load.sessions(sessions)).requests)
        phases.begin("burst", measured=True)
        phases.worked(client.run(load.burst(sessions // 8)).requests)
        phases.rest(rest)
    print(phases.report(), flush=True)


if __name__ == "__main__":
    try:
        main()
    except RedisError as error:
        print(f"redis_server: {error}", file=sys.stderr)
        sys.exit(1)
