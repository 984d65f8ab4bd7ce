"""Runs one of the loads under bench/loads with an allocator and watches its memory: RSS and
anonymous memory twenty times a second, and for each way to run Strata, in a run of its own, what
lives by its statistics. The load marks its phases on stdout (bench/loads/phases.h)."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from strata import stats
from strata.control import ask
from strata.errors import StrataError
from strata.processes import Process

from strata_bench.allocators import Allocator
from strata_bench.plan import Case

LOADS = Path(__file__).resolve().parent.parent / "loads"
REDIS, INFERENCE = "redis_server", "inference_server"
SCRIPTS = (REDIS, INFERENCE)  # the others are programs
NEEDS = {
    "images": "built where libvips-dev and libjpeg-dev are installed",
    "pipeline": "not built",
}
TICK_SECONDS = 0.05
LIVE_TICK_SECONDS = 0.4
UNMEASURED = ("", "warm-up", "end")
REST = "rest"
KILL_SECONDS = 10.0  # for a load to end what it started
RESTED = 5  # readings at the end of the rest count as what is held after it


class LoadError(Exception):
    """The load could not be run, or ended badly."""


@dataclass(frozen=True)
class Reading:
    """KiB at one moment of a phase."""

    phase: str
    values: dict[str, int]


@dataclass
class Watched:
    """A load that runs: what it printed, and readings of its memory."""

    phase: str = ""
    phases: list[str] = field(default_factory=list)
    pid: int = 0
    result: dict[str, str] = field(default_factory=dict)
    readings: list[Reading] = field(default_factory=list)

    def line(self, text: str) -> None:
        if text.startswith("program="):
            self.result = dict(pair.split("=", 1) for pair in text.split() if "=" in pair)
        elif text.startswith("pid="):
            self.pid = int(text.removeprefix("pid="))
        elif text.startswith("phase="):
            self.phase = text.removeprefix("phase=")
            if self.phase not in self.phases:
                self.phases.append(self.phase)

    def mean(self, key: str) -> float:
        """Of the means of all phases but the warm-up and the rest: however long each took, for it
        holds more in one than in another."""
        means = []
        for phase in self.phases:
            if phase in (*UNMEASURED, REST):
                continue
            values = [one.values[key] for one in self.readings if one.phase == phase]
            if not values:
                raise LoadError(f"the phase {phase} was over before its memory was read")
            means.append(sum(values) / len(values))
        if not means:
            raise LoadError("the load had no phase that counts")
        return sum(means) / len(means)

    def rested(self, key: str) -> float:
        values = [one.values[key] for one in self.readings if one.phase == REST][-RESTED:]
        if not values:
            raise LoadError("the load did not rest")
        return sum(values) / len(values)

    def peak(self, key: str) -> float:
        return max(one.values[key] for one in self.readings if one.phase)


def memory_of(pid: int) -> dict[str, int]:
    """What the kernel holds for the process, in KiB."""
    found = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "RssAnon", "VmHWM"):
            found[name] = int(value.split()[0])
    if len(found) < 3:
        raise OSError("the process is gone")
    return found


def held_of(pid: int) -> dict[str, int]:
    """What the program has asked for and not freed, by Strata's statistics, what its objects are
    rounded up by, and what it holds beyond both at the same moment; in KiB. Where one of the first
    two ends and the other begins is an estimate; their sum is known."""
    counted = stats.loads(ask(Process(pid), "stats")).bytes
    live, rounded = counted["live"] // 1024, counted["internal_slack"] // 1024
    return {"live": live, "rounded": rounded, "beyond": memory_of(pid)["RssAnon"] - live - rounded}


def command(load: str, programs: Path, args: tuple[str, ...] = ()) -> list[str]:
    if load in SCRIPTS:
        return [sys.executable, str(LOADS / f"{load}.py"), *args]
    return [str(programs / load), *args]


def lacking(load: str, programs: Path) -> str:
    """Why the load cannot be run here; empty if it can."""
    if load not in SCRIPTS:
        return "" if (programs / load).exists() else NEEDS[load]
    if load == INFERENCE:
        done = subprocess.run(
            [sys.executable, "-c", "import onnx, onnxruntime"], capture_output=True, check=False
        )
        return "" if done.returncode == 0 else "onnx and onnxruntime are not installed"
    return ""


def watch(
    words: list[str],
    environment: dict[str, str],
    timeout: float,
    read: Callable[[int], dict[str, int]],
    tick: float,
) -> Watched:
    """Runs the load to its end."""
    watched = Watched()
    over, one_at_a_time = threading.Event(), threading.Lock()

    def take() -> None:
        with one_at_a_time:
            phase = watched.phase
            if watched.pid and phase not in ("", "end"):
                with contextlib.suppress(OSError, StrataError):  # it may just have ended
                    watched.readings.append(Reading(phase, read(watched.pid)))

    def sample() -> None:
        while not over.wait(tick):
            take()

    sampler = threading.Thread(target=sample)
    began = time.monotonic()
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        ) as process,
    ):
        limits = [threading.Timer(timeout, process.terminate)]
        limits.append(threading.Timer(timeout + KILL_SECONDS, process.kill))
        for limit in limits:
            limit.start()
        sampler.start()
        try:
            for line in process.stdout or ():
                watched.line(line.rstrip("\n"))
                if line.startswith("phase="):
                    take()  # however short the phase is
            process.wait()
        finally:
            for limit in limits:
                limit.cancel()
            over.set()
            sampler.join()
        if process.returncode != 0 or not watched.result:
            complaints.seek(0)
            last = complaints.read().decode(errors="replace").strip().splitlines()[-1:] or [""]
            late = time.monotonic() - began >= timeout
            why = f"no result within {timeout:.0f} s" if late else f"exit {process.returncode}"
            raise LoadError(f"{why} {last[0]}".strip())
    return watched


def environment_for(load: str, allocator: Allocator) -> tuple[tuple[str, ...], dict[str, str]]:
    """Options and environment. Of Redis the server alone gets the allocator, not our client."""
    whole = allocator.environment(force_preload=True)
    if load != REDIS:
        return (), whole
    plain = Allocator("", "", None).environment()
    own = {key: value for key, value in whole.items() if plain.get(key) != value}
    return tuple(f"--server-env={key}={value}" for key, value in own.items()), plain


def measure(
    case: Case, allocator: Allocator, programs: Path, *, quick: bool, counts_live: bool
) -> dict[str, str]:
    """The fields of one run; with `counts_live` a second run follows, which is asked what lives."""
    given, environment = environment_for(case.program, allocator)
    words = command(case.program, programs, (*(case.quick if quick else case.args), *given))
    watched = watch(words, environment, case.timeout, memory_of, TICK_SECONDS)
    fields = dict(watched.result)
    for key, name in (("VmRSS", "rss"), ("RssAnon", "anonymous")):
        fields[f"{name}_mean_kib"] = f"{watched.mean(key):.0f}"
        fields[f"{name}_rest_kib"] = f"{watched.rested(key):.0f}"
    fields["rss_peak_kib"] = f"{watched.peak('VmHWM'):.0f}"
    if counts_live:
        options = {**allocator.env, "STRATA_CONTROL": "always"}
        asked = Allocator(allocator.name, "", allocator.library, options)
        given, environment = environment_for(case.program, asked)
        words = command(case.program, programs, (*(case.quick if quick else case.args), *given))
        tick = TICK_SECONDS if quick else LIVE_TICK_SECONDS
        counted = watch(words, environment, case.timeout, held_of, tick)
        for key in ("live", "rounded", "beyond"):
            fields[f"{key}_mean_kib"] = f"{counted.mean(key):.0f}"
            fields[f"{key}_rest_kib"] = f"{counted.rested(key):.0f}"
    return fields
