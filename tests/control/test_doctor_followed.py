"""What the doctor prescribes for one process, taken: the complaint is gone. Prescriptions for the
whole machine are not taken here; python/tests/test_doctor.py has their rules."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blackbox import Lab, wait_until
from command import strata
from test_reach import wait_for_socket

SLEEP = "sleep 600"


@contextlib.contextmanager
def started(lab: Lab, lines: list[str], *, preload: bool = True) -> Iterator[int]:
    """A program that a shell started after these lines, as a start script would."""
    lab.require_strata()
    env = lab.environment({"STRATA_CONTROL": "always"}, preload=preload)
    script = "\n".join([*lines, f"exec {SLEEP}"])
    with subprocess.Popen(["bash", "-c", script], env=env) as process:
        try:
            comm = Path(f"/proc/{process.pid}/comm")
            assert wait_until(lambda: comm.read_text() == "sleep\n")
            if preload:
                wait_for_socket(process.pid)
            yield process.pid
        finally:
            process.kill()


def finding(pid: int, rule: str) -> dict[str, Any]:
    found = json.loads(strata("doctor", pid, "--json").stdout)["findings"]
    (one,) = [each for each in found if each["rule"] == rule]
    assert isinstance(one, dict)
    return one


@pytest.mark.parametrize(
    ("rule", "line", "says"),
    [
        ("cache-mode", "export STRATA_CACHE=thread", "STRATA_CACHE=thread is set"),
        ("rseq", "export GLIBC_TUNABLES=glibc.pthread.rseq=0", "switches restartable"),
        (
            "rseq",
            "export GLIBC_TUNABLES=glibc.malloc.check=0:glibc.pthread.rseq=0",
            "switches restartable",
        ),
        ("address-space", "ulimit -S -v 8000000", "address space is limited"),
        ("address-space", "ulimit -S -d 8000000", "data size is limited"),
    ],
)
def test_the_prescription_helps(lab: Lab, rule: str, line: str, says: str) -> None:
    with started(lab, [line]) as pid:
        sick = finding(pid, rule)
        assert (sick["state"], says in sick["says"]) == ("mend", True), sick
        (fix,) = sick["fixes"]
        if "--pid" in fix:  # for the process as it runs
            subprocess.run(["bash", "-c", fix.removeprefix("sudo ")], check=True)
            assert finding(pid, rule)["state"] == "ok"
            return
    with started(lab, [line, fix]) as pid:
        assert finding(pid, rule)["state"] == "ok"


def test_a_process_without_the_library(lab: Lab) -> None:
    with started(lab, [], preload=False) as pid:
        sick = finding(pid, "library")
        assert sick["says"] == "the process does not run on Strata"
        (fix,) = sick["fixes"]
    program = fix.removeprefix("strata run -- ")
    assert program == SLEEP
    assert lab.library is not None
    with started(lab, [f"export LD_PRELOAD={lab.library}"]) as pid:
        assert finding(pid, "library")["state"] == "ok"


def test_another_allocator_ahead(lab: Lab) -> None:
    other = next(Path("/usr/lib").glob("*/libjemalloc.so.2"), None)
    if other is None:
        pytest.skip("no jemalloc")
    with started(lab, [f"export LD_PRELOAD={other}:$LD_PRELOAD"], preload=True) as pid:
        sick = finding(pid, "other-allocator")
        assert "is the one that allocates" in sick["says"]
    with started(lab, [f"export LD_PRELOAD=$LD_PRELOAD:{other}"]) as pid:
        assert finding(pid, "other-allocator")["state"] == "ok"
