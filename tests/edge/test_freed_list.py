"""Writes to freed blocks, which no cache may follow, and pointers into the middle of a block."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from blackbox import Lab

SOURCE = Path(__file__).resolve().parent / "freed_list_cases.c"
THREAD = {"STRATA_CACHE": "thread"}
IGNORE = {"STRATA_ON_ERROR": "ignore"}

WRITES = """
    zero ones text decoy live itself lowest_byte second_byte highest_byte others_link
""".split()
# The checked ways, which find it in any mode. reallocarray is realloc.
CHECKED = """
free
    realloc_to_more realloc_to_less realloc_to_the_same realloc_to_nothing reallocarray
    free_sized free_aligned_sized
""".split()
# Sizes of classes whose alignment does not show that the place is inside a block.
INSIDE = [(48, 16), (48, 32), (80, 48), (112, 64), (144, 16), (240, 224), (320, 64), (1152, 128)]
MIDDLE = "strata: free of a pointer into the middle of a block: "


def expect_one_line(lab: Lab, start: str, *args: str, env: dict[str, str]) -> None:
    """One line and SIGABRT; one line and no harm done where that was asked for."""
    lab.require_strata()
    program = lab.build(SOURCE)
    died = lab.run(program, *args, env=env)
    assert died.returncode == -signal.SIGABRT, died.explain()
    went_on = lab.run(program, *args, env=env | IGNORE)
    assert went_on.returncode == 0, went_on.explain()
    for result in (died, went_on):
        assert len(result.strata_lines()) == 1, result.explain()
        assert len(result.stderr.splitlines()) == 1, result.explain()
        assert result.stderr.startswith(start), result.explain()


@pytest.mark.parametrize("mode", ["auto", "thread"])
@pytest.mark.parametrize("size", [8, 48, 1000])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_to_a_freed_block_leads_nowhere(lab: Lab, write: str, size: int, mode: str) -> None:
    """Nothing that malloc lives by lies in the block; what was written is all that is harmed."""
    lab.require_strata()
    env = {"STRATA_CACHE": mode}
    lab.run(lab.build(SOURCE), "write_after_free", str(size), write, env=env).silent()


def test_a_write_to_a_freed_block_leads_nowhere_at_thread_end(lab: Lab) -> None:
    lab.require_strata()
    lab.run(lab.build(SOURCE), "write_after_free_at_thread_end", "64", env=THREAD).silent()


@pytest.mark.parametrize("size", [8, 48, 1000])
def test_a_double_free_of_the_newest_block_is_found(lab: Lab, size: int) -> None:
    start = "strata: double free: "
    expect_one_line(lab, start, "double_free_of_the_newest_block", str(size), env=THREAD)


@pytest.mark.parametrize("case", ["untouched_blocks_come_and_go", "links_are_not_shown"])
def test_sound_use(lab: Lab, case: str) -> None:
    if case == "links_are_not_shown":
        lab.require_strata()
    lab.run(lab.build(SOURCE), case, env=THREAD).silent()


@pytest.mark.parametrize("mode", ["auto", "thread"])
@pytest.mark.parametrize("way", CHECKED)
def test_an_interior_pointer(lab: Lab, way: str, mode: str) -> None:
    for size, off in INSIDE[:: len(INSIDE) - 1] if mode == "thread" else INSIDE:
        env = {"STRATA_CACHE": mode}
        expect_one_line(lab, MIDDLE, "interior", str(size), way, str(off), env=env)


@pytest.mark.parametrize("mode", ["auto", "thread"])
def test_no_interior_pointer_is_taken(lab: Lab, mode: str) -> None:
    lab.require_strata()
    # A guarded block, one of 10,000, has a message of its own.
    env = {"STRATA_CACHE": mode, "STRATA_ON_ERROR": "ignore", "STRATA_GUARD": "off"}
    result = lab.run(lab.build(SOURCE), "no_interior_pointer_is_taken", env=env)
    assert result.returncode == 0, result.explain()
    assert all(MIDDLE in line for line in result.strata_lines()), result.explain()
