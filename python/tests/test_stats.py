"""Reading the library's JSON and writing sizes for people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata.errors import StrataError
from strata.stats import human, load


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (10_235, "10.0 KiB"),
        (1536 * 1024, "1.50 MiB"),
        (1023.9 * 1024, "1.00 MiB"),
        (220 * 2**30, "220 GiB"),
        (-(2**20), "-1.00 MiB"),
    ],
)
def test_human(count: float, text: str) -> None:
    assert human(count) == text


@pytest.mark.parametrize(
    ("content", "part"),
    [("{", "not JSON"), ("[]", "not a JSON object"), ('{"strata":"1"}', "lack 'cache'")],
)
def test_load_tells_what_is_wrong(tmp_path: Path, content: str, part: str) -> None:
    path = tmp_path / "stats.json"
    path.write_text(content)
    with pytest.raises(StrataError, match=part):
        load(path)
    with pytest.raises(StrataError, match="no stats"):
        load(tmp_path / "missing.json")


def test_malformed_value(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    document = {"strata": "1", "cache": {}, "pid": "x", "cache_mode": "", "thp_mode": ""}
    path.write_text(json.dumps(document))
    with pytest.raises(StrataError, match="malformed"):
        load(path)
