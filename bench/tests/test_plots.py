"""The pictures are drawn from whatever ran, and say who is who."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from matplotlib.figure import Figure
from strata_bench import plots
from strata_bench.plan import SPEED
from strata_bench.results import Results, Run

PNG = b"\x89PNG"


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the next picture says, tick labels included."""
    found: list[str] = []
    save = plots._save

    def look(figure: Figure, path: Path) -> Path:
        for axes in figure.axes:
            found.extend(text.get_text() for text in axes.texts)
            found.extend(label.get_text() for label in axes.get_yticklabels())
            for child in axes.child_axes:
                found.extend(label.get_text() for label in child.get_yticklabels())
        return save(figure, path)

    monkeypatch.setattr(plots, "_save", look)
    return found


def test_speed_names_the_fastest_other_of_each_work(tmp_path: Path, words: list[str]) -> None:
    results = Results()
    for case, ns in ((SPEED[0], 3.0), (SPEED[1], 9.0)):
        for name, value in (("strata", 4.0), ("glibc", 5.0), ("snmalloc", ns)):
            results.add(Run(case.name, name, 1, {"ns": str(value)}))
    path = plots.speed(results, tmp_path / "img" / "speed.png")
    assert path is not None
    assert path.read_bytes().startswith(PNG)
    assert [w for w in words if w in ("glibc", "snmalloc")] == ["snmalloc", "glibc"]
    assert SPEED[1].name in words
    assert not plt.get_fignums()


def test_lines_over_sizes_carry_their_names(tmp_path: Path, words: list[str]) -> None:
    results = Results()
    for name, slope in (("strata", 1), ("glibc", 3), ("jemalloc", 2)):
        series = ",".join(f"{2**k}:{slope * k}" for k in range(3, 21))
        results.add(Run("bysize", name, 1, {"by_size": series}))
    assert plots.sizes(results, tmp_path / "sizes.png") is not None
    assert {"Strata", "glibc", "jemalloc"} <= set(words)
    assert [plots.size_name(n) for n in (8, 1536, 1 << 20)] == ["8 B", "1.5 KiB", "1 MiB"]


def test_many_lines_over_sizes_are_a_band(tmp_path: Path, words: list[str]) -> None:
    """At most five lines in a picture, each named at its end."""
    results = Results()
    names = ("strata", "glibc", "jemalloc", "mimalloc2", "gperftools", "snmalloc", "tcmalloc")
    for slope, name in enumerate(names, 1):
        series = ",".join(f"{2**k}:{slope * k}" for k in range(3, 21))
        results.add(Run("bysize", name, 1, {"by_size": series}))
    assert plots.sizes(results, tmp_path / "sizes.png") is not None
    assert {"Strata", "glibc", "5 others"} <= set(words)
    assert "snmalloc" not in words


def test_bursts_are_in_order_of_what_is_held(tmp_path: Path, words: list[str]) -> None:
    results = Results()
    for case in ("burst-oldest", "burst-random"):
        for name, mib in (("glibc", 300), ("strata", 100), ("jemalloc", 200)):
            fields = {"live_kib": "51200", "survivor_pages_kib": "61440"}
            results.add(Run(case, name, 1, fields | {"rss_kib": str(mib * 1024)}))
    assert plots.burst(results, tmp_path / "burst.png") is not None
    names = [w for w in words if w in ("Strata", "glibc", "jemalloc")]
    assert names == ["Strata", "jemalloc", "glibc"] * 2
    assert words.count("in use: 50") == 2
    assert {"100", "200", "300"} <= set(words)


def test_what_did_not_run_is_not_drawn(tmp_path: Path) -> None:
    assert plots.draw(Results(), tmp_path) == {}
    assert not plt.get_fignums()
