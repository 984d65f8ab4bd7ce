"""The report's section about objects that move: when it is there, what it says and advises."""

from __future__ import annotations

from typing import Any

import pytest
from report_data import MIB, stats

from strata.report import advice_hotness, build, hotness
from strata.report.advice import Level
from strata.report.document import Document
from strata.report.model import Recording, Sample

CALM: dict[str, Any] = {
    "domains": 1,
    "new_objects": 100, "new_bytes": MIB,
    "hot_objects": 1000, "hot_bytes": 9 * MIB,
    "cold_objects": 20_000, "cold_bytes": 90 * MIB,
    "rounds": 50, "moves": 21_000, "moved_bytes": 100 * MIB, "promotions": 500, "demotions": 20_000,
    "aborted_in_use": 3, "aborted_used": 4, "aborted_no_memory": 5, "aborted_near_limit": 0,
    "epochs_given_up": 0,
    "paged_out_bytes": 88 * MIB, "collector_ns": 1_000_000_000, "cold_after": 4,
    "promotion_rate": 0.004, "utilization": 0.81,
}  # fmt: skip


def recording(*documents: dict[str, Any]) -> Recording:
    samples = [
        Sample(10.0 * at, None, Document({**stats(at), "hotness": document}))
        for at, document in enumerate(documents)
    ]
    return Recording(samples=samples)


@pytest.mark.parametrize("document", [{}, {"domains": 0}, {**CALM, "domains": "many"}])
def test_no_section_without_a_domain(document: dict[str, Any]) -> None:
    assert hotness.section(recording(document)) is None
    assert hotness.section(Recording()) is None


def test_the_section_says_what_lies_where() -> None:
    section = hotness.section(recording(CALM))
    assert section is not None
    assert section.advice is not None
    assert section.advice.level is Level.FINE
    assert section.advice.text.startswith("90 % of 100 MiB in moving objects are cold. ")
    assert [row[0] for row in section.rows] == ["new", "hot", "cold"]
    assert section.rows[2][1:] == ["20,000", "90.0 MiB", "90 %"]
    for said in ("81 %", "0.40 %", "4 windows", "21,000", "12", "88.0 MiB"):
        assert f"<td>{said}</td>" in section.picture, said
    assert "of a core" not in section.picture  # one sample: no time has gone by


def test_the_collector_is_measured_between_samples() -> None:
    later = {**CALM, "collector_ns": CALM["collector_ns"] + 500_000_000}
    section = hotness.section(recording(CALM, later))
    assert section is not None
    assert section.advice is not None
    assert "<td>5.0 %</td>" in section.picture
    assert section.advice.level is Level.LOOK
    assert "period_ms" in section.advice.text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rounds": 0}, "No round"),
        ({"epochs_given_up": 6}, "6 of 50 rounds"),
        ({"aborted_in_use": 2000, "moves": 1999}, "2,000 moves were stopped"),
        ({"aborted_no_memory": 20}, "no memory"),
        ({"aborted_near_limit": 20}, "no memory"),
        ({"paged_out_bytes": 0}, "swap"),
        ({"promotion_rate": 0.05, "cold_after": 32}, "5.0 % of the used bytes"),
    ],
)
def test_what_to_do(change: dict[str, Any], said: str) -> None:
    section = hotness.section(recording({**CALM, **change}))
    assert section is not None
    assert section.advice is not None
    assert section.advice.level is Level.LOOK
    assert said in section.advice.text


def test_senseless_figures_do_no_harm() -> None:
    odd = {**CALM, "cold_bytes": -5, "moves": "x", "promotion_rate": None, "hot_bytes": True}
    assert hotness.section(recording(odd)) is not None
    assert advice_hotness.moving(0, 0, dict.fromkeys(hotness.COUNTS, 0), 0.0, None).text


def test_it_stands_on_the_page() -> None:
    found = build.sections(recording(CALM))
    assert "hotness" in [section.name for section in found]
    assert "hotness" not in [section.name for section in build.sections(recording({}))]
