"""What the doctor and the report prescribe for the whole machine, taken: what they complained of is
gone, and the process has what it lacked. It changes the machine's settings for some seconds, so it
runs only where STRATA_TEST_MACHINE=1 says that nobody else is on it; they are put back."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import memory_cgroup
import pytest
from advising import CASES, HELD, Report, figures, follows, running
from blackbox import Lab, status_kib, wait_until
from command import good
from test_doctor_followed import finding, started
from test_report import rss

pytestmark = pytest.mark.skipif(
    os.environ.get("STRATA_TEST_MACHINE") != "1" or os.geteuid() != 0,
    reason="changes the machine: STRATA_TEST_MACHINE=1, as root",
)

THP = Path("/sys/kernel/mm/transparent_hugepage")
VM = Path("/proc/sys/vm")
ZRAM = Path("/sys/block/zram0")
MIB = 1 << 20


@contextlib.contextmanager
def changed(file: Path, value: str) -> Iterator[None]:
    before = file.read_text()
    chosen = before[before.index("[") + 1 : before.index("]")] if "[" in before else before
    file.write_text(value)
    try:
        yield
    finally:
        file.write_text(chosen)


def take(fix: str) -> None:
    subprocess.run(["bash", "-c", fix.replace("sudo ", "")], check=True, capture_output=True)


@follows(
    "every program's page faults may stop to compact memory",
    "a page fault takes a hugepage only if one lies ready",
    "mappings, fewer than usual",
)
def test_the_prescriptions_help(lab: Lab) -> None:
    with running(lab, "fields") as pid:
        for rule, file, value in (
            ("thp-defrag", THP / "defrag", "always"),
            ("thp-defrag", THP / "defrag", "never"),
            ("max-map-count", VM / "max_map_count", "30000"),
        ):
            with changed(file, value):
                for fix in finding(pid, rule)["fixes"]:
                    take(fix)
                assert finding(pid, rule)["state"] == "ok"


@follows("khugepaged makes a hugepage out of")
def test_khugepaged_that_fills_what_was_given_back(lab: Lab) -> None:
    with (
        running(lab, "fields") as pid,
        changed(THP / "khugepaged/max_ptes_none", "511"),
        changed(THP / "enabled", "always"),
    ):
        sick = finding(pid, "max-ptes-none")
        assert "out of 1 used pages of 512" in sick["says"], sick
        take(sick["fixes"][0])
        assert finding(pid, "max-ptes-none")["state"] == "ok"


def covered(pid: int) -> float:
    return figures(pid).number("coverage") or 0.0


@follows("The system forbids them", "transparent hugepages are switched off")
def test_a_system_that_forbids_hugepages(lab: Lab, tmp_path: Path) -> None:
    """The report's command and the doctor's are one; a process started afterwards has hugepages."""
    with changed(THP / "enabled", "never"):
        with running(lab, "forbid", 1) as pid:
            said = Report(pid, tmp_path / "a")["coverage"]
            assert "The system forbids them" in said.text, said
            assert covered(pid) < 0.1
            sick = finding(pid, "thp")
            assert sick["fixes"] == [said.command.replace("  ", " ")]
            take(said.command)
            assert finding(pid, "thp")["state"] == "ok"
        with running(lab, "forbid", 1) as pid:
            assert wait_until(lambda: covered(pid) > 0.7)


def python(program: str) -> str:
    return f"{sys.executable} -c '{program}'"


MAPS = """
import mmap, time
kept = []
while len(kept) < 70000:
    try: kept.append(mmap.mmap(-1, 4096, prot=1 + 2 * (len(kept) % 2)))
    except OSError: time.sleep(0.05)
time.sleep(600)
"""


@follows("mappings: the next ones fail, and malloc with them")
def test_a_process_that_has_all_its_mappings(lab: Lab) -> None:
    with started(lab, [], preload=False, command=python(MAPS)) as pid:
        maps = Path(f"/proc/{pid}/maps")
        assert wait_until(lambda: maps.read_text().count("\n") > 65_000)
        most = (VM / "max_map_count").read_text()
        with changed(VM / "max_map_count", most):
            (fix,) = finding(pid, "max-map-count")["fixes"]
            take(fix)
            assert wait_until(lambda: maps.read_text().count("\n") > 70_000)
            assert finding(pid, "max-map-count")["state"] == "ok"


def meminfo(key: str) -> int:
    """In KiB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def may_map(kib: int) -> bool:
    program = f"import mmap; mmap.mmap(-1, {kib} << 10)"
    return subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


@follows("overcommit")
def test_a_kernel_that_has_promised_what_it_has(lab: Lab) -> None:
    with running(lab, "fields") as pid:
        promised = meminfo("Committed_AS")
        with (
            changed(VM / "overcommit_memory", "0"),
            changed(VM / "overcommit_kbytes", str(promised * 5 // 4 - meminfo("SwapTotal"))),
        ):
            (VM / "overcommit_memory").write_text("2")
            try:
                sick, could = finding(pid, "overcommit"), may_map(promised)
            finally:
                (VM / "overcommit_memory").write_text("0")
            (VM / "overcommit_memory").write_text("2")
            take(sick["fixes"][0])
            assert (could, may_map(promised)) == (False, True)
            assert finding(pid, "overcommit")["state"] == "ok"


@contextlib.contextmanager
def zram(mib: int) -> Iterator[None]:
    """Swap in compressed memory, the only one of the machine."""
    if not ZRAM.exists() or meminfo("SwapTotal"):
        pytest.skip("no zram, or swap already")
    (ZRAM / "disksize").write_text(f"{mib}M")
    for command in (["mkswap", "/dev/zram0"], ["swapon", "/dev/zram0"]):
        subprocess.run(command, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["swapoff", "/dev/zram0"], check=True)
        (ZRAM / "reset").write_text("1")


@follows("None of the cold bytes were paged out")
def test_cold_objects_go_to_swap(lab: Lab, tmp_path: Path) -> None:
    program = lab.build_linked(CASES.with_name("advice_hot_cases.cpp"), "-DSTRATA_HOT_CHECK=0")
    with running(lab, program, "idle", 1) as pid:
        said, before = Report(pid, tmp_path / "a")["hotness"], rss(pid)
        with zram(256):
            assert wait_until(lambda: before - rss(pid) > 0.8 * said.brings), (said, rss(pid))
            assert "None of" not in Report(pid, tmp_path / "b")["hotness"].text


def squeeze(group: memory_cgroup.Cgroup, mib: int) -> None:
    """Version 1 refuses a limit as long as more is held, and takes some time to swap it out."""

    def limited() -> bool:
        with contextlib.suppress(OSError):
            group.limit(mib)
            return True
        return False

    assert wait_until(limited), group.usage_mib()


HOLDS = 'import time; kept = bytearray(b"x") * (250 << 20); time.sleep(600)'


@follows("the kernel can only reclaim files or kill now")
def test_swap_that_is_full(lab: Lab) -> None:
    with zram(128), memory_cgroup.made(f"strata-doctor-{os.getpid()}") as group:
        join = [f"echo $$ > {group.path}/cgroup.procs"]
        with started(lab, join, command=python(HOLDS)) as pid:
            assert wait_until(lambda: group.usage_mib() > 250)
            squeeze(group, int(group.usage_mib()) - 120)
            holders, more = finding(pid, "swap")["fixes"]
            listed = subprocess.run(["sh", "-c", holders], capture_output=True, text=True).stdout
            assert listed.startswith(f"/proc/{pid}/status:"), listed
            new = more.split()[-1]
            take(more)
            try:
                assert finding(pid, "swap")["state"] == "ok"
                squeeze(group, int(group.usage_mib()) - 30)
                assert status_kib(pid, "VmSwap") > 140 << 10
            finally:
                group.limit(1000)
                subprocess.run(["swapoff", new], check=True)
                Path(new).unlink()


@follows("of its heap are free, there or in memory")
def test_free_memory_that_is_swapped_out(lab: Lab) -> None:
    with zram(512), memory_cgroup.made(f"strata-doctor-{os.getpid()}") as group:
        join = ("/bin/sh", "-c", memory_cgroup.JOIN, group.path, lab.build(CASES))
        with running(lab, *join, "lull", 160, env=HELD) as pid:
            os.kill(pid, signal.SIGUSR1)
            assert wait_until(lambda: group.usage_mib() > 150)
            squeeze(group, int(group.usage_mib()) - 100)
            (fix,) = finding(pid, "swapped")["fixes"]
            before = status_kib(pid, "VmSwap")
            good(*fix.split()[1:])
            assert finding(pid, "swapped")["state"] == "ok"
            assert status_kib(pid, "VmSwap") < before / 4


THRASHES = """
import time
kept = bytearray(300 << 20)
while True:
    for at in range(0, len(kept), 4096): kept[at] = 1
"""


@follows(
    "are available: a memory cgroup is probably at its limit",
    "or its memory cgroup, has too little",
)
def test_a_cgroup_that_waits_for_memory(lab: Lab) -> None:
    def stalled_us() -> int:
        return int(Path("/proc/pressure/memory").read_text().split()[4].partition("=")[2])

    def stalls() -> int:
        before = stalled_us()
        wait_until(lambda: False, 2)
        return stalled_us() - before

    with zram(1024), memory_cgroup.made(f"strata-doctor-{os.getpid()}") as group:
        group.limit(150)
        join = [f"echo $$ > {group.path}/cgroup.procs"]
        with started(lab, join, command=python(THRASHES)) as pid:
            assert wait_until(lambda: finding(pid, "memory-pressure")["state"] == "mend", 60)
            (which,) = finding(pid, "memory-pressure")["fixes"]
            listed = subprocess.run(["sh", "-c", which], capture_output=True, text=True).stdout
            assert str(group.path) in listed.splitlines()[0], listed
            assert wait_until(lambda: finding(pid, "swapped")["state"] == "mend")
            before = stalls()
            group.limit(1000)
            assert wait_until(lambda: finding(pid, "swapped")["state"] == "ok")
            assert wait_until(lambda: stalls() < before / 4)
