"""`strata train`: what it learns, that a seed gives the same bytes, and what it refuses."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from forked_strata import strata

from strata.errors import StrataError
from strata.learn import forecast, known, model_file, table
from strata.learn.rows import COUNTS

KINDS = {"cache": 8, "request": 1, "session": 4}
# of a kind's objects, by class; of a cache's most die at once, and its class is still the last
SHARES = {"cache": {1: 0.6, 8: 0.4}, "request": {1: 1.0}, "session": {4: 1.0}}
ROUNDS = 12


def rows(test_rounds: int) -> list[dict[str, object]]:
    """The class follows from a word in the caller's name: the functions of test are new, the word
    is not. That of the commonest frame tells nothing."""
    found: list[dict[str, object]] = []
    for number in range(ROUNDS):
        for kind, label in KINDS.items():
            found.append(
                {
                    "program": "server",
                    "build_id": "ab" * 20,
                    "symbols": ["grow_buffer", f"{kind}_{number}_add", "main"],
                    "bytes": 64 << number % 3,
                    "label": label,
                    "split": "test" if number < test_rounds else "train",
                    "objects": 100.0 * label,
                    "weight": 6400.0,
                    "samples": 9.0,
                    **{
                        name: 100.0 * label * share
                        for name, share in zip(COUNTS, shares_of(kind), strict=True)
                    },
                }
            )
    return found


def shares_of(kind: str) -> list[float]:
    return [SHARES[kind].get(at, 0.0) for at in range(1, model_file.CLASSES + 1)]


def data_set(folder: Path, *, test_rounds: int = 4) -> Path:
    path = folder / f"data{test_rounds}.parquet"
    pl.DataFrame(rows(test_rounds)).write_parquet(path)
    return path


def train(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return strata("train", *words, modules=("jax", "numpy", "optax", "polars"))


def test_it_predicts_functions_it_never_saw(tmp_path: Path) -> None:
    data = data_set(tmp_path)
    output, page = tmp_path / "a.model", tmp_path / "a.html"
    done = train(data, "-o", output, "--html", page, "--epochs", "75")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "functions held out" in done.stdout
    model = model_file.load(output)
    assert model.about["accuracy"]["test"]["exact"] == [1.0, 1.0, 1.0]
    for kind, label in KINDS.items():
        stack = ["grow_buffer", f"{kind}_9999_add", "main"]
        said = forecast.predict(model, stack, 64)
        assert said.label == label
        assert said.shares.tolist() == pytest.approx(shares_of(kind), abs=0.1)
    text = page.read_text()
    assert all(word in text for word in ("Learning curve", "stack table", "Calibration", "<svg"))
    assert "http://" not in text.replace("http://www.w3.org", "").replace(
        "http://purl.org", ""
    ).replace("http://creativecommons.org", "")


def test_a_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    data = data_set(tmp_path, test_rounds=0)
    made = []
    for name in ("a", "b"):
        done = train(data, "-o", tmp_path / name, "--epochs", "3")
        assert done.returncode == 0
        assert done.stderr == (
            "strata: too little to hold a function out: accuracy is of the training set alone\n"
        )
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]


def test_compare_trains_the_others(tmp_path: Path) -> None:
    done = train(
        data_set(tmp_path), "-o", tmp_path / "a.model", "--epochs", "2", "--compare", "--int8"
    )
    assert done.returncode == 0, done.stderr
    for name in ("frame GRU", "majority class", "stack table", "token LSTM", "LightGBM"):
        assert name in done.stdout
    assert model_file.load(tmp_path / "a.model").is_int8


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (rows(0)[::3], "all contexts have one class (never freed): there is nothing to learn"),
        ([{"a": 1}], "{path}: not a data set of this version of strata lifetimes"),
    ],
)
def test_useless_data_sets(tmp_path: Path, table: list[dict[str, object]], reason: str) -> None:
    path = tmp_path / "data.parquet"
    pl.DataFrame(table).write_parquet(path)
    done = train(path, "-o", tmp_path / "a.model")
    assert (done.returncode, done.stderr) == (2, f"strata: {reason.format(path=path)}\n")
    assert not (tmp_path / "a.model").exists()


def test_an_empty_data_set(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pl.DataFrame(rows(0)).clear().write_parquet(path)
    done = train(path, "-o", tmp_path / "a.model")
    empty = "strata: the data set is empty: there is nothing to learn from\n"
    assert (done.returncode, done.stderr) == (2, empty)


def test_the_model_knows_what_was_held_out_to_judge_it(tmp_path: Path) -> None:
    """All functions but one round are held out: they are in the model all the same."""
    output = tmp_path / "a.model"
    done = train(data_set(tmp_path, test_rounds=ROUNDS - 1), "-o", output, "--epochs", "75")
    assert done.returncode == 0, done.stderr
    assert f"of all {3 * ROUNDS} contexts" in done.stdout
    model = model_file.load(output)
    for row in rows(0):
        found = model_file.known_of(model, list(row["symbols"]), int(str(row["bytes"])))  # type: ignore[call-overload]
        assert found is not None
        assert found.label == row["label"]
        (kind,) = (kind for kind, label in KINDS.items() if label == found.label)
        shares = [share / model_file.OF for share in found.shares]
        assert shares == pytest.approx(shares_of(kind), abs=0.1)  # the network's are four samples
    model.known.clear()  # what the network says
    for row in rows(0):
        said = forecast.predict(model, list(row["symbols"]), int(str(row["bytes"])))  # type: ignore[call-overload]
        assert said.label == row["label"]


def contexts(*counts: list[float]) -> pl.DataFrame:
    """Of stacks `f0`, `f1`, ... of one size."""
    columns = {name: [row[at] for row in counts] for at, name in enumerate(COUNTS)}
    names = [[f"f{number}", "main"] for number in range(len(counts))]
    own = {"symbols": names, "bytes": 64, "weight": [sum(row) * 64 for row in counts]}
    own["samples"] = [sum(row) / 10 for row in counts]
    return pl.DataFrame(own | columns)


def silent(_symbols: Sequence[str], _size: int) -> npt.NDArray[np.float32]:
    return np.zeros(model_file.CLASSES, np.float32)


def test_what_was_recorded_of_a_stack_is_known() -> None:
    brief, mixed = [100.0, *[0.0] * 7], [90.0, 0, 0, 0, 0, 0, 4, 6]
    table = contexts(brief, mixed)
    split = contexts([60.0, *[0.0] * 7], [30.0, 0, 0, 0, 0, 0, 4, 6])[1:]  # an inlined function
    rest = mixed[0] - 30.0
    whole = pl.concat([table[:1], contexts(brief, [rest, *[0.0] * 7])[1:], split])
    for data in (table, whole):
        found = known.stacks(data, silent)
        one = found[model_file.hash_of_stack(["f0", "main"], 64)]
        other = found[model_file.hash_of_stack(["f1", "main"], 64)]
        assert (one.label, other.label) == (1, 8)
        assert (list(one.shares), list(other.shares)) == (
            [255, 0, 0, 0, 0, 0, 0, 0],
            [230, 0, 0, 0, 0, 0, 10, 15],
        )
        assert len(found) == 2


def test_the_network_adds_to_the_shares_of_few_samples() -> None:
    never = np.array([0.0] * 7 + [1.0], np.float32)
    found = known.stacks(contexts([40.0, *[0.0] * 7], [4000.0, *[0.0] * 7]), lambda *_: never)
    few, many = (found[model_file.hash_of_stack([name, "main"], 64)] for name in ("f0", "f1"))
    assert (few.label, many.label) == (1, 1)
    assert list(few.shares) == [128, 0, 0, 0, 0, 0, 0, 127]
    assert list(many.shares) == [252, 0, 0, 0, 0, 0, 0, 3]


def test_of_what_was_sampled_seldom_nothing_is_known() -> None:
    counts = [[n * 10.0, *[0.0] * 7] for n in (3.4, 3.6)]
    (kept,) = known.stacks(contexts(*counts), silent)
    assert kept == model_file.hash_of_stack(["f1", "main"], 64)


def test_of_too_many_stacks_the_largest_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MOST_KNOWN", 2)
    counts = [[n * 100.0, *[0.0] * 7] for n in (5, 1, 9)]
    kept = known.stacks(contexts(*counts), silent)
    names = (["f0", "main"], ["f2", "main"])
    assert set(kept) == {model_file.hash_of_stack(stack, 64) for stack in names}


@pytest.mark.parametrize("seed", range(20))
def test_shares_add_up(seed: int) -> None:
    counts = np.random.default_rng(seed).exponential(1, 8) ** 6
    shares = known.shares_of(counts)
    assert sum(shares) == model_file.OF
    exact = counts / counts.sum() * model_file.OF
    assert np.abs(np.array(list(shares)) - exact).max() < 1


BAD_COLUMNS: dict[str, tuple[pl.Expr, str]] = {
    "label": (pl.lit("x"), "not a data set of this version"),
    "symbols": (pl.lit("main"), "not a data set of this version"),
    "split": (pl.lit(3), "not a data set of this version"),
    "label 9": (pl.lit(9).alias("label"), "row 1: a label that is none of 1 to 8"),
    "label missing": (pl.lit(None, pl.Int64).alias("label"), "row 1: label is missing"),
    "frame": (pl.concat_list(pl.lit(None, pl.String)).alias("symbols"), "row 1: a frame without"),
    "bytes": (pl.when(pl.int_range(pl.len()) == 4).then(-1).otherwise(8), "row 5: bytes below 1"),
    "other split": (pl.lit("x").alias("split"), "row 1: a split that is none of train, test"),
    "weight": (pl.lit(float("nan")), "row 1: a weight that is no number above 0"),
    "huge weight": (pl.lit(1e39).alias("weight"), "row 1: a weight that is no number above 0"),
    "objects": (pl.lit(-1.0), "row 1: objects that are no number above 0"),
    "class_3": (pl.lit(-1.0), "row 1: counts below 0, or all 0"),
    "class_1": (pl.lit(0.0), "row 2: counts below 0, or all 0"),
    "class_8": (pl.lit("x"), "not a data set of this version"),
    "huge": (pl.lit(2**63, pl.UInt64).alias("bytes"), "a number is beyond what a column can hold"),
}


@pytest.mark.parametrize("name", BAD_COLUMNS)
def test_what_no_data_set_has_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "data.parquet"
    column, why = BAD_COLUMNS[name]
    named = column if column.meta.output_name() in table.COLUMNS else column.alias(name)
    pl.DataFrame(rows(0)).with_columns(named).write_parquet(path)
    with pytest.raises(StrataError) as refused:
        table.read(path)
    assert str(refused.value).startswith(f"{path}: {why}")


def test_counts_whose_sum_no_number_can_hold_are_named(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    huge = pl.lit(1e308)
    pl.DataFrame(rows(0)).with_columns(class_1=huge, class_2=huge).write_parquet(path)
    with pytest.raises(StrataError, match=r"row 1: counts below 0, or all 0, or not below 1e\+30"):
        table.read(path)


def test_where_nothing_can_be_written_nothing_is_trained(tmp_path: Path) -> None:
    data = data_set(tmp_path)
    for words in (("-o", tmp_path), ("-o", tmp_path / "a.model", "--html", tmp_path)):
        done = train(data, *words, "--epochs", "100000")
        assert (done.returncode, done.stderr) == (2, f"strata: {tmp_path}: is a directory\n")


def test_unreadable_files(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(b"PAR1 and no more")
    pipe = tmp_path / "pipe.parquet"
    os.mkfifo(pipe)
    for source, start in (
        (pipe, f"{pipe}: is a pipe, not a file"),
        (path, f"{path}: not a data set ("),
        (tmp_path / "no", f"{tmp_path}/no: "),
    ):
        done = train(source, "-o", tmp_path / "a.model")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith(f"strata: {start}")
