"""Memory errors: what is found by default, by guards and in a checked run, and how it is told.

The cases are in memory_error_cases.c; each is one bug of a small program, or something right.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from blackbox import Lab, Result, cases

SOURCE = Path(__file__).resolve().parent / "memory_error_cases.c"
HANDLERS = SOURCE.with_name("handler_cases.c")
CASES = cases(SOURCE)
DOUBLE = [case for case in CASES if case.startswith("double_")]
BAD_FREES = DOUBLE + [case for case in CASES if case.startswith(("inside_", "foreign_"))]
ACCESSES = [case for case in CASES if case.startswith(("overflow_", "underflow_", "use_after_"))]
RIGHT = [case for case in CASES if case.startswith("ok_")]

GUARDED = {"STRATA_GUARD": "1/1"}
CHECKED = {"STRATA_CHECK": "on", "STRATA_GUARD": "off"}
MODES = {
    "default": {},
    "guarded": GUARDED,
    "checked": CHECKED,
    "per-thread": {"STRATA_CACHE": "thread"},
    "per-thread guarded": {"STRATA_CACHE": "thread", **GUARDED},
}
# Reads leave no trace, and what misses the canaries is not seen by them.
NOT_BY_CHECKS = {
    "overflow_page",
    "overflow_page_of_1MiB",
    "overflow_by_read",
    "use_after_free_read",
    "use_after_free_read_1MiB",
}
NOT_BY_GUARDS = {"overflow_never_freed"}  # found when the block is freed


def run(lab: Lab, case: str, env: dict[str, str], source: Path = SOURCE) -> Result:
    lab.require_strata()
    return lab.run(lab.build(source, "-pthread", "-w"), case, env=env)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", BAD_FREES)
def test_a_bad_free_ends_the_process(lab: Lab, case: str, mode: str) -> None:
    result = run(lab, case, MODES[mode])
    assert result.returncode == -signal.SIGABRT, result.explain()
    first = result.strata_lines()[0]
    if case in DOUBLE:
        assert "double free" in first, result.explain()
    if case.startswith("inside_"):
        assert re.search("into the middle of a block|invalid free", first), result.explain()
        assert "invalid-free" in result.stderr, result.explain()
    if mode in ("default", "per-thread"):
        assert len(result.stderr.splitlines()) == 1, result.explain()


def test_a_large_block_freed_twice_is_not_taken_for_its_neighbour(lab: Lab) -> None:
    result = run(lab, "large_twice_between_live_ones", {})
    assert result.returncode == -signal.SIGABRT, result.explain()
    assert "freed before?" in result.strata_lines()[0], result.explain()


@pytest.mark.parametrize("case", [case for case in ACCESSES if case not in NOT_BY_GUARDS])
@pytest.mark.parametrize("mode", ["guarded", "per-thread guarded"])
def test_guards_find_an_access(lab: Lab, case: str, mode: str) -> None:
    for _ in range(3):  # at the left end of its page, or at the right
        result = run(lab, case, MODES[mode])
        assert result.returncode in (-signal.SIGSEGV, -signal.SIGABRT), result.explain()
        assert re.match(r"strata: (overflow|underflow|use after free): ", result.stderr), (
            result.explain()
        )
        kind = re.match(r"(overflow|underflow|use_after)", case)
        assert kind is not None
        assert kind[0].split("_")[0] in result.strata_lines()[0], result.explain()


@pytest.mark.parametrize("case", [case for case in ACCESSES if case not in NOT_BY_CHECKS])
def test_checks_find_an_access(lab: Lab, case: str) -> None:
    result = run(lab, case, CHECKED)
    assert result.returncode == -signal.SIGABRT, result.explain()
    kind = re.match(r"(overflow|underflow|use_after)", case)
    assert kind is not None
    assert kind[0].split("_")[0] in result.strata_lines()[0], result.explain()


@pytest.mark.parametrize("env", [GUARDED, CHECKED], ids=["guarded", "checked"])
def test_the_message_tells_block_stacks_and_where_to_read_on(lab: Lab, env: dict[str, str]) -> None:
    result = run(lab, "use_after_realloc", env)
    lines = result.stderr.splitlines()
    assert re.fullmatch(
        r"strata: use after free: .*0x[0-9a-f]+, 32 bytes inside a freed block of 64 bytes at"
        r" 0x[0-9a-f]+",
        lines[0],
    ), result.explain()
    allocated = next(i for i, line in enumerate(lines) if "allocated by thread" in line)
    freed = next(i for i, line in enumerate(lines) if "freed by thread" in line)
    assert re.fullmatch(
        r"strata:   #0 0x[0-9a-f]+ \S*New\S* /\S+\+0x[0-9a-f]+", lines[allocated + 1]
    ), result.explain()
    assert "Run_use_after_realloc" in lines[allocated + 2], result.explain()
    assert "Run_use_after_realloc" in lines[freed + 1], result.explain()
    # A function without a symbol is its file and the place there, not a build id.
    assert not re.search(r"#\d+ \S+ [0-9a-f]+\+0x", result.stderr), result.explain()
    assert lines[-1] == "strata: read on: strata explain use-after-free, or docs/errors.md"
    page = Path(__file__).resolve().parents[2] / "docs/errors.md"
    assert "### Use after free" in page.read_text()


# What was done to the block, before who allocated and who freed it.
DONE = {
    "overflow_page": "written",
    "overflow_page_of_1MiB": "written",
    "use_after_free_read": "read",
    "use_after_free_write": "written",
    "double_after_one_24": "freed again",
    "inside_400": "passed to free or realloc",
    "foreign_stack": "freed",
}


def told_stacks(result: Result) -> dict[str, list[str]]:
    """The frames that the message tells, by what they did."""
    stacks: dict[str, list[str]] = {}
    frames: list[str] = []
    for line in result.stderr.splitlines():
        if what := re.fullmatch(r"strata: (.*) by thread [1-9]\d*:", line):
            frames = stacks.setdefault(what[1], [])
        elif re.match(r"strata:   #\d+ ", line):
            frames.append(line)
    return stacks


@pytest.mark.parametrize("env", [GUARDED, CHECKED], ids=["guarded", "checked"])
@pytest.mark.parametrize("case", DONE)
def test_the_message_tells_who_did_it(lab: Lab, case: str, env: dict[str, str]) -> None:
    if env is CHECKED and case in NOT_BY_CHECKS | {"use_after_free_write"}:
        return  # what was done is not seen, but later that it was
    result = run(lab, case, env)
    stacks = told_stacks(result)
    assert f"Run_{case}" in "".join(stacks[DONE[case]]), result.explain()
    known = set(stacks) - {DONE[case]}
    if case.startswith(("use_after", "double")):
        assert known == {"allocated", "freed"}, result.explain()
    elif not case.startswith("foreign"):
        assert known == {"allocated"}, result.explain()


@pytest.mark.parametrize("env", [GUARDED, CHECKED], ids=["guarded", "checked"])
def test_what_is_found_at_the_free_was_live_till_then(lab: Lab, env: dict[str, str]) -> None:
    lines = {run(lab, "overflow_8", env).strata_lines()[0] for _ in range(6)}
    found = [line for line in lines if "found overwritten" in line]
    assert found, lines  # a guard at the right end of its page stops the write itself
    for line in found:
        assert "right behind the end of a block of 40 bytes" in line


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", RIGHT)
def test_what_is_right_stays_right(lab: Lab, case: str, mode: str) -> None:
    result = run(lab, case, MODES[mode])
    assert result.returncode == 0, result.explain()
    assert result.stderr == "", result.explain()


def test_all_is_quiet_with_guards_of_some(lab: Lab) -> None:
    for every in (7, 40, 1000):
        for case in RIGHT:
            result = run(lab, case, {"STRATA_GUARD": f"1/{every}"})
            assert (result.returncode, result.stderr) == (0, ""), result.explain()


RACED = {"between": {"RACED": "1"}, "between_and_over": {"RACED": "2"}}


@pytest.mark.parametrize("case", ["before", "after", "for_others", *RACED])
def test_the_program_keeps_its_handler(lab: Lab, case: str) -> None:
    result = run(lab, case, GUARDED | RACED.get(case, {}), HANDLERS)
    assert result.returncode == 3, result.explain()
    said = "use after free" in result.stderr
    assert said == (case == "before"), result.explain()


def test_freed_guarded_blocks_hold_no_memory(lab: Lab) -> None:
    result = run(lab, "pages_of_freed_blocks", GUARDED)
    assert result.returncode == 0, result.explain()
    assert int(result.stdout) == 0


def test_large_guarded_blocks_cost_two_mappings_while_they_live(lab: Lab) -> None:
    result = run(lab, "large_blocks", GUARDED)
    live, pages, freed = (int(word) for word in result.stdout.split())
    assert 200 <= live <= 2 * 200 + 20, result.explain()
    assert pages == 0
    assert freed <= 20


def metrics(lab: Lab, tmp_path: Path, case: str, env: dict[str, str]) -> dict[str, float]:
    run(lab, case, {"STRATA_PROMETHEUS": str(tmp_path / "metrics"), **env})
    lines = (tmp_path / "metrics").read_text().splitlines()
    return {line.split("{")[0]: float(line.split()[-1]) for line in lines if line[0] != "#"}


def test_by_default_a_large_block_has_its_turn(lab: Lab, tmp_path: Path) -> None:
    assert metrics(lab, tmp_path, "large_by_turns", {})["strata_guarded_blocks_total"] >= 1


def test_a_sample_may_be_guarded(lab: Lab) -> None:
    env = GUARDED | {"STRATA_SAMPLE": "1"}
    for case in ("overflow_8", "use_after_free_write", "use_after_free_write_100000"):
        result = run(lab, case, env)
        assert result.returncode in (-signal.SIGSEGV, -signal.SIGABRT), result.explain()


@pytest.mark.parametrize("sample", ["0", "64K"])
def test_a_large_guarded_block_counts_as_any_other(lab: Lab, tmp_path: Path, sample: str) -> None:
    guarded = metrics(lab, tmp_path, "large_at_exit", GUARDED | {"STRATA_SAMPLE": sample})
    heaps = metrics(lab, tmp_path, "large_at_exit", {"STRATA_GUARD": "off"})
    assert guarded["strata_guarded_live_blocks"] >= 1
    for name in ("strata_live_bytes", "strata_resident_bytes"):
        assert guarded[name] >= 16 << 20
        assert abs(guarded[name] - heaps[name]) < 4 << 20, name
    if sample != "0":
        assert guarded["strata_sampled_live_bytes"] >= 16 << 20


def test_a_heap_limit_holds_for_large_blocks(lab: Lab) -> None:
    result = run(lab, "large_until_null", GUARDED | {"STRATA_HEAP_LIMIT": "64M"})
    assert 40 <= int(result.stdout) <= 64, result.explain()


def test_an_error_in_a_signal_handler_is_told(lab: Lab) -> None:
    for _ in range(15):
        result = run(lab, "in_a_handler", {**GUARDED, "STRATA_SAMPLE": "64K"})
        assert result.returncode == -signal.SIGSEGV, result.explain()
        assert "overflow: write to" in result.strata_lines()[0], result.explain()
        assert set(told_stacks(result)) == {"written", "allocated"}, result.explain()


def test_the_statistics_count_guarded_blocks_and_errors(lab: Lab, tmp_path: Path) -> None:
    for case, errors, slots in (
        ("use_after_free_write", 1, 4096),
        ("use_after_free_write_100000", 1, 256),
        ("double_after_one_24", 1, 4096),
        ("ok_threads", 0, 4096),
    ):
        value = metrics(lab, tmp_path, case, {"STRATA_ON_ERROR": "ignore", **GUARDED})
        assert value["strata_memory_errors_total"] == errors, case
        assert value["strata_guarded_blocks_total"] >= 1
        assert value["strata_guard_slots"] == slots


def test_a_fault_elsewhere_is_the_programs(lab: Lab) -> None:
    result = run(lab, "none", GUARDED, HANDLERS)
    assert result.returncode == -signal.SIGSEGV, result.explain()
    assert result.stderr == "", result.explain()


def test_errors_can_be_ignored(lab: Lab) -> None:
    for case in (
        "use_after_free_write",
        "use_after_free_write_100000",
        "overflow_page_of_1MiB",
        "forgiven_read",
        "overflow_1_of_16",
        "double_after_one_24",
        "inside_400",
    ):
        result = run(lab, case, {"STRATA_ON_ERROR": "ignore", **GUARDED})
        assert result.returncode == 0, result.explain()
        assert len([line for line in result.strata_lines() if "read on" in line]) == 1
