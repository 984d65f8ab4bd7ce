"""Python on the library: its own test modules for threads, subprocesses and multiprocessing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from blackbox import Lab, missing

# Tests that measure time, signals of a terminal or the machine's speed fail under load with any
# allocator; others only wait.
MODULES = (
    "test_multiprocessing_fork",
    "test_subprocess",
    "test_threading",
    "test_thread",
    "test_threading_local",
    "test_queue",
)
LEFT_OUT = ["test_wait_slow", "*timeout*", "*Timeout*", "test_thousand", "*TestWait*", "*Poll*"]


def python_with_tests() -> str:
    """The first of the system's Pythons and ours that has the standard library's tests."""
    for candidate in ("/usr/bin/python3", sys.executable, shutil.which("python3")):
        if candidate is None or not Path(candidate).exists():
            continue
        probe = [candidate, "-c", "import test.test_threading, test._test_multiprocessing"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return candidate
    missing("no python3 with its test modules (libpython3.11-testsuite)")
    raise AssertionError


def test_own_test_modules(lab: Lab, tmp_path: Path) -> None:
    # PYTHONMALLOC: without Python's own small-object allocator every object is a malloc.
    env = {"PYTHONMALLOC": "malloc", "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    ignore = [part for pattern in LEFT_OUT for part in ("-i", pattern)]
    command = [python_with_tests(), "-m", "test", "-j2", "--slowest", *ignore, *MODULES]
    result = lab.run(*command, env=env, timeout=300, cwd=tmp_path)
    assert result.returncode == 0, result.explain()
    assert "== Tests result: SUCCESS ==" in result.stdout, result.explain()
    assert "strata:" not in result.stdout + result.stderr, result.explain()
