"""docs/security.md says which system calls are made, and by whom; strace says whether it is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from blackbox import ROOT, Lab, need

PAGE = ROOT / "docs" / "security.md"
SOURCE = Path(__file__).resolve().parent / "calls.c"
# What the program, libc and the loader call themselves in these cases.
OF_THE_PROGRAM = set(
    "execve brk mmap munmap mprotect openat newfstatat fstat pread64 read close access arch_prctl "
    "set_tid_address set_robust_list rseq prlimit64 getrandom exit_group exit write "
    "clock_nanosleep prctl seccomp futex readlink".split()
)


def table() -> dict[str, tuple[set[str], set[str]]]:
    """Each row of the page's table: the calls of the program's threads, and of the library's."""
    text = PAGE.read_text().split("<!-- calls -->")[1].split("\n\n")[0]
    rows = {}
    for line in text.splitlines()[3:]:
        when, program, own = (cell.strip() for cell in line.strip("|").split("|"))
        rows[when] = (set(re.findall(r"`(\w+)`", program)), set(re.findall(r"`(\w+)`", own)))
    return rows


def calls(
    lab: Lab, tmp_path: Path, case: str, env: dict[str, str] | None = None
) -> list[list[str]]:
    """The calls of each thread of the program, the main thread's first, in their order."""
    lab.require_strata()
    log = tmp_path / "calls"
    preload = ["-E", f"LD_PRELOAD={lab.library}", "-E", "LD_BIND_NOW=1"]
    for name, value in (env or {}).items():
        preload += ["-E", f"{name}={value}"]
    program = lab.build(SOURCE)
    command: list[str | Path] = [need("strace"), "-ff", "-qq", "-o", log]
    command += [*preload, program, case]
    result = lab.run(*command, preload=False, timeout=90)
    if "ptrace" in result.stderr:
        pytest.skip("strace may not trace here")
    assert result.returncode == 0, result.explain()
    threads = sorted(log.parent.glob("calls.*"), key=lambda path: int(path.suffix[1:]))
    return [re.findall(r"^(\w+)\(", path.read_text(), re.MULTILINE) for path in threads]


def after_mark(names: list[str]) -> list[str]:
    """From the program's mark on, a call that nobody else makes."""
    assert "alarm" in names
    return names[names.index("alarm") + 1 :]


def test_start(lab: Lab, tmp_path: Path) -> None:
    main = calls(lab, tmp_path, "start")[0]
    start = main[: main.index("alarm")]
    allowed = table()["at the start"][0]
    assert set(start) - OF_THE_PROGRAM - allowed == set()
    assert allowed <= set(start)
    # A filter that is there before lets the loader make all of these but the advice.
    assert allowed - OF_THE_PROGRAM == {"madvise"}


def test_work_and_the_thread(lab: Lab, tmp_path: Path) -> None:
    main, *others = calls(lab, tmp_path, "work")
    program, own = table()["afterwards"]
    assert set(after_mark(main)) - OF_THE_PROGRAM - program - {"alarm"} == set()
    assert len(others) == 1, "one thread of the library's"
    assert set(others[0]) - own == set()
    assert {"capset", "ppoll"} <= set(others[0])


def test_growing_blocks(lab: Lab, tmp_path: Path) -> None:
    made = set(after_mark(calls(lab, tmp_path, "grow")[0]))
    program, _ = table()["afterwards"]
    assert made - OF_THE_PROGRAM - program - {"alarm"} == set()
    if "Seccomp:\t0" in Path("/proc/self/status").read_text():
        assert "mremap" in made  # else it copies


def test_first_scope(lab: Lab, tmp_path: Path) -> None:
    """It has the lock that its thread goes through without an atomic step, which takes a fence."""
    made = set(after_mark(calls(lab, tmp_path, "scope")[0]))
    program, _ = table()["afterwards"]
    assert made - OF_THE_PROGRAM - program - {"alarm"} == set()
    if "Seccomp:\t0" in Path("/proc/self/status").read_text():
        assert "membarrier" in made


def test_own_filter(lab: Lab, tmp_path: Path) -> None:
    """After the mark, which comes behind the filter, malloc maps, unmaps and waits; no more."""
    main, *others = calls(lab, tmp_path, "confined")
    program, _ = table()["under a filter of its own"]
    assert set(after_mark(main)) - program - {"exit_group", "alarm"} == set()
    for names in others:
        assert names[-1] == "exit"


def test_switches(lab: Lab, tmp_path: Path) -> None:
    names = ("BACKGROUND", "SOFT_LIMIT", "SAMPLE", "GUARD")
    off = {f"STRATA_{name}": "off" if name != "SAMPLE" else "0" for name in names}
    main, *others = calls(lab, tmp_path, "work", off)
    assert others == []
    made = set(after_mark(main))
    assert made.isdisjoint({"openat", "clone3", "process_vm_readv", "socket"})
