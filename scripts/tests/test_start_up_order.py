"""scripts/start_up_order.py: the load of a server, beside the process that is followed."""

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
called = order.run(("sleep", "600"), library, order.Functions.of(library), sys.argv[1])
print(len(called) > 5)
"""


@pytest.fixture
def library() -> Path:
    named = os.environ.get("STRATA_LIB") or SCRIPTS.parent / "build/lib/libstrata.so"
    if not Path(named).exists():
        pytest.skip(f"there is no {named} to follow")
    return Path(named)


def follow(load: str, library: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", FOLLOW, load, str(library)],
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
