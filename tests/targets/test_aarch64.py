"""The library cross-built for aarch64, under qemu-user: thread caches, since that has no rseq.

What has a file of its own for the architecture, by the programs of other tests: system calls, the
stack switch, vfork, dlopen's jump, stack walks, operator new. qemu-user makes a vfork a fork: in a
copy of the memory a lock that another thread held is never let go, so vfork beside threads is a
case of test_system.py alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import TESTS, Lab

HERE = Path(__file__).resolve().parent


def test_caches_are_of_threads(lab: Lab) -> None:
    result = lab.run(lab.build(HERE / "cache_mode.c")).ok()
    assert result.stdout == "per-thread\n"


def test_few_addresses(lab: Lab) -> None:
    """A Raspberry Pi's kernel has 39 bits of them, where the heap's usual place is out of reach."""
    env = {"QEMU_RESERVED_VA": "0x8000000000"}
    lab.run(lab.build(TESTS / "edge/api_cases.c"), "realloc_moves_pages", env=env).silent()


@pytest.mark.parametrize(
    ("source", "case"),
    [
        ("edge/api_cases.c", "malloc_too_big"),
        ("edge/api_cases.c", "calloc_overflow"),
        ("edge/api_cases.c", "errno_kept_on_success"),
        ("edge/api_cases.c", "realloc_moves_pages"),
        ("edge/new_cases.cpp", "every_form"),
        ("edge/new_cases.cpp", "every_aligned_form"),
        ("edge/new_cases.cpp", "no_handler_throws"),
        ("process/vfork_cases.c", "fails_as_libcs"),
        ("process/thread_cases.c", "key_destructors_allocate"),
    ],
)
def test_case(lab: Lab, source: str, case: str) -> None:
    lab.run(lab.build(TESTS / source), case).silent()


def test_forks_of_one_thread(lab: Lab) -> None:
    """Of more than one qemu-user itself fails now and then; test_system.py has the storm."""
    lab.run(lab.build(HERE / "forks.c")).silent()


def test_statistics_and_profile(lab: Lab, tmp_path: Path) -> None:
    """The reports at exit: the architecture's arithmetic, and stacks."""
    env = {"STRATA_STATS": str(tmp_path / "stats"), "STRATA_SAMPLE": "4096"}
    env["STRATA_PROFILE"] = f"heap:{tmp_path / 'profile'}"
    lab.run(lab.build(HERE / "cache_mode.c"), env=env).ok()
    assert any(path.stat().st_size > 200 for path in tmp_path.glob("stats*"))
    assert any(path.stat().st_size > 200 for path in tmp_path.glob("profile*"))
