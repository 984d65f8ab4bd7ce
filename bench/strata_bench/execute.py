"""Runs the plan: builds the programs, runs each work in turn with every allocator, keeps going
when one of them crashes or hangs."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from strata.redis import RedisError

from strata_bench import loads, redis_cycle, redis_load, request_pools, traces
from strata_bench.allocators import Allocator
from strata_bench.plan import Case, Kind
from strata_bench.results import Results, Run

MEMORY_CGROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
POOL = 4

Step = tuple[Case, Allocator, int]


def build_programs(bench: Path, out: Path, *names: str) -> None:
    """All of them, or those named."""
    subprocess.run([str(bench / "build.sh"), str(out), *names], check=True)


def parse_line(text: str) -> dict[str, str]:
    """The fields of the last `key=value ...` line that a program printed."""
    lines = [line for line in text.splitlines() if line.startswith("program=")]
    if not lines:
        return {}
    return dict(pair.split("=", 1) for pair in lines[-1].split() if "=" in pair)


def _remove_cgroup(pid: int) -> None:
    """A program that died could not remove the cgroup it had made for itself."""
    for parent in MEMORY_CGROUPS:
        with contextlib.suppress(OSError):
            (parent / f"strata-bench-{pid}").rmdir()


def _run_program(step: Step, args: tuple[str, ...], programs: Path) -> Run:
    case, allocator, round_number = step
    command = [str(programs / case.program), *args]
    error = ""
    with subprocess.Popen(
        command,
        env=allocator.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            output, complaints = process.communicate(timeout=case.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            output, complaints = process.communicate()
            error = f"no result within {case.timeout:.0f} s"
    fields = parse_line(output)
    if process.returncode != 0 and not error:
        last = complaints.strip().splitlines()[-1:] or [""]
        how = f"signal {-process.returncode}" if process.returncode < 0 else "exit"
        error = f"{how} {process.returncode if process.returncode > 0 else ''} {last[0]}".strip()
    if "cannot be preloaded" in complaints:
        error = "the loader refused the library"
    if not error and case.metric not in fields:
        error = f"no {case.metric} in its result"
    if error:
        _remove_cgroup(process.pid)
    return Run(case.name, allocator.name, round_number, fields, error)


def run_step(step: Step, programs: Path, quick: bool) -> Run:
    case, allocator, round_number = step
    if case.kind in (Kind.REDIS, Kind.CYCLE):
        args = case.quick if quick else case.args
        try:
            if case.kind is Kind.REDIS:
                fields = redis_load.measure(allocator, int(args[0]))
            else:
                rest, read = float(args[1]), float(args[2])
                fields = redis_cycle.measure(allocator, int(args[0]), rest, read)
            return Run(case.name, allocator.name, round_number, fields)
        except (RedisError, OSError) as error:
            return Run(case.name, allocator.name, round_number, {}, str(error))
    if case.kind is Kind.SERVER:
        seconds = float(case.quick[0] if quick else case.args[0])
        try:
            fields = request_pools.measure(case.program, allocator, seconds)
            return Run(case.name, allocator.name, round_number, fields)
        except (request_pools.ServerError, OSError, subprocess.SubprocessError) as error:
            return Run(case.name, allocator.name, round_number, {}, str(error))
    if case.kind is Kind.LOAD:
        # What lives is asked of Strata, where the statistics answer.
        counts = allocator.name in case.strata or "STRATA_LIFETIMES" in allocator.env
        try:
            fields = loads.measure(case, allocator, programs, quick=quick, counts_live=counts)
            return Run(case.name, allocator.name, round_number, fields)
        except (loads.LoadError, OSError) as error:
            return Run(case.name, allocator.name, round_number, {}, str(error))
    if case.kind is Kind.TRACE:
        return traces.measure(case.name, case.program, allocator, round_number, programs)
    # Later options do not override earlier ones in the programs, so quick ones replace by name.
    args = case.args
    if quick:
        names = {q.split("=")[0] for q in case.quick}
        args = (*(a for a in case.args if a.split("=")[0] not in names), *case.quick)
    return _run_program(step, args, programs)


def steps_of(case: Case, allocators: dict[str, Allocator], rounds: int, quick: bool) -> list[Step]:
    """Round by round, all allocators in each; every round starts with another one."""
    own = rounds if case.rounds is None or quick else min(case.rounds, rounds)
    if case.rounds == 1:
        own = 1
    peers = case.peers if not quick or case.quick_peers is None else case.quick_peers
    names = [n for n in (*case.strata, *peers) if n in allocators]
    steps: list[Step] = []
    for number in range(own):
        shift = number % len(names) if names else 0
        for name in names[shift:] + names[:shift]:
            capped = name not in case.strata and case.peer_rounds is not None
            if capped and number >= (1 if quick else (case.peer_rounds or 0)):
                continue
            steps.append((case, allocators[name], number + 1))
    return steps


def run_case(
    steps: list[Step],
    programs: Path,
    quick: bool,
    results: Results,
    done: Callable[[Run], None],
) -> None:
    """All runs of one work. Pooled ones sleep most of their time, so a few share the machine."""

    def one(step: Step) -> Run:
        return run_step(step, programs, quick)

    if steps and steps[0][0].pooled:
        workers = pool_size(steps[0][0])
        with ThreadPoolExecutor(max_workers=workers) as pool:
            for run in pool.map(one, steps):
                results.add(run)
                done(run)
        return
    for step in steps:
        run = one(step)
        results.add(run)
        done(run)


def pool_size(case: Case) -> int:
    """As many at once as fit in half of the memory that is free."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available_mib = int(line.split()[1]) // 1024
            return max(1, min(POOL, available_mib // 2 // max(1, case.pool_mib)))
    return 1
