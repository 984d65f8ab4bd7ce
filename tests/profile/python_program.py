"""Holds memory in functions of many kinds, then writes its profile to argv[1].
test_python_frames.py looks for their names, and for the lines that end in a comment."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator

MIB = 1 << 20
held: list[object] = []


class Store:
    def load(self, n: int) -> None:
        for _ in range(n):
            held.append(self.make())  # load

    def make(self) -> bytearray:
        return bytearray(MIB)  # make


def größe(n: int) -> None:
    held.append(bytes(n * MIB))  # größe


class Key:
    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        held.append(bytes(4 * MIB))  # eq
        return True


def generate() -> Iterator[bytearray]:
    while True:
        yield bytearray(MIB)  # generate


def beside() -> None:
    held.append(bytes(6 * MIB))  # beside


def deep(n: int) -> None:
    if n:
        deep(n - 1)
    else:
        held.append(bytes(3 * MIB))


Store().load(8)
größe(5)
{Key(): 1}[Key()]
held.extend(next(it) for it in [generate()] * 7)
list(map(lambda _: held.append(bytes(MIB)), range(2)))  # noqa: C417  # lambda
deep(150)
thread = threading.Thread(target=beside)
thread.start()
thread.join()
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
sys.exit(ctypes.CDLL(None).strata_profile(b"heap", fd))
