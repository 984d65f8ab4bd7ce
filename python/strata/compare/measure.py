"""One run of one arm: the command itself, or a server with a load run against it."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import tempfile
import time
from pathlib import Path

from strata.compare import parsers
from strata.compare.arms import Arm, obstacle
from strata.compare.plan import Plan
from strata.compare.process import Program
from strata.compare.record import Record
from strata.errors import StrataError
from strata.peers import public_environment

READY_SECONDS = 30.0
REFUSED = "the library was not loaded: the dynamic linker refused it"


class RunError(Exception):
    """The run gave no figures; the text says why in one line."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether something on this machine takes connections on the port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def fill_in(words: list[str], port: int, folder: Path) -> list[str]:
    return [w.replace("{port}", str(port)).replace("{dir}", str(folder)) for w in words]


def _check_loaded(program: Program, arm: Arm) -> None:
    if program.refused():
        raise RunError(REFUSED)
    if arm.library is not None and program.memory.lacking and not program.memory.loaded:
        raise RunError(f"{arm.library.name} was not loaded into the command")


def _memory_figures(program: Program) -> dict[str, float]:
    memory = program.memory
    figures = {}
    peak = program.peak_rss()
    if peak:
        figures["peak_rss"] = float(peak)
    if memory.rss:
        figures["mean_rss"] = _mean_over_time(memory.at, memory.rss)
    if memory.coverage is not None:
        figures["coverage"] = memory.coverage
    return figures


def _mean_over_time(at: list[float], rss: list[int]) -> float:
    """Weighted by time: the samples are not evenly spaced."""
    if len(at) < 2:
        return float(rss[0])
    area = sum(
        (t1 - t0) * (a + b) / 2 for t0, t1, a, b in zip(at, at[1:], rss, rss[1:], strict=False)
    )
    return area / (at[-1] - at[0])


def _run_command(plan: Plan, arm: Arm, folder: Path, record: Record) -> None:
    environment = arm.environment(os.environ)
    command = fill_in(plan.command, free_port(), folder)
    with Program(command, environment, folder, "command", arm.library) as program:
        deadline = time.monotonic() + plan.timeout
        while not program.step():
            if time.monotonic() > deadline:
                raise RunError(f"no end within {plan.timeout:g} s")
        record.rss_at, record.rss = program.memory.at, program.memory.rss
        if program.refused():
            raise RunError(REFUSED)
        if program.status != 0:
            raise RunError(program.how_it_ended())
        _check_loaded(program, arm)
        usage = program.usage
        assert usage is not None  # it has ended
        record.figures = {
            "wall_s": program.wall,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "user_s": usage.ru_utime,
            "system_s": usage.ru_stime,
            "minor_faults": float(usage.ru_minflt),
            "major_faults": float(usage.ru_majflt),
            **_memory_figures(program),
        }
        for name, value in parsers.parse(program.output(), plan.metrics).items():
            record.figures.setdefault(name, value)


def _wait_until_ready(server: Program, port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if server.ended(0.02):
            _raise_for_server(server, "ended while it started")
        if answers(port):
            return
    raise RunError(f"the server did not listen on port {port} within {READY_SECONDS:.0f} s")


def _raise_for_server(server: Program, what: str) -> None:
    how = server.how_it_ended() or "exit status 0"
    raise RunError(REFUSED if server.refused() else f"the server {what}: {how}")


def _run_server(plan: Plan, arm: Arm, folder: Path, record: Record) -> None:
    port = free_port() if any("{port}" in word for word in plan.command) else plan.ready_port
    ready = plan.ready_port or port
    if answers(ready):
        raise RunError(f"port {ready} was taken before the server started: nothing was measured")
    environment = arm.environment(os.environ)
    command = fill_in(plan.command, port, folder)
    with Program(command, environment, folder, "server", arm.library) as server:
        _wait_until_ready(server, ready)
        server.sample()
        before = server.counters()
        load_command = fill_in(plan.load, port, folder)
        with Program(load_command, public_environment(os.environ), folder, "load", None) as load:
            deadline = time.monotonic() + plan.timeout
            while not server.step(load):
                if time.monotonic() > deadline:
                    raise RunError(f"the load did not end within {plan.timeout:g} s")
            if server.status is not None:
                _raise_for_server(server, "ended under the load")
            if load.status != 0:
                raise RunError(f"the load failed: {load.how_it_ended()}")
            wall = load.wall
            output = load.output()
        server.sample()
        server.look_at_hugepages()
        after = server.counters()
        record.rss_at, record.rss = server.memory.at, server.memory.rss
        _check_loaded(server, arm)
        user = after.user_seconds - before.user_seconds
        cpu = after.cpu_seconds - before.cpu_seconds
        record.figures = {
            "wall_s": wall,
            "cpu_s": cpu,
            "user_s": user,
            "system_s": cpu - user,
            "minor_faults": float(after.minor_faults - before.minor_faults),
            "major_faults": float(after.major_faults - before.major_faults),
            **_memory_figures(server),
        }
        for name, value in parsers.parse(output, plan.metrics).items():
            record.figures.setdefault(name, value)


def run_once(plan: Plan, arm: Arm, round_number: int, host: str, session: str = "") -> Record:
    """Runs the arm once. What goes wrong with it stands in the record, not in an exception."""
    record = Record(plan.hash, host, round_number, arm.name, time.time(), session=session)
    record.kernel, record.fingerprint = os.uname().release, arm.fingerprint()
    with tempfile.TemporaryDirectory(prefix="strata-compare-", ignore_cleanup_errors=True) as name:
        try:
            problem = obstacle(arm, plan.command[0], os.environ)
            if problem is not None:
                raise RunError(f"the library was not loaded: {problem}")
            run = _run_server if plan.load else _run_command
            run(plan, arm, Path(name), record)
        except (RunError, StrataError) as error:
            record.error = " ".join(str(error).split())
            record.figures = {}
        except OSError as error:
            record.error = f"{shlex.join(plan.command)}: {error}"
            record.figures = {}
    return record
