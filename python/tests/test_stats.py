"""Reading the library's JSON and writing sizes for people."""

from __future__ import annotations

import json
import time

import pytest

from strata.errors import StrataError
from strata.stats import BYTES, SEEN, Watch, human, loads, parse


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
def test_what_is_wrong_is_told(content: str, part: str) -> None:
    with pytest.raises(StrataError, match=part):
        loads(content.encode())


def test_malformed_value() -> None:
    document = {"strata": "1", "cache": {}, "pid": "x", "cache_mode": ""}
    with pytest.raises(StrataError, match="malformed"):
        loads(json.dumps(document).encode())


def test_what_the_library_cannot_know() -> None:
    """Is taken as missing if it says so, and is an error otherwise."""
    document = {
        **{"strata": "1", "pid": 1, "cache_mode": "", "resident_known": False},
        **{"bytes": {name: 1 for name in BYTES if name not in SEEN}, "hugepage_occupancy": []},
        "cache": {"misses_alloc": 0, "misses_free": 0},
    }
    stats = parse(document)
    assert stats.coverage is None
    assert not set(SEEN) & stats.bytes.keys()
    assert "n/a" in Watch().tick(json.dumps(document).encode(), time.gmtime(0), 0)[-1]
    with pytest.raises(StrataError, match="lack 'untouched'"):
        parse({**document, "resident_known": True})


def test_watch_writes_a_line_a_look() -> None:
    """And the header again each 20 lines, so that it is in sight."""
    watch = Watch()

    def look(number: int) -> list[str]:
        document = {
            **{"strata": "1", "pid": 1, "cache_mode": "", "thp_mode": "", "coverage": 0.5},
            **{"bytes": dict.fromkeys(BYTES, 3 << 20), "background": {"released_bytes": 0}},
            "cache": {"hits": 0, "misses_alloc": 3000 * number, "misses_free": 0},
            **{"classes": [], "hugepage_occupancy": []},
        }
        return watch.tick(json.dumps(document).encode(), time.gmtime(number), 2.0 * number)

    first = look(0)
    assert first[0].split()[-2:] == ["coverage", "misses/s"]
    assert first[1].split() == ["00:00:00", *["3.00", "MiB"] * 5, "50.0", "%", "-"]
    assert look(1)[0].split()[-1] == "1,500"
    assert [len(look(number)) for number in range(2, 41)] == [1] * 18 + [2] + [1] * 19 + [2]
