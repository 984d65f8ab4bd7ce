"""scripts/start_up_order.py: the load of a server, beside the process that is followed; what a fork
calls; and the order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from loading import SCRIPTS

FOLLOW = """
import sys
from pathlib import Path
import start_up_order as order
order.SERVER_S = 0.2
library = Path(sys.argv[2]).resolve()
traced = order.run(("sleep", "600"), library, order.Functions.of(library), sys.argv[1])
print(len(traced.called) > 5)
"""

FORK = """
import sys
from pathlib import Path
import start_up_order as order
library = Path(sys.argv[2]).resolve()
traced = order.run(("sh", "-c", "(exec true); true"), library, order.Functions.of(library))
for called in traced.called, traced.forked:
    names = order.sections_of(traced, called)
    parts = "OnLoad", "ForgetWaitersInChild"
    print([any(part in name for name in names) for part in parts])
"""
ORDER = """
import start_up_order as order
uses = order.Uses()
for name, small, large, workers in (
    ("seldom", 1, 0, 0), ("start", 9, 0, 0), ("large", 0, 1, 0), ("larger", 0, 2, 0),
    ("both", 9, 1, 1), ("both-more", 3, 2, 2), ("worker", 0, 1, 1), ("workers", 0, 2, 2),
):
    uses.first_seen[name] = len(uses.first_seen)
    uses.small[name], uses.large[name], uses.workers[name] = small, large, workers
print(*uses.in_order())
"""


@pytest.fixture
def library() -> Path:
    named = os.environ.get("STRATA_LIB") or SCRIPTS.parent / "build/lib/libstrata.so"
    if not Path(named).exists():
        pytest.skip(f"there is no {named} to follow")
    return Path(named)


def follow(load: str, library: Path, code: str = FOLLOW) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, load, str(library)],
        cwd=SCRIPTS,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_load_that_fails_is_said(library: Path) -> None:
    done = follow("sleep 0.2; exit 3", library)
    assert (done.returncode, done.stderr) == (
        1,
        "sleep: its load ended with status 3: sleep 0.2; exit 3\n",
    )


def test_the_server_is_ended_after_its_load(library: Path, tmp_path: Path) -> None:
    done = follow(f"touch {tmp_path}/used", library)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert (tmp_path / "used").exists()


def test_a_fork_is_followed_anew(library: Path) -> None:
    done = follow("", library, FORK)
    assert done.stderr == ""
    first, forked = done.stdout.splitlines()
    assert first == "[True, True]"
    assert forked == "[False, True]"


def test_what_workers_run_lies_in_the_middle() -> None:
    done = follow("", Path(), ORDER)
    assert done.stderr == ""
    assert done.stdout == (
        "seldom start both both-more __rseq_failure workers worker larger large\n"
    )


def test_what_lacks_is_said_first(library: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPTS / "start_up_order.py", "--library", library],
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("not found ")
    assert "ab, redis-benchmark\n" in done.stderr
    assert done.stdout == ""
