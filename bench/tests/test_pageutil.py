"""The load of the page utilization group: keys by Zipf's law, answers of known length, which epoch
is judged."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from strata_bench import pageutil


def test_keys_follow_zipf_and_are_scattered() -> None:
    records = 1000
    keys = pageutil.Keys(records)
    counts = Counter(keys.draw(200_000))
    assert set(counts) <= {pageutil.key(n) for n in range(records)}
    (hot, most), (second, next_most) = counts.most_common(2)
    weights = [1 / rank**pageutil.ZIPF for rank in range(1, records + 1)]
    assert most / 200_000 == pytest.approx(weights[0] / sum(weights), rel=0.05)
    assert most / next_most == pytest.approx(2**pageutil.ZIPF, rel=0.05)
    assert abs(int(hot[4:]) - int(second[4:])) > 1


def test_records_have_the_size_that_answers_are_reckoned_with() -> None:
    assert len(pageutil.record(99_999)) == pageutil.FIELDS * pageutil.FIELD_BYTES


def epoch(begin: float, end: float) -> dict[str, Any]:
    return {"begin": begin, "end": end, "pages": 1, "utilization": 0.5, "cdf": [0.0] * 101}


def test_an_epoch_is_judged_only_if_it_held_nothing_but_reads() -> None:
    found = {
        "started_unix": 100.0,
        "epochs": [epoch(0, 5), epoch(5, 10), epoch(10, 15)],
        "heap": {"pages": 1, "utilization": 0.5},
    }
    reads = pageutil.Phase("even", 104.0, [104.5, 105.5, 109.0, 112.0])
    outcome = pageutil.outcome_of(pageutil.Redis(), 10, reads, found)
    assert outcome.epoch["begin"] == 5
    assert outcome.reads == 2 * pageutil.BATCH
    with pytest.raises(RuntimeError, match="no whole epoch"):
        pageutil.outcome_of(
            pageutil.Redis(), 10, pageutil.Phase("even", 106.0, [107.0, 112.0]), found
        )
