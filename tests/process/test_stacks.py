"""How much of a program's stack malloc and free take: coroutines and threads have small ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import Lab

SURE = Path(__file__).resolve().parents[1] / "lifetime/golden/sure.model"
CASES = Path(__file__).resolve().parent / "stack_cases.cpp"
# The bound of docs/architecture.md; src/os/side_stack.h. A debug build is spared inlining.
MOST = 2048
MOST_IN_DEBUG = 3072
BOUND_NOW = "-Wl,-z,now"  # this program's own lazy binding is not the library's


def program(lab: Lab) -> Path:
    lab.require_strata()
    return lab.build(CASES, BOUND_NOW)


def most(lab: Lab) -> int:
    return MOST_IN_DEBUG if "debug" in str(lab.require_strata()) else MOST


def depths(lab: Lab, case: str, env: dict[str, str]) -> dict[str, int]:
    result = lab.run(program(lab), case, env=env)
    assert result.returncode == 0, result.explain()
    paths = {name: int(n) for name, n in (line.split() for line in result.stdout.splitlines())}
    assert paths, result.explain()
    return paths


@pytest.mark.parametrize(
    ("case", "env"),
    [
        ("everything", {}),
        ("everything", {"STRATA_CACHE": "thread"}),
        ("everything", {"STRATA_SAMPLE": "64"}),
        ("everything", {"STRATA_LIFETIMES": "online", "STRATA_SAMPLE": "64"}),
        ("everything", {"STRATA_MODEL": str(SURE)}),
        ("thread_start", {}),
        ("soft_limit", {"STRATA_SOFT_LIMIT": "16M"}),
        ("soft_limit", {"STRATA_SOFT_LIMIT": "16M", "STRATA_CACHE": "thread"}),
        ("exhaust", {"STRATA_HEAP_LIMIT": "64M"}),
        ("address_space", {}),
        ("bad_free", {"STRATA_ON_ERROR": "ignore"}),
    ],
    ids=lambda value: (
        value
        if isinstance(value, str)
        else ",".join(Path(v).name for v in value.values()) or "default"
    ),
)
def test_no_path_takes_more_than_its_bound(lab: Lab, case: str, env: dict[str, str]) -> None:
    paths = depths(lab, case, env)
    deep = {name: n for name, n in paths.items() if n > most(lab)}
    assert not deep, f"of at most {most(lab)} bytes: {deep}"


@pytest.mark.parametrize("env", [{}, {"STRATA_SAMPLE": "64"}], ids=["default", "sampled"])
@pytest.mark.parametrize("case", ["small_coroutine", "small_thread"])
def test_small_stacks_hold_all_calls(lab: Lab, case: str, env: dict[str, str]) -> None:
    result = lab.run(program(lab), case, env=env)
    assert result.returncode == 0, result.explain()
