"""Reads profiles on the workers of a Dask cluster: `strata lifetimes --cluster ADDRESS`. Files are
read as they are without one; rows come back and are added up here. Workers need Strata's Python
package, and the files under the same names."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from distributed import Client

from strata.errors import StrataError, why_refused
from strata.learn.dataset import read_one
from strata.learn.rows import Read

FILES_A_TASK = 32
TIMEOUT = 10.0  # seconds
TASKS_AHEAD = 4  # for each thread of a worker: what waits here is rows in memory


def read_some(paths: list[Path]) -> list[Read]:
    return [read_one(path) for path in paths]


def chunks(paths: Iterable[Path]) -> Iterator[list[Path]]:
    rest = iter(paths)
    while chunk := [path.absolute() for path in islice(rest, FILES_A_TASK)]:
        yield chunk


def check(address: str) -> None:
    """That somebody listens there: Dask tries again and again, and says so in many lines."""
    scheme, _, place = address.rpartition("://")
    if scheme not in ("", "tcp", "tls", "inproc"):
        raise StrataError(f"--cluster {address}: an address is tcp://HOST:PORT, or tls://")
    if scheme == "inproc":
        return
    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal():
        raise StrataError(f"--cluster {address}: an address is tcp://HOST:PORT, or tls://")
    try:
        socket.create_connection((host.strip("[]"), int(port)), TIMEOUT).close()
    except OSError as error:
        raise StrataError(f"--cluster {address}: {why_refused(error)}") from error
    except OverflowError as error:  # a port that is none
        raise StrataError(f"--cluster {address}: {error}") from error


class Cluster:
    def __init__(self, address: str) -> None:
        check(address)
        try:
            self._client = Client(address, timeout=TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise StrataError(f"--cluster {address}: {error}") from error
        if not self._client.ncores():
            self._client.close()
            raise StrataError(f"--cluster {address}: it has no workers")

    def read_all(self, paths: Iterable[Path]) -> Iterator[Read]:
        """In the order of the paths, whoever is done first."""
        rest = chunks(paths)
        ahead = TASKS_AHEAD * sum(self._client.ncores().values())
        futures = [self._client.submit(read_some, chunk) for chunk in islice(rest, ahead)]
        while futures:
            done = futures.pop(0)
            yield from done.result()
            done.release()
            futures += [self._client.submit(read_some, chunk) for chunk in islice(rest, 1)]

    def close(self) -> None:
        self._client.close()
