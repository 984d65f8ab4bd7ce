"""Runs a program in a memory cgroup with a limit, and asks the library what it thinks of its
settings. A program that the kernel kills for memory is a result here, not a mistake."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from strata.procfs import MemoryGroup

from strata_bench import execute
from strata_bench.allocators import Allocator
from strata_bench.results import Results, Run

KILLED = "killed for memory"
# The shell joins the cgroup and becomes the program; env sets the preload past both.
JOIN = 'echo $$ >"$0" && exec env "$@"'


def complaint(allocator: Allocator, program: Path) -> str:
    """What the library says against its own settings: an option that this build lacks."""
    done = subprocess.run(
        [str(program), "--seconds=0.001"],
        env=allocator.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("strata:")]
    return lines[0] if lines else ""


def _set_limit(group: MemoryGroup, mib: int) -> None:
    group.limit.write_text(str(mib << 20))
    swap = ("memory.memsw.limit_in_bytes", "memory.swap.max")
    for name, value in zip(swap, (str(mib << 20), "0"), strict=True):
        if (group.path / name).exists():
            (group.path / name).write_text(value)


def run(step: execute.Step, programs: Path, limit_mib: int, *, quick: bool) -> Run:
    case, allocator, number = step
    group = MemoryGroup.create(f"strata-bench-limit-{os.getpid()}")
    if group is None:
        return Run(case.name, allocator.name, number, {}, "no memory cgroup can be made here")
    environment = allocator.environment()
    preload = environment.pop("LD_PRELOAD", "")
    settings = [f"LD_PRELOAD={preload}"] if preload else []
    program = [str(programs / case.program), *(case.quick if quick else ()), *case.args]
    words = ["sh", "-c", JOIN, str(group.procs), *settings, *program]
    try:
        _set_limit(group, limit_mib)
        done = subprocess.run(
            words,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=case.timeout,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Run(case.name, allocator.name, number, {}, str(error))
    finally:
        group.remove()
    fields = execute.parse_line(done.stdout)
    if done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return Run(case.name, allocator.name, number, {}, KILLED)
    if done.returncode != 0 or case.metric not in fields:
        last = done.stderr.strip().splitlines()[-1:] or ["no result"]
        return Run(case.name, allocator.name, number, {}, f"exit {done.returncode}: {last[0]}")
    return Run(case.name, allocator.name, number, fields)


def ends(results: Results, case: str, allocator: str) -> str:
    """How many runs finished, and what became of the others."""
    runs = results.of(case, allocator)
    fine = sum(not run.error for run in runs)
    killed = sum(run.error == KILLED for run in runs)
    other = len(runs) - fine - killed
    text = f"{fine} of {len(runs)}"
    text += f", {killed} killed" if killed else ""
    return text + (f", {other} failed otherwise" if other else "")
