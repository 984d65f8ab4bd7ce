"""`strata price` and its section of the report: what is read, what is said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from report_data import stats

from strata import price
from strata.report import build
from strata.report import price as section
from strata.report.advice import Level
from strata.report.document import Document
from strata.report.model import Recording, Sample

SCARCE: dict[str, Any] = {
    "on": True, "weight": 100, "seconds_a_mib": 0.436, "supply_bytes": 1 << 30,
    "left_bytes": 60 << 20, "pressure": 0.1, "debt_bytes": 5 << 20, "waiting_threads": 1,
    "waits": 12, "waited_ns": 3_500_000_000, "fork_waits": 0, "fork_waited_ns": 0,
}  # fmt: skip


def recording(document: dict[str, Any]) -> Recording:
    return Recording(samples=[Sample(0.0, None, Document({**stats(0), "price": document}))])


def test_figures_are_read() -> None:
    found = price.read({"price": SCARCE})
    assert found is not None
    assert (found.on, found.left, found.waits, found.waited_s) == (True, 60 << 20, 12, 3.5)
    assert found.state == "waits"


@pytest.mark.parametrize("document", [None, [], {}, {"price": 3}, {"price": {"on": True}}])
def test_what_makes_no_sense_is_no_price(document: object) -> None:
    assert price.read(document) is None


BOUNDLESS = [float("inf"), float("nan"), 10**400, -(10**400), "1", None, {}]


@pytest.mark.parametrize("value", BOUNDLESS, ids=lambda value: repr(value)[:5])
@pytest.mark.parametrize(
    "name", [name for name in SCARCE if name not in ("pressure", "fork_waits")]
)
def test_figures_without_bounds_are_no_price(name: str, value: object) -> None:
    garbled = json.loads(json.dumps({**SCARCE, name: value}))
    assert price.read({"price": garbled}) is None
    assert section.section(recording(garbled)) is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "nothing"), (0.2, "200 ms"), (3.41, "3.4 s"), (703.125, "703 s")],
)
def test_what_a_mib_costs(seconds: float, said: str) -> None:
    assert price.cost(seconds) == said


@pytest.mark.parametrize("document", [{}, {**SCARCE, "on": False}])
def test_no_section_where_it_is_off(document: dict[str, Any]) -> None:
    assert section.section(recording(document)) is None
    assert section.section(Recording()) is None


def test_the_section_says_who_waits_and_what_helps() -> None:
    found = section.section(recording(SCARCE))
    assert found is not None
    assert found.advice is not None
    assert found.advice.level is Level.LOOK
    assert "60.0 MiB of 1.00 GiB are left" in found.advice.text
    assert found.advice.command.endswith("weight=200")
    assert "price" in {each.name for each in build.sections(recording(SCARCE))}


def test_nothing_to_do_where_nothing_was_paid() -> None:
    calm = {**SCARCE, "seconds_a_mib": 0, "debt_bytes": 0, "waiting_threads": 0, "waited_ns": 0}
    found = section.section(recording(calm))
    assert found is not None
    assert found.advice is not None
    assert found.advice.level is Level.FINE
