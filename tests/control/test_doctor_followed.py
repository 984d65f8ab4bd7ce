"""What the doctor prescribes for one process, taken: the complaint is gone. Prescriptions for the
whole machine are not taken here; python/tests/test_doctor.py has their rules."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import memory_cgroup
import pytest
from blackbox import Lab, missing, wait_until
from command import good, strata
from test_reach import wait_for_socket

SLEEP = "sleep 600"


@contextlib.contextmanager
def started(
    lab: Lab, lines: list[str], *, preload: bool = True, command: str = SLEEP
) -> Iterator[int]:
    """A program that a shell started after these lines, as a start script would."""
    lab.require_strata()
    env = lab.environment({"STRATA_CONTROL": "always"}, preload=preload)
    script = "\n".join([*lines, f"exec {command}"])
    with subprocess.Popen(["bash", "-c", script], env=env) as process:
        try:
            comm = Path(f"/proc/{process.pid}/comm")
            assert wait_until(lambda: comm.read_text() != "bash\n")
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
        ("processes", "ulimit -S -u 40", "if the background thread cannot start"),
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


def test_a_library_that_was_replaced(lab: Lab, tmp_path: Path) -> None:
    library = tmp_path / "libstrata.so"
    shutil.copy(lab.require_strata(), library)
    preload = [f"export LD_PRELOAD={library}"]
    with started(lab, preload) as pid:
        assert finding(pid, "library")["state"] == "ok"
        library.unlink()
        shutil.copy(lab.require_strata(), library)
        sick = finding(pid, "library")
        assert ("was replaced" in sick["says"], sick["fixes"]) == (True, ["restart the process"])
    with started(lab, preload) as pid:
        assert finding(pid, "library")["state"] == "ok"


def test_a_preload_of_no_effect(lab: Lab, tmp_path: Path) -> None:
    """The loader itself says why, and the command that is named mends it."""
    with started(lab, [f"export LD_PRELOAD={tmp_path}/libstrata.so"], preload=False) as pid:
        sick = finding(pid, "library")
    assert "had no effect" in sick["says"]
    why, again = sick["fixes"]
    said = subprocess.run(["bash", "-c", why], capture_output=True, text=True, check=True).stderr
    assert "cannot open shared object file" in said
    assert again == f"strata run -- {SLEEP}"


def test_a_memory_cgroup_that_is_nearly_full(lab: Lab) -> None:
    held = "/usr/bin/python3 -c 'import time; kept = b\"x\" * (60 << 20); time.sleep(600)'"
    with (
        memory_cgroup.made("strata-doctor") as group,
        started(lab, [f"echo $$ > {group.path}/cgroup.procs"], command=held) as pid,
    ):
        assert wait_until(lambda: group.usage_mib() > 60)
        (group.path / group.limit_file).write_text(str(int(group.usage_mib() * 1.04 * (1 << 20))))
        sick = finding(pid, "cgroup-memory")
        assert "nearly full" in sick["says"], sick
        release, larger = sick["fixes"]
        good(*release.split()[1:])
        subprocess.run(["bash", "-c", larger.replace("sudo ", "")], check=True)
        assert finding(pid, "cgroup-memory")["state"] == "ok"


SPREAD = """'
import threading, time
kept = []
def work():
    end = time.monotonic() + 1.5
    while time.monotonic() < end: kept.append(bytes(2000)); time.sleep(0.001)
for _ in range(6): threading.Thread(target=work).start()
time.sleep(600)
'"""


def test_a_quota_far_below_the_cpus(lab: Lab) -> None:
    """On as many CPUs as the quota there are as many caches, and the advice is not given again."""
    if len(os.sched_getaffinity(0)) < 2:
        missing("one CPU has one cache")
    with cpu_cgroup("strata-doctor", 0.5) as group:
        join = [f"echo $$ > {group}/cgroup.procs"]
        program = f"/usr/bin/python3 -c {SPREAD}"
        with started(lab, join, command=program) as pid:
            sick = finding(pid, "cgroup-cpu")
            assert "a quota of 0.5 CPUs" in sick["says"], sick
            before = caches(pid)
        pinned = sick["fixes"][0].partition(" COMMAND")[0]
        with started(lab, join, command=f"{pinned} {program}") as pid:
            assert finding(pid, "cgroup-cpu")["state"] == "ok"
            assert caches(pid) == 1 < before


def caches(pid: int) -> int:
    time.sleep(2.5)
    return int(json.loads(good("stats", pid, "--format", "json"))["cache"]["vcpus"])


@contextlib.contextmanager
def cpu_cgroup(name: str, cpus: float) -> Iterator[Path]:
    period = 100_000
    for parent, limits in (
        ("/sys/fs/cgroup/cpu", {"cpu.cfs_quota_us": f"{int(cpus * period)}"}),
        ("/sys/fs/cgroup", {"cpu.max": f"{int(cpus * period)} {period}"}),
    ):
        group = Path(parent) / name
        with contextlib.suppress(OSError):
            group.mkdir()
            for file, value in limits.items():
                (group / file).write_text(value)
            break
    else:
        missing("no CPU cgroup can be made here")
    try:
        yield group
    finally:
        memory_cgroup.remove(group)
