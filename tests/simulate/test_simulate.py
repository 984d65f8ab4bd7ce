"""`strata simulate`: the rows of each domain, what is drawn, and what is refused in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from blackbox import Lab, Result
from strata.errors import StrataError
from strata.learn import evaluate, forecast, model_file
from strata.simulate import command, core, generate, items, ladder, model
from strata.simulate.core import Domain
from strata.trace.command import find_tool
from tracing import forked, record

SECOND = 10**9


@pytest.fixture(autouse=True)
def _needs_the_program() -> None:
    try:
        find_tool(core.PROGRAM)
    except StrataError:
        pytest.skip("strata-simulate is not built")


def simulate(_: Lab, *words: str | Path) -> Result:
    return forked("simulate", *words, modules=("numpy", "polars", "matplotlib.pyplot"))


def answer(lab: Lab, path: Path, *words: str | Path) -> dict[str, dict[str, Any]]:
    """What each policy did, by its name."""
    done = simulate(lab, *words, "-o", path)
    assert done.returncode == 0, done.stderr
    return {row["policy"]: row for row in json.loads(path.read_text())[0]["policies"]}


def table(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def pairs(path: Path, rounds: int = 40, many: int = 1000) -> Path:
    """Each round: objects of 1 KiB that go at once, and among twenty of them one that stays."""
    rows = ["start,end,size,context"]
    for at in range(rounds):
        for which in range(many):
            stays = which % 20 == 0
            begin = at + which * 1e-6
            rows.append(f"{begin},{'' if stays else begin + 0.005},1024,{'ab'[stays]}")
    return table(path, "\n".join(rows) + "\n")


def test_each_policy_has_a_row_and_the_oracle_holds_least(lab: Lab, tmp_path: Path) -> None:
    # bursts of 20 MiB; after each, a twentieth of it stays
    path = pairs(tmp_path / "pairs.csv", rounds=12, many=20_000)
    rows = answer(lab, tmp_path / "a.json", path, "--noise", "10", "--noise", "50")
    assert list(rows) == [
        "first fit",
        "Temeraire",
        "LLAMA, oracle",
        "LLAMA, learned",
        "LLAMA, 10 % noise",
        "LLAMA, 50 % noise",
        "LLAMA, no prediction",
    ]
    held = {name: row["held"] for name, row in rows.items()}
    assert held["LLAMA, oracle"] == min(held.values())
    # without predictions, what stays lies on each hugepage of the first burst
    assert held["LLAMA, oracle"] < 0.8 * held["first fit"]
    assert held["LLAMA, 10 % noise"] != held["LLAMA, 50 % noise"]
    assert len({row["live"] for row in rows.values()}) == 1
    for row in rows.values():
        assert row["held"] >= row["live"]


def test_averages_are_those_of_the_items(lab: Lab, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "start,end,size\n0,10,1000000\n5,10,3000000\n")
    rows = answer(lab, tmp_path / "a.json", path, "--parts", "2")
    for row in rows.values():
        assert row["live"] == pytest.approx(2_500_000)
        assert row["live_peak"] == 4_000_000
        assert [part[2] for part in row["parts"]] == pytest.approx([1e6, 4e6])
    assert rows["first fit"]["held_peak"] == 2 * (2 << 20)
    assert rows["LLAMA, oracle"]["held_peak"] == 3 * (2 << 20)  # their classes are two


def test_a_heap_is_measured_by_the_hugepages_that_live_objects_would_fill(
    lab: Lab, tmp_path: Path
) -> None:
    path = table(tmp_path / "t.csv", "start,end,size\n0,10,1000000\n5,10,3000000\n")
    done = simulate(lab, path)
    assert done.returncode == 0, done.stderr
    assert "held / least" in done.stdout
    lines = {line.split("  ")[0]: line.split() for line in done.stdout.splitlines()}
    assert "1.000" in lines["first fit"]
    assert "1.333" in lines["LLAMA, oracle"]  # one hugepage, then three where two would do


def test_events_by_id_are_the_items_they_stand_for(tmp_path: Path) -> None:
    path = table(
        tmp_path / "e.csv", "time,id,size\n0,a,100\n1,b,50\n2,a,\n2,a,30\n3.5,b,0\n4,a,\n5,c,7\n"
    )
    frame = items.read(path).frame
    assert frame["start"].to_list() == [0, SECOND, 2 * SECOND, 5 * SECOND]
    assert frame["end"].to_list() == [2 * SECOND, 3.5 * SECOND, 4 * SECOND, None]
    assert frame["size"].to_list() == [100, 50, 30, 7]


def test_items_that_never_end_are_there_to_the_end(lab: Lab, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "start,end,size\n0,,1000\n1,,1000\n")
    assert items.read(path).frame["end"].to_list() == [None, None]
    assert answer(lab, tmp_path / "a.json", path)["first fit"]["live"] == 1000


def test_parquet_and_csv_of_the_same_items_give_the_same(lab: Lab, tmp_path: Path) -> None:
    path = pairs(tmp_path / "t.csv")
    pl.read_csv(path).write_parquet(tmp_path / "t.parquet")
    one = answer(lab, tmp_path / "1.json", path)
    assert one == answer(lab, tmp_path / "2.json", tmp_path / "t.parquet")


def test_a_recorded_trace_is_simulated_and_asks_a_model(lab: Lab, tmp_path: Path) -> None:
    trace = tmp_path / "t.trace"
    assert record(lab, trace, "ls", "-l", "/usr/bin", options=("--stacks",)).returncode == 0
    golden = Path(__file__).parent.parent / "lifetime" / "golden" / "f32.model"
    done = simulate(lab, trace, "--model", golden, "-o", tmp_path / "t.json")
    assert done.returncode == 0, done.stderr
    policies = json.loads((tmp_path / "t.json").read_text())[0]["policies"]
    assert "LLAMA, model" in [row["policy"] for row in policies]
    plain = tmp_path / "plain.trace"
    assert record(lab, plain, "ls").returncode == 0
    done = simulate(lab, plain, "--model", golden)
    assert done.returncode == 0
    assert "record with --stacks" in done.stderr
    assert "LLAMA, model" not in done.stdout


def test_a_column_of_right_predictions_is_the_oracle(lab: Lab, tmp_path: Path) -> None:
    path = pairs(tmp_path / "pairs.csv")
    told = pl.read_csv(path).with_columns(
        predicted=(pl.col("end") - pl.col("start")).fill_null(1e9), context=pl.lit(None)
    )
    told.write_csv(tmp_path / "told.csv")
    rows = answer(lab, tmp_path / "a.json", tmp_path / "told.csv")
    assert "LLAMA, learned" not in rows  # there are no contexts
    assert rows["LLAMA, as predicted"]["held"] == rows["LLAMA, oracle"]["held"]


def test_the_model_is_asked_as_its_format_says() -> None:
    golden = model_file.load(Path(__file__).parent.parent / "lifetime" / "golden" / "f32.model")
    predictor = evaluate.Predictor(golden)
    stacks = [("malloc_wrapper", "_ZN3foo3barEv", "main"), ("main",), ("parse", "main"), ()]
    for symbols in stacks:
        for size in (1, 24, 4096, 1 << 20):
            said = forecast.predict(golden, symbols, size)
            assert predictor.class_of(symbols, size) == said.label


def test_sizes_are_those_of_the_allocators_classes() -> None:
    asked = [1, 8, 9, 24, 112, 129, 1024, 1025, 4368, 16_384, 18_304, 18_305, 32_768, 40_960]
    given = [8, 8, 16, 32, 112, 144, 1024, 1152, 4608, 16_384, 18_304, 20_352, 32_768, 44_928]
    asked += [200_000, 212_900, 262_000, 262_144, 262_145]
    given += [212_864, 229_248, 262_144, 262_144, 270_336]
    assert [model.class_size(size) for size in asked] == given


def test_files_on_flash_are_rewritten_less_where_they_lie_by_lifetime(
    lab: Lab, tmp_path: Path
) -> None:
    rows = answer(lab, tmp_path / "f.json", "--generate", "flash")
    amplification = {}
    for name, row in rows.items():
        first, last = row["writes"][len(row["writes"]) // 2 - 1], row["writes"][-1]
        amplification[name] = 1 + (last[1] - first[1]) / (last[0] - first[0])
    assert rows["one log"]["writes"][-1][0] == generate.FILES * (1 + generate.ROUNDS)
    assert 1 <= amplification["LLAMA, oracle"] < amplification["LLAMA, learned"]
    assert amplification["LLAMA, learned"] < amplification["one log"]


def test_a_few_files_have_room_on_flash(lab: Lab, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "start,end,size\n0,9,1\n1,2,300\n3,4,300\n5,,1\n")
    for row in answer(lab, tmp_path / "a.json", path, "--domain", "flash").values():
        assert row["writes"][-1] == [602, 0]
    path = table(tmp_path / "t.csv", "start,end,size\n0,9,100000000\n")
    done = simulate(lab, path, "--domain", "flash")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "100,000,000 pages at once are too many" in done.stderr


def test_jobs_need_no_more_machines_than_one_each(lab: Lab, tmp_path: Path) -> None:
    rows = answer(lab, tmp_path / "j.json", "--generate", "jobs")
    for name, row in rows.items():
        assert row["bound"] <= row["held"] < 1.5 * row["bound"], name


def test_what_is_generated_has_the_shape_of_its_source() -> None:
    made = generate.jobs(1).frame
    hours = (made["end"] - made["start"]) / (3600 * SECOND)
    short = hours < 1
    assert short.fill_null(False).mean() == pytest.approx(0.88, abs=0.02)
    use = made["size"] * (made["end"].fill_null(made["start"].max()) - made["start"])
    assert float(use.filter(short.fill_null(False)).sum()) / float(use.sum()) < 0.04
    files = generate.flash(1).frame
    hot = files.filter(pl.col("start") >= generate.FILES * generate.WRITE)
    per_file = hot.group_by("context").len().sort("len", descending=True)["len"]
    files_again = generate.FILES * generate.ROUNDS
    tenth = round(len(per_file) * generate.HOT_FILES)
    assert float(per_file[:tenth].sum()) / files_again == pytest.approx(0.9, abs=0.01)


def test_a_seed_makes_the_same_items_and_they_can_be_kept(lab: Lab, tmp_path: Path) -> None:
    assert generate.jobs(3).frame.equals(generate.jobs(3).frame)
    assert not generate.jobs(3).frame.equals(generate.jobs(4).frame)
    saved = tmp_path / "jobs.parquet"
    made = answer(lab, tmp_path / "a.json", "--generate", "jobs", "--save", saved)
    again = answer(lab, tmp_path / "b.json", saved, "--domain", "jobs")
    for name, row in made.items():
        assert again[name]["held"] == pytest.approx(row["held"], rel=1e-6), name


def test_pictures_are_what_their_names_say(lab: Lab, tmp_path: Path) -> None:
    path = pairs(tmp_path / "p$[1]*.csv")
    done = simulate(lab, path, path, "-o", tmp_path / "p.png")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert simulate(lab, path, "-o", tmp_path / "p.html").returncode == 0
    page = (tmp_path / "p.html").read_text()
    assert "<svg" in page
    assert "LLAMA, oracle" in page
    assert "http" not in page.replace("http://www.w3.org", "")


BAD = {
    "empty.csv": ("", "empty"),
    "header.csv": ("start,end,size\n", "no rows"),
    "columns.csv": ("start,length\n1,2\n", "no column end, no column size"),
    "ids.csv": ("id,size\n1,2\n", "no column time"),
    "cut.csv": ("start,end,size\n0,1,64\n1,", "the last row is cut off"),
    "text.csv": ("start,end,size\n0,1,many\n", "column size holds something that is no number"),
    "missing.csv": ("start,end,size\n0,1,64\n1,2,\n", "row 2: a start or a size is missing"),
    "back.csv": ("start,end,size\n0,1,64\n5,4,64\n", "row 2: ends before it starts"),
    "none.csv": ("start,end,size\n0,1,0\n", "row 1: a size below 1"),
    "never.csv": ("start,end,size\n0,,4\ninf,,4\n", "row 2: a start that is no time"),
    "unknown.csv": ("time,id,size\n0,a,4\n1,b,\n", "row 2: ends what is not there, id b"),
    "again.csv": ("time,id,size\n0,a,4\n1,a,\n2,a,\n", "row 3: ends what is not there, id a"),
    "twice.csv": ("time,id,size\n0,a,4\n1,a,4\n", "row 2: begins what is there already, id a"),
    "clock.csv": ("time,id,size\n1,a,4\n0,a,\n", "row 2: the time goes back"),
    "negative.csv": ("time,id,size\n1,a,-4\n", "row 1: a negative size"),
    "ends.csv": ("time,id,size\n1,a,\n", "row 1: ends what is not there, id a"),
    "zero.parquet": ("PAR1", "neither a trace nor a table"),
}


BAD_COLUMNS = [
    ({"start": [0], "end": [1], "size": [5.5]}, "row 1: a size that is no whole number"),
    ({"time": [0, 1], "id": ["a", "b"], "size": [4.0, 0.5]}, "row 2: a size that is no whole num"),
    (
        {"start": [0, 1], "end": [2, 2], "size": [4.0, 4.0], "predicted": [None, -3.0]},
        "row 2: a predicted time below 0",
    ),
    (
        {"start": [0], "end": [1], "size": [4], "predicted": [float("nan")]},
        "row 1: a predicted time that is no time",
    ),
]


@pytest.mark.parametrize(("columns", "why"), BAD_COLUMNS)
def test_a_number_that_makes_no_sense_names_its_row(
    tmp_path: Path, columns: dict[str, list[Any]], why: str
) -> None:
    for ending in (".parquet", ".csv"):
        path = tmp_path / f"t{ending}"
        frame = pl.DataFrame(columns)
        frame.write_parquet(path) if ending == ".parquet" else frame.write_csv(path)
        with pytest.raises(StrataError) as refused:
            items.read(path)
        assert str(refused.value).startswith(f"{path}: {why}")


def test_one_item_in_one_second_is_one(lab: Lab, tmp_path: Path) -> None:
    done = simulate(lab, table(tmp_path / "t.csv", "start,end,size\n0,1,4\n"))
    assert done.stdout.splitlines()[0] == f"{tmp_path / 't.csv'}: 1 item in 1 second"


def test_the_program_is_missed_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(name: str) -> Path:
        raise StrataError(f"{name} not found")

    monkeypatch.setattr("strata.trace.command.find_tool", gone)
    with pytest.raises(StrataError, match="strata-simulate not found"):
        command.simulate_command(
            made=command.Made.JOBS, save_to=tmp_path / "jobs.csv", base=None, ratio=None,
            classes=None, noise=None, model=None, output=None,
        )  # fmt: skip
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(lab: Lab, tmp_path: Path, name: str) -> None:
    text, why = BAD[name]
    path = table(tmp_path / name, text)
    done = simulate(lab, path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"strata: {path}: {why}")
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_wrong_use_is_one_line(lab: Lab, tmp_path: Path) -> None:
    good = table(tmp_path / "t.csv", "start,end,size\n0,1,640000\n")
    folder, pipe = tmp_path / "x.json", tmp_path / "pipe.csv"
    folder.mkdir()
    os.mkfifo(pipe)
    for words, why in (
        ((), "expected FILE"),
        ((tmp_path / "gone.csv",), "no such file"),
        ((tmp_path,), "is a directory"),
        ((good, "--generate", "flash"), "takes no FILE"),
        ((good, "-o", tmp_path / "x.pdf"), "expected a name that ends in"),
        ((good, "-o", tmp_path / "no" / "x.png"), "no such directory"),
        ((good, "-o", folder), "is a directory"),
        ((pipe,), "is a pipe, not a file"),
        ((good, "--save", tmp_path / "x.csv"), "--save goes with --generate"),
        ((good, "--model", good), "too short for a model"),
        ((good, "--classes", "17"), "17"),
        ((good, "--base", "nan"), "--base nan: expected a number"),
        ((good, "--domain", "jobs"), "a job needs between 1 and 64 cores"),
    ):
        done = simulate(lab, *words)
        assert done.returncode == 2, done.stderr
        assert why in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_damaged_trace_is_replayed_up_to_there(lab: Lab, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    assert record(lab, trace, "ls", "-l", "/usr/bin").returncode == 0
    trace.write_bytes(trace.read_bytes()[:-40])
    done = simulate(lab, trace)
    assert done.returncode == 0, done.stderr
    assert "only what is before it is replayed" in done.stderr


def test_the_program_refuses_what_is_no_input(tmp_path: Path) -> None:
    made = items.Items("one", generate.flash(1).frame.head(3))
    events = tmp_path / "e"
    core.write_events(made, events)
    good = events.read_bytes()
    steps = ladder.Ladder(SECOND, 10, 2)
    setting = core.Setting(Domain.HEAP, 2, 0, 2)
    classes = np.zeros(3, np.uint8)

    def run(data: bytes, given: ladder.Classes = classes) -> None:
        events.write_bytes(data)
        core.simulate("x", "llama", events, given, steps, setting)

    run(good)
    for data, why in (
        (b"", "not a file of events"),
        (b"x" * 64, "not a file of events"),
        (good[:-8], "truncated"),
        (good + good[-16:], "truncated"),
        (good[:-8] + b"\x09" + bytes(7), "an event of no item"),
        (good[:-8] + bytes(8), "begins or ends twice"),
    ):
        with pytest.raises(StrataError, match=why):
            run(data)
    with pytest.raises(StrataError, match="a class for each item"):
        run(good, np.zeros(2, np.uint8))
    with pytest.raises(StrataError, match="beyond the ladder"):
        run(good, np.full(3, 2, np.uint8))
