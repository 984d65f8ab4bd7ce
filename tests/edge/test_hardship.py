"""A kernel that refuses: memory limits, missing system calls, no hugepages, rseq or cgroups."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from blackbox import Lab, Result, cases, missing

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "hardship_cases.c"
MIB = 1 << 20
ROUNDS = 3000  # of threads at the limit


def limit(what: int, mib: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (mib * MIB, mib * MIB))


def denied(lab: Lab, rules: list[str], *command: str | Path, **env: str) -> Result:
    """Runs a command in which the system calls named by the rules fail."""
    if lab.library is not None:
        env["DENY_PRELOAD"] = str(lab.library)
    return lab.run(lab.build(HERE / "deny.c"), *rules, "--", *command, env=env, preload=False)


def stats(lab: Lab, path: Path, *args: str | Path, **env: str) -> dict[str, object]:
    lab.run(*args, env={"STRATA_STATS": str(path), **env}).silent()
    report: dict[str, object] = json.loads(path.read_text())
    return report


def test_every_case_is_used() -> None:
    text = Path(__file__).read_text()
    assert all(f'"{case}"' in text for case in cases(SOURCE))


# ---- memory limits


@pytest.mark.parametrize("mib", [128, 512, 3000])
@pytest.mark.parametrize("mode", ["auto", "thread"])
def test_address_space_limit(lab: Lab, mib: int, mode: str) -> None:
    """`ulimit -v` before the start: most of it is usable, then null and ENOMEM, then recovery."""
    program = lab.build(SOURCE)
    bound = min(mib, 700)
    lab.run(
        program,
        "fill_and_recover",
        str(bound * 2 // 5),
        str(bound),
        env={"STRATA_CACHE": mode},
        preexec_fn=limit(resource.RLIMIT_AS, mib),
    ).silent()


def test_data_limit(lab: Lab) -> None:
    """RLIMIT_DATA counts every private writable mapping."""
    lab.run(
        lab.build(SOURCE),
        "fill_and_recover",
        "100",
        "700",
        preexec_fn=limit(resource.RLIMIT_DATA, 256),
    ).silent()


@pytest.mark.parametrize(
    "case", ["every_function_refuses", "small_blocks_run_dry", "threads_at_the_limit"]
)
def test_at_the_limit(lab: Lab, case: str) -> None:
    preexec = limit(resource.RLIMIT_AS, 300)
    lab.run(lab.build(SOURCE), case, str(ROUNDS), preexec_fn=preexec, timeout=150).silent()


def test_limit_set_by_the_program(lab: Lab) -> None:
    lab.run(lab.build(SOURCE), "limit_set_later").silent()


@pytest.mark.parametrize(
    "case", ["every_function_refuses", "small_blocks_run_dry", "threads_at_the_limit"]
)
def test_heap_limit_option(lab: Lab, case: str) -> None:
    lab.require_strata()
    lab.run(lab.build(SOURCE), case, env={"STRATA_HEAP_LIMIT": "100M"}).silent()


def test_heap_limit_is_kept(lab: Lab) -> None:
    """Under 100 MiB allowed, 100 MiB cannot be had at once, 50 can."""
    lab.require_strata()
    program = lab.build(SOURCE)
    env = {"STRATA_HEAP_LIMIT": "100M"}
    lab.run(program, "fill_and_recover", "48", "90", env=env).silent()
    refused = lab.run(program, "fill_and_recover", "101", "120", env=env)
    assert refused.returncode == 1, refused.explain()


# ---- system calls that fail


@pytest.mark.parametrize(
    "rules",
    [
        ["mmap:ENOMEM:1073741824"],
        ["mmap:ENOMEM:67108864"],
        ["mremap:ENOMEM"],
        ["mremap:ENOSYS"],
        ["madvise:EINVAL"],
        ["madvise:EPERM"],
        ["madvise:ENOMEM"],
        ["brk:ENOMEM"],
        ["munmap:ENOMEM"],
        ["prctl:EPERM"],
        ["getcpu:ENOSYS", "sched_getaffinity:EPERM"],
        ["membarrier:EPERM"],
        ["membarrier:ENOSYS"],
        ["rseq:ENOSYS"],
        ["rseq:EPERM", "membarrier:EPERM"],
    ],
    ids=" ".join,
)
def test_refused_system_call(lab: Lab, rules: list[str]) -> None:
    if lab.library is None or "strata" not in lab.library.name:
        pytest.skip("only Strata promises this")
    program = lab.build(SOURCE)
    for case in ("ordinary", "ordinary_threads"):
        denied(lab, rules, program, case).silent()


@pytest.mark.parametrize("error", ["ENOMEM", "EINVAL", "ENOSYS"])
def test_pages_that_do_not_move_are_copied(lab: Lab, error: str) -> None:
    """Where the library may call mremap, and the kernel says no."""
    lab.require_strata()
    program = lab.build(HERE / "api_cases.c")
    rules, env = [f"mremap:{error}"], {"STRATA_CONTROL": "always"}
    denied(lab, rules, program, "realloc_large_neighbours", **env).silent()


@pytest.mark.parametrize("error", ["EAGAIN", "EPERM", "ENOMEM"])
def test_no_background_thread_can_start(lab: Lab, error: str) -> None:
    denied(lab, [f"clone3:{error}", f"clone:{error}"], lab.build(SOURCE), "ordinary").silent()


def test_commit_refused(lab: Lab) -> None:
    """Once mappings above 8 MiB cannot be made or opened, requests fail cleanly or are served."""
    lab.require_strata()
    rules = ["mmap:ENOMEM:8388608", "mprotect:ENOMEM:8388608", "mremap:ENOMEM", "brk:ENOMEM"]
    denied(lab, rules, lab.build(SOURCE), "fill_and_recover", "0", "300").silent()


# ---- features switched off


def test_rseq_switched_off(lab: Lab, tmp_path: Path) -> None:
    lab.require_strata()
    tunables = "glibc.pthread.rseq=0"
    program = lab.build(SOURCE)
    report = stats(lab, tmp_path / "s", program, "ordinary_threads", GLIBC_TUNABLES=tunables)
    assert report["cache_mode"] == "per-thread", report
    env = {"GLIBC_TUNABLES": tunables, "STRATA_STATS": "exit"}
    text = lab.run(program, "ordinary_threads", env=env)
    assert text.returncode == 0 and text.stdout == "", text.explain()
    assert "per-thread" in text.stderr, text.explain()


def test_cpu_caches_asked_for_without_rseq(lab: Lab, tmp_path: Path) -> None:
    """STRATA_CACHE=cpu cannot be met: one line at most, and per-thread caches."""
    lab.require_strata()
    env = {
        "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
        "STRATA_CACHE": "cpu",
        "STRATA_STATS": str(tmp_path / "s"),
    }
    result = lab.run(lab.build(SOURCE), "ordinary_threads", env=env)
    assert result.returncode == 0 and result.stdout == "", result.explain()
    assert len(result.stderr.splitlines()) <= 1, result.explain()
    assert json.loads((tmp_path / "s").read_text())["cache_mode"] == "per-thread"


def test_cache_mode_is_named(lab: Lab, tmp_path: Path) -> None:
    lab.require_strata()
    program = lab.build(SOURCE)
    chosen = stats(lab, tmp_path / "a", program, "ordinary_threads")["cache_mode"]
    assert chosen in ("per-cpu (mm_cid)", "per-cpu (cpu_id)", "per-thread")
    forced = stats(lab, tmp_path / "b", program, "ordinary_threads", STRATA_CACHE="thread")
    assert forced["cache_mode"] == "per-thread"


def test_hugepages_off(lab: Lab) -> None:
    program = lab.build(SOURCE)
    lab.run(program, "hugepages_disabled").silent()
    lab.run(program, "ordinary", env={"STRATA_HUGEPAGES": "off"}).silent()


def test_background_thread_off(lab: Lab) -> None:
    lab.run(lab.build(SOURCE), "ordinary_threads", env={"STRATA_BACKGROUND": "off"}).silent()


def in_namespace(lab: Lab, script: str, *command: str | Path) -> Result:
    """Runs a command after a shell script, in a mount namespace of its own."""
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        missing("needs root and unshare")
    preload = "" if lab.library is None else f"env LD_PRELOAD={lab.library} "
    line = f"{script}\nexec {preload}" + " ".join(str(part) for part in command)
    return lab.run(str(unshare), "-m", "sh", "-e", "-c", line, preload=False)


@pytest.mark.parametrize(
    "script",
    [
        "mount -t tmpfs none /sys/fs/cgroup",
        "mount -t tmpfs none /sys",
        "mount -t tmpfs -o mode=0700 none /proc",
        "echo nonsense >$DIR/f; mount --bind $DIR/f /proc/self/cgroup",
        "head -c 100000 /dev/urandom >$DIR/f; mount --bind $DIR/f /proc/self/cgroup",
        "mkdir $DIR/d; mount --bind $DIR/d /sys/fs/cgroup/memory 2>/dev/null"
        " || mount --bind $DIR/d /sys/fs/cgroup;"
        " for f in memory.max memory.limit_in_bytes; do mkdir $DIR/d/$f; done",
    ],
    ids=["no cgroups", "no sysfs", "no procfs", "nonsense", "binary", "directories"],
)
def test_unreadable_system_files(lab: Lab, tmp_path: Path, script: str) -> None:
    """Cgroup and other files of the system that are missing, unreadable or full of nonsense."""
    program = lab.build(SOURCE)
    in_namespace(lab, f"DIR={tmp_path}\n{script}", program, "ordinary_threads").silent()


def test_a_limit_too_small_for_anything_is_a_limit(lab: Lab) -> None:
    lab.require_strata()
    env = {"STRATA_HEAP_LIMIT": "1K"}
    lab.run(lab.build(SOURCE), "nothing_is_allowed", env=env).silent()
