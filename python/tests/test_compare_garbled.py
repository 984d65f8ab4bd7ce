"""A run directory that somebody, or a full disk, has garbled, and output with figures that are no
numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_compare_parts import plan, record

from strata.compare import parsers
from strata.compare.plan import Metric, Plan
from strata.compare.record import RECORDS, RunDirectory
from strata.errors import StrataError


@pytest.mark.parametrize(
    "change",
    [
        {"figures": {"wall_s": "x"}},
        {"figures": {"wall_s": float("nan")}},
        {"figures": {"wall_s": 10**400}},
        {"figures": {"wall_s": True}},
        {"rss": None},
        {"rss": [1e3], "rss_at": [1.0]},
        {"rss": [1 << 70], "rss_at": [1.0]},
        {"rss": [1], "rss_at": []},
        {"error": 5},
        {"host": [1]},
        {"round": True},
        {"started": "now"},
        {"arm": "other"},
    ],
    ids=repr,
)
def test_a_garbled_record_is_told_with_its_place(tmp_path: Path, change: dict[str, Any]) -> None:
    RunDirectory.create(tmp_path / "run", plan()).close()
    good = json.loads(record(plan(), "a", 1, wall_s=1.5).to_json())
    lines = [json.dumps(one) + "\n" for one in (good, good | change)]
    (tmp_path / "run" / RECORDS).write_text("".join(lines))
    with pytest.raises(StrataError, match=r"records\.jsonl:2"):
        RunDirectory.open(tmp_path / "run")


@pytest.mark.parametrize("rounds", ["x", 0, 1.5, True, None, [3]])
def test_a_plan_of_no_number_of_rounds_is_none(rounds: object) -> None:
    document = json.loads(plan().to_json()) | {"rounds": rounds}  # which are not in the hash
    with pytest.raises(StrataError, match="not a plan"):
        Plan.from_json(json.dumps(document), "here")


def test_figures_without_bounds_are_left_out() -> None:
    assert parsers.parse("rate=1e999 time=2") == {"time": 2.0}
    with pytest.raises(StrataError, match="'1e999' is not a number"):
        parsers.parse("it took 1e999 s", [Metric.parse("time=took (\\S+)")])
