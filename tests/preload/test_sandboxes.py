"""Programs behind filters that kill: what glibc's malloc survives, the library does by default."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from pathlib import Path

import pytest
from blackbox import Lab, need

HERE = Path(__file__).resolve().parent
CASES = (
    "all",
    "without_advice",
    "threads",
    "threads_tsync",
    "threads_each",
    "after_growth",
    "from_the_start",
    "asks",
    "asks_from_the_start",
)

# Classic BPF: load a word of seccomp_data, compare it, return a verdict.
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, KILL_PROCESS = 0x7FFF0000, 0x80000000
X86_64 = 0xC000003E
# What the loader and libc call to start a small program; what its malloc and its work call.
LOADER = (
    "execve brk mmap munmap mprotect openat newfstatat pread64 read close access arch_prctl "
    "set_tid_address set_robust_list rseq prlimit64 getrandom"
)
WORK = "mremap madvise futex write exit_group"


def filter_of(names: str) -> bytes:
    """A filter that ends the process at any call but these."""
    numbers = [call_number(name) for name in names.split()]
    code = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, X86_64), (RETURN, 0, 0, KILL_PROCESS), (LOAD, 0, 0, 0)]
    code += [(EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    code += [(RETURN, 0, 0, KILL_PROCESS), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def call_number(name: str) -> int:
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h").read_text()
    found = re.search(rf"#define __NR_{name} (\d+)", header)
    assert found, name
    return int(found[1])


@pytest.mark.parametrize("case", CASES)
def test_strict_allowlist(lab: Lab, case: str) -> None:
    result = lab.run(lab.build(HERE / "strict.c"), case)
    assert result.ok().stdout == "done\n"


def test_statistics_without_a_filter(lab: Lab, tmp_path: Path) -> None:
    """NO_NEW_PRIVS alone forbids nothing."""
    file = tmp_path / "stats"
    lab.run(lab.build(HERE / "strict.c"), "no_new_privs", env={"STRATA_STATS": str(file)}).ok()
    stats = json.loads(file.read_text())
    assert stats["resident_known"] is True
    assert stats["bytes"]["untouched"] > 50 << 20, stats["bytes"]
    assert stats["bytes"]["resident"] < 30 << 20, stats["bytes"]
    assert "coverage" in stats


def test_statistics_behind_a_filter(lab: Lab) -> None:
    """Text that says what it can't know, and leaves it out."""
    result = lab.run(lab.build(HERE / "strict.c"), "prints")
    assert (result.returncode, result.stdout) == (0, "done\n"), result.explain()
    text = result.stderr
    assert re.search(r"resident +\d.* MiB +at most: the kernel can't be asked here\n", text), text
    assert "untouched" not in text and "coverage" not in text


def bubble(*args: str | Path) -> list[str | Path]:
    """bwrap with all that it can unshare, around a command; it runs on the library itself."""
    everything = [need("bwrap"), "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"]
    everything += ["--dev", "/dev", "--proc", "/proc"]
    if subprocess.run([*everything, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("bwrap cannot make a sandbox here")
    return [*everything, *args]


PYTHON = """
import threading
kept = [[bytes(n % 3000) for n in range(20_000)] for _ in range(3)]
threads = [threading.Thread(target=lambda: [bytearray(n * 10) for n in range(9000)]) for _ in "ab"]
for thread in threads: thread.start()
for thread in threads: thread.join()
large = [bytearray(3 << 20) for _ in range(30)]
del large, kept
threading.Event().wait(1.6)
print(sum(len(bytes(n)) for n in range(5000)))
"""


def test_bubblewrap(lab: Lab) -> None:
    command = bubble("--cap-drop", "ALL", "/usr/bin/python3", "-c", PYTHON)
    result = lab.run(*command, env={"PYTHONMALLOC": "malloc"})
    assert result.ok().stdout == "12497500\n"


def test_bubblewrap_with_an_allowlist(lab: Lab, tmp_path: Path) -> None:
    """The filter is there before the library is: it kills at whatever the program does not need."""
    program = lab.build(HERE / "strict.c")
    filter_file = tmp_path / "filter"
    filter_file.write_bytes(filter_of(f"{LOADER} {WORK}"))
    with filter_file.open("rb") as file:
        fd = file.fileno()
        command = bubble("--as-pid-1", "--seccomp", str(fd), program, "filtered_by_another")
        assert lab.run(*command, pass_fds=(fd,)).ok().stdout == "done\n"
