"""Traces recorded from real programs at bench time, and their replays: the calls of a trace on one
allocator after the other. The programs read what lies in bench/traced; nothing is fetched and no
trace is kept in the tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from strata.peers import public_environment

from strata_bench.allocators import Allocator
from strata_bench.results import Run

ROOT = Path(__file__).resolve().parents[2]
TRACED = ROOT / "bench" / "traced"
REPLAY = "strata-replay"
MOST_SECONDS = 300.0  # of a recording, and of a replay


def _compiler() -> str:
    """The program that g++ runs to compile: only a process's own allocations are in its trace."""
    if shutil.which("g++") is None:
        return "g++"
    ask = ["g++", "-print-prog-name=cc1plus"]
    return subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()


def _python() -> str:
    return os.path.realpath(sys.executable)


@dataclass(frozen=True)
class Recording:
    """A program to be recorded: its words, and what its environment needs beside ours."""

    program: Callable[[], str]
    args: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)


CC1PLUS = ("-quiet", "-std=c++20", "-O2", "-imultiarch", "x86_64-linux-gnu", "-D_GNU_SOURCE")
RECORDINGS = {
    "documents": Recording(
        _python, ("-S", str(TRACED / "documents.py")), {"PYTHONMALLOC": "malloc"}
    ),
    "tables": Recording(_python, ("-S", str(TRACED / "tables.py"))),
    "words": Recording(lambda: "perl", (str(TRACED / "words.pl"),)),
    "compile": Recording(_compiler, (*CC1PLUS, str(TRACED / "classes.cpp"), "-o", os.devnull)),
}


def path_of(programs: Path, name: str) -> Path:
    return programs / "traces" / f"{name}.trace"


def record(name: str, lib: Path, programs: Path) -> str:
    """Records one program on the malloc that it has; a word on what went wrong, or nothing."""
    one = RECORDINGS[name]
    program = shutil.which(one.program())
    if program is None:
        return f"{one.program()} is not installed"
    trace = path_of(programs, name)
    trace.parent.mkdir(parents=True, exist_ok=True)
    tool = lib.with_name(REPLAY)
    if not tool.exists():
        return f"{tool} is not there"
    beside = trace.parent / REPLAY
    beside.unlink(missing_ok=True)
    beside.symlink_to(tool)
    words = [sys.executable, "-m", "strata", "trace", "-o", str(trace), "--", program, *one.args]
    here = {"STRATA_LIB": str(lib), "PYTHONPATH": str(ROOT / "python")}
    try:
        done = subprocess.run(
            words,
            env=public_environment(os.environ) | here | one.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=MOST_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0 and trace.exists():
        return ""
    last = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
    return last[0]


def measure(case: str, name: str, allocator: Allocator, number: int, programs: Path) -> Run:
    """One replay, and before it what the replayer alone takes for the same steps. Whatever goes
    wrong is in the result: the other allocators' runs go on."""
    try:
        fields = _replay(path_of(programs, name), allocator)
    except KeyError as error:
        return Run(case, allocator.name, number, {}, f"no {error} in its result")
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return Run(case, allocator.name, number, {}, str(error))
    return Run(case, allocator.name, number, {k: f"{v:.9g}" for k, v in fields.items()})


def _replay(trace: Path, allocator: Allocator) -> dict[str, float]:
    """The figures of one replay; ValueError: it failed, and why."""
    done = subprocess.run(
        [str(trace.parent / REPLAY), "--overhead", str(trace)],
        env=allocator.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    if done.returncode != 0 or done.stderr:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
        raise ValueError(last[0])
    said = json.loads(done.stdout)
    if said["failures"]:
        raise ValueError(f"{said['failures']} requests were refused")
    return {
        "seconds": said["seconds"],
        "call_seconds": said["seconds"] - said["overhead_seconds"],
        "overhead_seconds": said["overhead_seconds"],
        "hwm_kib": said["peak_resident"] / 1024,
        "events": said["events"],
    }
