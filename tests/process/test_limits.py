"""Memory limits of a container: what the library sees, and that it gives back before the kernel
kills. Each test makes a memory cgroup of its own, version 1 or 2."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import memory_cgroup
import pytest
from blackbox import ROOT, Lab, Result, missing, wait_until
from memory_cgroup import JOIN, KILLED, MIB, Cgroup, made, remove

HERE = Path(__file__).resolve().parent
LOAD = ROOT / "bench/programs/container.cpp"
JEMALLOC = Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")


@contextlib.contextmanager
def one_cpu(name: str) -> Iterator[Path]:
    """A cgroup with CPU time for one CPU."""
    for parent, quota, value in (
        ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000"),
        ("/sys/fs/cgroup", "cpu.max", "100000 100000"),
    ):
        group = Path(parent) / name
        with contextlib.suppress(OSError):
            group.mkdir()
            if (group / quota).exists():
                (group / quota).write_text(value)
                break
            group.rmdir()
    else:
        pytest.skip("no CPU cgroup can be made here")
    try:
        yield group
    finally:
        remove(group)


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    with made(f"strata-test-{os.getpid()}") as group:
        yield group


@pytest.fixture(scope="module")
def load(lab: Lab) -> Path:
    return lab.build(LOAD, "-O2")


def args(load: Path, live: int, rounds: int, seed: int) -> list[str | Path]:
    return [load, f"--live={live}", f"--rounds={rounds}", f"--seed={seed}"]


def killed(run: Callable[[int], Result]) -> bool:
    """Whether the load is, with any of two seeds: on a busy machine one may be slow enough."""
    return any(run(seed).returncode in KILLED for seed in (1, 2))


def test_a_machine_without_cgroups_is_no_success_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_cgroup, "VERSIONS", ())
    for ci, outcome in (("true", pytest.fail.Exception), ("", pytest.skip.Exception)):
        monkeypatch.setenv("CI", ci)
        with pytest.raises(outcome, match="no memory cgroup"), made("strata-test-none"):
            pass


@pytest.mark.parametrize("seed", [1, 2])
def test_live_data_of_85_percent_finishes(lab: Lab, load: Path, cgroup: Cgroup, seed: int) -> None:
    lab.require_strata()
    cgroup.limit(96)
    cgroup.run(lab, *args(load, 81, 1, seed)).ok()


def test_no_background_thread_is_needed(lab: Lab, load: Path, cgroup: Cgroup) -> None:
    """The load takes its memory faster than a watch once a second could see."""
    lab.require_strata()
    cgroup.limit(96)
    cgroup.run(lab, *args(load, 81, 1, 4), env={"STRATA_BACKGROUND": "off"}).ok()


def test_the_soft_limit_is_what_saves_it(lab: Lab, load: Path, cgroup: Cgroup) -> None:
    lab.require_strata()
    cgroup.limit(96)
    env = {"STRATA_SOFT_LIMIT": "off"}
    assert killed(lambda seed: cgroup.run(lab, *args(load, 81, 1, seed), env=env))


@pytest.mark.parametrize("peer", ["glibc", "jemalloc"])
def test_others_are_killed(lab: Lab, load: Path, cgroup: Cgroup, peer: str) -> None:
    """The load is one that needs the care: if this test fails, it proves nothing above."""
    env = {}
    if peer == "jemalloc":
        if not JEMALLOC.exists():
            missing("Debian's libjemalloc2 is not installed")
        env["LD_PRELOAD"] = str(JEMALLOC)
    cgroup.limit(96)
    assert killed(lambda seed: cgroup.run(lab, *args(load, 81, 1, seed), env=env, preload=False))


def read_limits(out: Path) -> dict[str, int]:
    limits: dict[str, int] = json.loads(out.read_text())["limits"] if out.exists() else {}
    return limits


def test_a_limit_lowered_while_running_is_kept(lab: Lab, cgroup: Cgroup, tmp_path: Path) -> None:
    """What a program at rest holds free goes back when its container shrinks, without RELEASE."""
    lab.require_strata()
    cgroup.limit(1024)
    out = tmp_path / "stats.json"
    env = {"STRATA_RELEASE": "off", "STRATA_STATS": str(out), "STRATA_STATS_INTERVAL": "1"}
    program = lab.build(HERE / "held.c")
    with lab.start("/bin/sh", "-c", JOIN, cgroup.path, program, "100", env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        time.sleep(1.5)
        assert cgroup.usage_mib() > 90
        for mib in (112, 106, 100):  # the kernel takes no limit below what is in use
            cgroup.limit(mib)
            assert cgroup.falls_below(mib * 0.9), cgroup.usage_mib()
        seen = 100 * MIB
        assert wait_until(lambda: read_limits(out).get("cgroup_limit") == seen)
        limits = read_limits(out)
        assert limits["soft_limit"] == seen // 10 * 9
        assert limits["soft_hits"] > 0
        assert 0 < limits["cgroup_usage"] < seen
        assert limits["hard_limit"] == limits["hard_failures"] == 0
        assert process.poll() is None


def test_caches_are_bounded_by_the_cpu_quota(lab: Lab, tmp_path: Path) -> None:
    """Several vCPUs in use and time for one: together the caches may hold one share."""
    lab.require_strata()
    out = tmp_path / "stats.json"
    share = MIB
    env = {
        "STRATA_STATS": str(out),
        "STRATA_STATS_INTERVAL": "1",
        "STRATA_CPU_CACHE_BYTES": str(share),
        "STRATA_ADAPTIVE": "off",  # else those at rest lend their part, and hold less anyway
    }

    def limits() -> list[int]:
        rows = json.loads(out.read_text())["cpu_caches"] if out.exists() else []
        return [row["limit"] for row in rows]

    with one_cpu(f"strata-test-cpu-{os.getpid()}") as group:
        program = lab.build(HERE / "held.c", "-pthread")
        with lab.start("/bin/sh", "-c", JOIN, group, program, "20", "4", env=env) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            if not wait_until(lambda: len(limits()) > 1, 10):
                pytest.skip("fewer than two per-CPU caches came into use")
            assert wait_until(lambda: sum(limits()) <= share), limits()
            assert process.poll() is None


def test_a_soft_limit_in_bytes_needs_no_cgroup(lab: Lab, load: Path) -> None:
    lab.require_strata()
    peaks = []
    for soft in ("off", "110M"):
        # The thread would give back by itself, the more of it the slower the load is.
        env = {"STRATA_SOFT_LIMIT": soft, "STRATA_RELEASE": "off"}
        done = lab.run(*args(load, 90, 1, 1), env=env).ok()
        peaks.append(int(done.stdout.split("peak_rss_kib=")[1].split()[0]) / 1024)
    assert peaks[1] < 120 < peaks[0], peaks


def test_the_verbose_line_says_what_was_found(lab: Lab, cgroup: Cgroup) -> None:
    lab.require_strata()
    cgroup.limit(256)
    env = {"STRATA_VERBOSE": "1", "STRATA_HEAP_LIMIT": "1G"}
    done = cgroup.run(lab, "/bin/true", env=env)
    line = done.strata_lines()[-1]  # the shell's says what held before it joined
    assert "cgroup limit 256.0 MiB" in line
    assert "soft limit 230.4 MiB" in line
    assert "heap limit 1024.0 MiB" in line
    assert "CPU quota " in line
