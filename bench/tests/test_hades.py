"""The group of values that move: ratios, verdicts, and the page."""

from __future__ import annotations

import json

from strata.demo.hades import runs
from strata_bench import hades


def result(**more: float) -> runs.Result:
    fields = dict.fromkeys(runs.Result.__dataclass_fields__, 1.0)
    return runs.parse(json.dumps(fields | more))


def test_ratios_are_paired() -> None:
    pairs = hades.Pairs(
        "x", [result(p90_us=1), result(p90_us=2)], [result(p90_us=2), result(p90_us=4)]
    )
    assert pairs.middle_ratio("p90_us") == 2
    assert pairs.ratio("p90_us") == "2.00 (2.00 to 2.00)"
    assert pairs.middle("p90_us", tidied=True) == 4


def test_one_round_has_no_range() -> None:
    assert hades.Pairs("x", [result()], [result(p90_us=3)]).ratio("p90_us") == "3.00"


def test_verdicts_say_what_was_asked() -> None:
    assert hades._verdict("x", 0.5, "≤ 0.3", met=False) == "- x: 0.50, asked for ≤ 0.3: missed."


def test_the_page_begins_with_what_it_is() -> None:
    text = hades.page(["## One\n", "| a |"], "How.")
    assert text.startswith("# Values that move\n")
    assert text.endswith("| a |\n")
    assert "How." in text
