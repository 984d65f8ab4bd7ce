"""What the doctor prescribes for one process, taken: the complaint is gone. Prescriptions for the
whole machine are not taken here; python/tests/test_doctor.py has their rules."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import memory_cgroup
import pytest
from advising import follows, note
from blackbox import ROOT, Lab, missing, wait_until
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
            assert wait_until(lambda: is_the_program(process.pid))
            if preload:
                wait_for_socket(process.pid)
            yield process.pid
        finally:
            process.kill()


def is_the_program(pid: int) -> bool:
    """No longer the shell, nor us still, as the kernel may show it for a moment after the fork."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes()
    return words not in (b"", Path("/proc/self/cmdline").read_bytes()) and not words.startswith(
        b"bash\0-c\0"
    )


def finding(pid: int, rule: str) -> dict[str, Any]:
    found = json.loads(strata("doctor", pid, "--json").stdout)["findings"]
    (one,) = [each for each in found if each["rule"] == rule]
    assert isinstance(one, dict)
    if one["state"] == "mend":
        note(rule, one["says"], *one["fixes"])
    return one


@follows("caches are one a thread because STRATA_CACHE=thread is set")
def test_caches_that_were_asked_for(lab: Lab) -> None:
    mended(lab, "cache-mode", "export STRATA_CACHE=thread")


@follows("GLIBC_TUNABLES switches restartable sequences off")
@pytest.mark.parametrize("others", ["", "glibc.malloc.check=0:"])
def test_rseq_that_was_switched_off(lab: Lab, others: str) -> None:
    mended(lab, "rseq", f"export GLIBC_TUNABLES={others}glibc.pthread.rseq=0")


@follows("if the background thread cannot start")
def test_few_processes(lab: Lab) -> None:
    mended(lab, "processes", "ulimit -S -u 40")


@follows("malloc returns null there, though memory may be free")
@pytest.mark.parametrize("limit", ["-v", "-d"])
def test_little_address_space(lab: Lab, limit: str) -> None:
    mended(lab, "address-space", f"ulimit -S {limit} 8000000")


def mended(lab: Lab, rule: str, line: str) -> None:
    with started(lab, [line]) as pid:
        (fix,) = finding(pid, rule)["fixes"]
        if "--pid" in fix:  # for the process as it runs
            subprocess.run(["bash", "-c", fix.removeprefix("sudo ")], check=True)
            assert finding(pid, rule)["state"] == "ok"
            return
    with started(lab, [line, fix]) as pid:
        assert finding(pid, rule)["state"] == "ok"


@follows("the process does not run on Strata")
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


@follows("stands before Strata in LD_PRELOAD")
def test_another_allocator_ahead(lab: Lab) -> None:
    other = next(Path("/usr/lib").glob("*/libjemalloc.so.2"), None)
    if other is None:
        pytest.skip("no jemalloc")
    with started(lab, [f"export LD_PRELOAD={other}:$LD_PRELOAD"], preload=True) as pid:
        sick = finding(pid, "other-allocator")
        assert "is the one that allocates" in sick["says"]
    with started(lab, [f"export LD_PRELOAD=$LD_PRELOAD:{other}"]) as pid:
        assert finding(pid, "other-allocator")["state"] == "ok"


@follows("it still runs the old one")
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


@follows("was set and had no effect")
def test_a_preload_of_no_effect(lab: Lab, tmp_path: Path) -> None:
    """The loader itself says why, and the command that is named mends it."""
    with started(lab, [f"export LD_PRELOAD={tmp_path}/libstrata.so"], preload=False) as pid:
        sick = finding(pid, "library")
    assert "had no effect" in sick["says"]
    why, again = sick["fixes"]
    said = subprocess.run(["bash", "-c", why], capture_output=True, text=True, check=True).stderr
    assert "cannot open shared object file" in said
    assert again == f"strata run -- {SLEEP}"


@follows("the memory cgroup is nearly full")
def test_a_memory_cgroup_that_is_nearly_full(lab: Lab, tmp_path: Path) -> None:
    filled = tmp_path / "filled"
    program = f'import time; kept = b"x" * (60 << 20); open("{filled}", "w"); time.sleep(600)'
    held = f"/usr/bin/python3 -c '{program}'"
    with (
        memory_cgroup.made(f"strata-doctor-{os.getpid()}") as group,
        started(lab, [f"echo $$ > {group.path}/cgroup.procs"], command=held) as pid,
    ):
        assert wait_until(filled.exists)
        # Its files were perhaps read into this group's cache, which the kernel drops at the limit.
        limit = int(group.in_use_mib() * 1.04 * memory_cgroup.MIB)
        (group.path / group.limit_file).write_text(str(limit))
        sick = finding(pid, "cgroup-memory")
        assert "nearly full" in sick["says"], sick
        release, larger = sick["fixes"]
        good(*release.split()[1:])
        subprocess.run(["bash", "-c", larger.replace("sudo ", "")], check=True)
        assert finding(pid, "cgroup-memory")["state"] == "ok"


SPREAD = """'
import collections, threading, time
kept = collections.deque(maxlen=500)
def work():
    while True: kept.append(bytes(2000)); time.sleep(0.001)
for _ in range(6): threading.Thread(target=work, daemon=True).start()
time.sleep(600)
'"""


@follows("pinning gives fewer caches")
def test_a_quota_far_below_the_cpus(lab: Lab) -> None:
    """On as many CPUs as the quota there are as many caches, and the advice is not given again."""
    if len(os.sched_getaffinity(0)) < 2:
        missing("one CPU has one cache")
    with cpu_cgroup(f"strata-doctor-{os.getpid()}", 0.5) as group:
        join = [f"echo $$ > {group}/cgroup.procs"]
        program = f"/usr/bin/python3 -c {SPREAD}"
        with started(lab, join, command=program) as pid:
            sick = finding(pid, "cgroup-cpu")
            assert "a quota of 0.5 CPUs" in sick["says"], sick
            # One after another: how soon depends on the machine.
            assert wait_until(lambda: caches(pid) > 1)
        pinned = sick["fixes"][0].partition(" COMMAND")[0]
        with started(lab, join, command=f"{pinned} {program}") as pid:
            # taskset sets it before it becomes the program
            assert wait_until(lambda: finding(pid, "cgroup-cpu")["state"] == "ok")
            time.sleep(2)
            assert caches(pid) == 1


def caches(pid: int) -> int:
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


# In a mount namespace of its own: $0 takes the place of /etc/ld.so.preload, which is $1.
PRELOADED = """
set -e
mount -t tmpfs none "$0"; mkdir "$0/up" "$0/work"
mount -t overlay none -o lowerdir=/etc,upperdir="$0/up",workdir="$0/work" /etc
rm -f /etc/ld.so.preload
doctor() { "$2" -m strata doctor --json > "$0/said" 2>/dev/null || true; cat "$0/said"; }
echo "$1" > /etc/ld.so.preload
/usr/bin/cat /proc/self/maps 2>&1
echo ----
mv /etc/ld.so.preload /etc/kept; cp /etc/kept /etc/ld.so.preload
doctor "$@"
echo ----
$3
/usr/bin/cat /proc/self/maps 2>&1
echo ----
doctor "$@"
"""


def preloaded(tmp_path: Path, library: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """What a program says and maps before and after the doctor's advice on /etc/ld.so.preload is
    followed, and what the doctor says."""
    if os.geteuid() != 0:
        pytest.skip("mounts a file system: as root")
    take_out = f"sed -i '\\#{library}#d' /etc/ld.so.preload"
    script = PRELOADED.replace("$3", take_out)
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script, tmp_path, library, sys.executable],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "python")},
        check=True,
        capture_output=True,
        text=True,
    )
    before, sick, after, well = done.stdout.split("----\n")
    found = []
    for said in (sick, well):
        rules = {each["rule"]: each for each in json.loads(said)["findings"]}
        found.append(rules["preload-file"])
    assert found[0]["fixes"] == [f"sudoedit /etc/ld.so.preload  # take out {library}"]
    note("preload-file", found[0]["says"])
    return [before, after], found


@follows("without LD_PRELOAD it, not Strata, is the allocator")
def test_another_allocator_in_every_program(tmp_path: Path) -> None:
    other = next(Path("/usr/lib").glob("*/libjemalloc.so.2"), None)
    if other is None:
        pytest.skip("no jemalloc")
    programs, found = preloaded(tmp_path, other)
    assert [str(other) in text for text in programs] == [True, False]
    assert [each["state"] for each in found] == ["mend", "ok"]


@follows("which is not there: every program complains")
def test_a_library_that_every_program_misses(tmp_path: Path) -> None:
    programs, found = preloaded(tmp_path, Path("/gone.so"))
    assert ["cannot be preloaded" in text for text in programs] == [True, False]
    assert [each["state"] for each in found] == ["mend", "ok"]
