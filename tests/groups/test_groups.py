"""Small objects in groups: by the hint of operator new, and by calling context."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from blackbox import Lab

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "group_cases.cpp"
MODES = pytest.mark.parametrize("mode", ["auto", "thread"])


@pytest.fixture
def program(lab: Lab) -> Path:
    return lab.build_linked(SOURCE)


@MODES
@pytest.mark.parametrize(
    "case",
    [
        "hinted_objects_share_no_page_with_others",
        "a_freed_place_stays_with_its_group",
        "what_grows_stays_in_its_group",
    ],
)
def test_hints(lab: Lab, program: Path, case: str, mode: str) -> None:
    lab.run(program, case, env={"STRATA_CACHE": mode}).silent()


@MODES
def test_contexts_lie_apart(lab: Lab, program: Path, mode: str) -> None:
    """In one run of eight at least: two contexts may fall into one group of 64."""
    env = {"STRATA_CONTEXTS": "64", "STRATA_CACHE": mode}
    runs = [lab.run(program, "contexts_share_no_page", env=env).ok() for _ in range(8)]
    assert any(run.stdout == "apart\n" for run in runs)
    if "debug" in str(lab.library):  # which takes half of all places to allocate what lasts
        return
    without = lab.run(program, "contexts_share_no_page", env={"STRATA_CACHE": mode}).ok()
    assert without.stdout == ""


@MODES
@pytest.mark.parametrize("contexts", ["0", "2", "64"])
def test_threads_and_forks(lab: Lab, program: Path, contexts: str, mode: str) -> None:
    env = {"STRATA_CONTEXTS": contexts, "STRATA_CACHE": mode, "STRATA_SAMPLE": "32K"}
    lab.run(program, "threads_and_forks", env=env).silent()


def test_a_double_free_is_found_at_once(lab: Lab, program: Path) -> None:
    result = lab.run(program, "a_double_free_is_found")
    assert result.returncode == -signal.SIGABRT
    assert "double free" in result.stderr


def test_memory_goes_back_by_itself(lab: Lab, program: Path) -> None:
    lab.run(program, "memory_goes_back", env={"STRATA_CONTEXTS": "8"}).silent()


def test_statistics_tell_groups_apart(lab: Lab, program: Path, tmp_path: Path) -> None:
    file = tmp_path / "stats"
    env = {"STRATA_STATS": str(file), "STRATA_CONTEXTS": "8"}
    lab.run(program, "hinted_objects_share_no_page_with_others", env=env).silent()
    stats = json.loads(file.read_text())
    groups = stats["groups"]
    assert groups["hot_live"] == groups["cold_live"] == 5000 * 96
    assert groups["contexts"] == 8
    assert 5000 * 96 <= groups["contexts_live"] < 2 << 20
    assert groups["fullest_context_live"] <= groups["contexts_live"]
    assert stats["bytes"]["live"] >= 3 * 5000 * 90


@pytest.mark.parametrize("value", ["1", "65", "-2", "many", ""])
def test_values_that_make_no_sense(lab: Lab, value: str) -> None:
    lab.require_strata()
    result = lab.run("/bin/true", env={"STRATA_CONTEXTS": value})
    (line,) = result.strata_lines()
    assert f"STRATA_CONTEXTS={value} makes no sense; it takes 0|2-64" in line


def test_lifetimes_go_before_contexts(lab: Lab) -> None:
    lab.require_strata()
    env = {"STRATA_CONTEXTS": "8", "STRATA_LIFETIMES": "online"}
    (line,) = lab.run("/bin/true", env=env).strata_lines()
    assert "STRATA_CONTEXTS ignored" in line
