"""What the loads in Python print: the lines of phases.h, for whoever watches the process."""

from __future__ import annotations

import time
from collections.abc import Callable


class Phases:
    """Marks phases on stdout, and sums work, time and CPU time over the measured ones."""

    def __init__(self, program: str, pid: int, cpu_seconds: Callable[[], float]) -> None:
        self._program = program
        self._cpu_seconds = cpu_seconds
        self._measured = False
        self._started = self._cpu_started = 0.0
        self.work = 0
        self.seconds = self.cpu = 0.0
        print(f"pid={pid}", flush=True)

    def begin(self, name: str, *, measured: bool = False) -> None:
        """The phase before ends: a caller has waited for its work."""
        if self._measured:
            self.seconds += time.monotonic() - self._started
            self.cpu += self._cpu_seconds() - self._cpu_started
        self._measured = measured
        self._started, self._cpu_started = time.monotonic(), self._cpu_seconds()
        print(f"phase={name}", flush=True)

    def worked(self, amount: int) -> None:
        if self._measured:
            self.work += amount

    def rest(self, seconds: float) -> None:
        self.begin("rest")
        time.sleep(seconds)
        self.begin("end")

    def report(self) -> str:
        cpu = max(self.cpu, 1e-3)
        return (
            f"program={self._program} work={self.work} seconds={self.seconds:.4f}"
            f" cpu_s={self.cpu:.4f} per_s={self.work / self.seconds:.2f}"
            f" per_cpu_s={self.work / cpu:.2f}"
        )
