"""`make hades`: the parts that need no long run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import polars as pl
import pytest

from strata.demo.hades import __main__ as demo
from strata.demo.hades import picture, runs, swap
from strata.errors import StrataError

LINE = dict.fromkeys(runs.Result.__dataclass_fields__, 1.0)


def result(**more: float) -> runs.Result:
    return runs.parse(json.dumps(LINE | more))


def test_a_result_is_read_and_anything_else_is_not() -> None:
    assert result(resident_mib=7.5).resident_mib == 7.5
    for line in ("", "{}", "nonsense"):
        with pytest.raises(StrataError):
            runs.parse(line)


@pytest.mark.parametrize(
    ("plain", "tidied", "says"),
    [
        ((100, 110), (90, 105), "the same throughput"),
        ((100, 110), (120, 130), "1.09 times the throughput or more"),
        ((100, 110), (50, 60), "0.60 of the throughput at best"),
        ((100,), (200,), "one round does not prove"),
    ],
)
def test_nobody_wins_where_runs_overlap(
    plain: tuple[float, ...], tidied: tuple[float, ...], says: str
) -> None:
    arms = demo.Arms(
        [result(operations_per_second=n, resident_mib=300) for n in plain],
        [result(operations_per_second=n, resident_mib=100) for n in tidied],
    )
    assert says in demo.verdict(arms)
    assert "33%" in demo.verdict(arms)


def test_swap_that_is_there_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    swaps = tmp_path / "swaps"
    swaps.write_text("Filename Type Size Used Priority\n/dev/vdb partition 1 0 -2\n")
    monkeypatch.setattr(swap, "SWAPS", swaps)
    with swap.swap(64) as space:
        assert space
        assert space.kind == "the machine's"


def test_without_root_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    swaps = tmp_path / "swaps"
    swaps.write_text("Filename Type Size Used Priority\n")
    monkeypatch.setattr(swap, "SWAPS", swaps)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with swap.swap(64) as space:
        assert not space
        assert "only root" in space.why


def test_a_kind_that_fails_is_followed_by_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    swaps = tmp_path / "swaps"
    swaps.write_text("Filename Type Size Used Priority\n")
    monkeypatch.setattr(swap, "SWAPS", swaps)
    monkeypatch.setattr(swap, "ZRAM", tmp_path / "none")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    called: list[tuple[str, ...]] = []

    def call(*words: str) -> None:
        called.append(words)
        if words[0] == "fallocate":
            Path(words[-1]).touch()

    monkeypatch.setattr(swap, "_call", call)
    with swap.swap(64, folder=tmp_path) as space:
        assert space.kind == "file"
    assert [words[0] for words in called] == ["fallocate", "mkswap", "swapon", "swapoff"]
    assert not list(tmp_path.glob("strata-swap*"))


def test_the_picture_counts_what_it_shows(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {
            "page": range(10),
            "resident": [1] * 6 + [0] * 4,
            "value_bytes": [4096] * 10,
            "used_bytes": [4096, 1024] + [0] * 8,
        }
    )
    assert picture.summary(table) == (2, 4, 4)
    image = picture.grid(table, 2)
    assert image.shape == (2, 5, 3)
    assert tuple(image[0, 1]) == picture.UNUSED
    assert tuple(image[1, 4]) == picture.OUT
    bars = [(name, ([1.0, 2.0], [2.0, 3.0]), "{:.1f}") for name in "abc"]
    picture.draw(tmp_path / "p.png", table, table, bars, "about")
    assert (tmp_path / "p.png").stat().st_size > 10_000
    shutil.rmtree(tmp_path)
