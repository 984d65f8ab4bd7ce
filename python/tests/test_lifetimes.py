"""The data set of lifetimes: classes, merging, the split, and what is refused. What a real program
records is in tests/learn."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from profiles import PROGRAM, heap, place

from strata.errors import StrataError
from strata.learn import dataset, table
from strata.learn.classes import EDGES_NS, NEVER, class_of
from strata.learn.dataset import Merged, Split
from strata.learn.rows import COUNTS, rows_of
from strata.pprof import Label, Location, Mapping, Profile, Sample, ValueType, dump
from strata.report.lifetimes import COLUMNS as QUANTILE_COLUMNS
from strata.report.lifetimes import DIED

STRATA = [sys.executable, "-m", "strata"]
MS = 1_000_000
COLUMNS = ("objects", "still_live", *QUANTILE_COLUMNS)
NO_SPLIT = Split(0, 1)
GONE = Mapping(0x400000, 0x500000, 0, "/nowhere/server", "ab" * 20)


def lifetimes(stacks: dict[str, tuple[int, int, int]], build: str = "ab" * 20) -> Profile:
    """`outermost;…;innermost` to objects that died, how long each lived (ns), objects alive."""
    program = replace(PROGRAM, build_id=build)
    return Profile(
        [ValueType(name, "nanoseconds") for name in COLUMNS],
        [
            Sample(
                tuple(replace(place(name), mapping=program) for name in reversed(s.split(";"))),
                (died, live, *[lived] * len(QUANTILE_COLUMNS)),
                (Label("bytes", 64, "bytes"),),
            )
            for s, (died, lived, live) in stacks.items()
        ],
        [program],
        "objects",
        comments=["process server"],
    )


def merge(
    folder: Path, *profiles: Profile, split: Split = NO_SPLIT
) -> tuple[Merged, pl.DataFrame, list[str]]:
    source = folder / "in"
    source.mkdir(exist_ok=True)
    for number, profile in enumerate(profiles):
        dump(profile, source / f"{number}.pb.gz")
    warnings: list[str] = []
    merged = dataset.merge([source], folder / "out.parquet", split, warnings.append)
    return merged, pl.read_parquet(folder / "out.parquet", glob=False), warnings


def test_the_class_is_that_within_which_95_percent_die() -> None:
    assert class_of([0] * 8) == 0
    assert class_of([1, 0, 0, 0, 0, 0, 0, 0]) == 1
    assert class_of([95, 5, 0, 0, 0, 0, 0, 0]) == 1
    assert class_of([94, 6, 0, 0, 0, 0, 0, 0]) == 2
    assert class_of([0, 94, 0, 0, 0, 0, 0, 6]) == NEVER == len(COUNTS)
    assert class_of([0.1] * 19 + [0.1]) == 19, "sums of fractions stay below what they stand for"


@pytest.mark.parametrize("at", range(len(EDGES_NS) + 1))
def test_each_class_takes_what_dies_before_its_edge(at: int) -> None:
    lived = EDGES_NS[at] - 1 if at < len(EDGES_NS) else EDGES_NS[-1]
    (row,) = rows_of(lifetimes({"main;f": (10, lived, 3)}))
    counts = [float(str(row[name])) for name in COUNTS]
    assert counts[at] == pytest.approx(10)
    assert counts[-1] == 3
    assert sum(counts) == pytest.approx(13)


def test_samples_are_counted_from_the_rate() -> None:
    profile = lifetimes({"main;f": (1000, MS, 24)})
    for period, samples in ((0, 1024.0), (64 * 1024, 1.0), (1, 1024.0)):
        (row,) = rows_of(replace(profile, period=period))
        assert row["samples"] == pytest.approx(samples, rel=1e-3)


def counted(profile: Profile, *died: int) -> Profile:
    """The profile with how many died in each class, the same in each row."""
    types = [*profile.types, *(ValueType(name, "count") for name in DIED)]
    samples = [replace(each, values=(*each.values, *died)) for each in profile.samples]
    return replace(profile, types=types, samples=samples)


def test_what_a_profile_counts_is_not_guessed() -> None:
    """Six in a hundred live, two died late: by the quantiles, too, no more than five did."""
    guessed = lifetimes({"main;f": (94, 50 * MS, 6)})
    (row,) = rows_of(counted(guessed, 80, 9, 3, 0, 0, 0))
    assert [row[name] for name in COUNTS] == [80, 9, 3, 0, 0, 0, 2, 6]
    (row,) = rows_of(counted(guessed, 80, 9, 3, 0, 0, 4))  # rounded up, each by itself
    assert [row[name] for name in COUNTS] == [80, 9, 3, 0, 0, 4, 0, 6]


def test_profiles_that_count_and_that_do_not_are_named_in_one_line(tmp_path: Path) -> None:
    old = lifetimes({"main;f": (10, MS, 0)})
    new = counted(old, 10, 0, 0, 0, 0, 0)
    for alike in ([old, old], [new, new]):
        assert merge(tmp_path, *alike)[2] == []
    (warning,) = merge(tmp_path, old, new, new)[2]
    assert warning.startswith("1 of 3 profiles come from an older version")


def test_profiles_that_nobody_can_name_are_counted(tmp_path: Path) -> None:
    """Those of another machine that were not named there."""
    named = lifetimes({"main;f": (10, MS, 0)})
    places = {at for sample in named.samples for at in sample.stack}
    bare = {at: replace(at, lines=(), mapping=GONE) for at in places}
    nameless = replace(
        named,
        samples=[
            replace(each, stack=tuple(map(bare.__getitem__, each.stack))) for each in named.samples
        ],
    )
    assert merge(tmp_path, named)[2] == []
    (warning,) = merge(tmp_path, nameless, named, nameless)[2]
    assert warning.startswith("2 of 3 profiles have no function names")


def test_the_same_context_adds_up_and_another_build_does_not(tmp_path: Path) -> None:
    one = lifetimes({"main;f": (10, MS, 0), "main;g": (5, MS, 0)})
    two = lifetimes({"main;f": (30, 50 * MS, 1)})
    other = lifetimes({"main;f": (7, MS, 0)}, build="cd" * 20)
    merged, rows, warnings = merge(tmp_path, one, two, other)
    assert (merged.profiles, merged.skipped, warnings) == (3, 0, [])
    both = rows.filter(pl.col("profiles") == 2).row(0, named=True)
    assert both["frames"] == ["f", "main"]
    assert [both[name] for name in COUNTS] == [10, 30, 0, 0, 0, 0, 0, 1]
    assert (both["label"], both["objects"], both["weight"]) == (2, 41, 41 * 64)
    assert both["samples"] == 41
    assert (both["program"], both["build_id"]) == ("server", "ab" * 20)
    assert len(rows) == 3
    assert merged.table["objects"].sum() == rows["objects"].sum() == 53


def test_many_small_parts_are_as_good_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(5)
    profiles = [
        lifetimes(
            {f"main;f{draw.randrange(40)};g{k}": (draw.randrange(1, 9), MS, k) for k in range(30)}
        )
        for _ in range(6)
    ]
    _, whole, _ = merge(tmp_path, *profiles)
    monkeypatch.setattr(dataset, "CONTEXTS_A_PART", 7)
    _, parts, _ = merge(tmp_path, *profiles)
    assert parts.equals(whole)


def test_a_frame_without_a_symbol_is_called_by_its_build() -> None:
    file = Mapping(0x1000, 0x9000, 0x200, "/opt/lib.so", "ef" * 20)
    profile = lifetimes({"main;f": (1, MS, 0)})
    sample = replace(profile.samples[0], stack=(Location(0x1500, file), *profile.samples[0].stack))
    (row,) = rows_of(replace(profile, samples=[sample]))
    place = "ef" * 8 + "+0x700"
    assert row["frames"] == [place, "f", "main"]
    own = "ab" * 8
    assert row["symbols"] == [f"{place} <{place}>", f"f <{own}+0x660>", f"main <{own}+0x1a50>"]


def test_what_has_no_stack_of_its_own_is_left_out() -> None:
    assert not list(rows_of(lifetimes({"strata_allocated_before_stacks_were_known": (9, MS, 1)})))


def test_the_rest_is_merged_where_some_files_are_damaged(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    dump(heap({"main;f": 100}), source / "heap.pb.gz")
    dump(lifetimes({"main;f": (1, MS, 0)}), source / "whole.pb.gz")
    (source / "cut.pb.gz").write_bytes((source / "whole.pb.gz").read_bytes()[:40])
    (source / "notes.txt").write_text("not looked at")
    merged, rows, warnings = merge(tmp_path)
    assert (merged.profiles, merged.skipped, len(rows)) == (1, 2, 1)
    assert sorted(w.split("/")[-1].split(":")[0] for w in warnings) == ["cut.pb.gz", "heap.pb.gz"]
    assert all(w.endswith("; left out") for w in warnings)


def test_signs_of_patterns_in_a_name_stand_for_themselves(tmp_path: Path) -> None:
    folder = tmp_path / "a=1 [b]*"
    folder.mkdir()
    _, rows, _ = merge(folder, lifetimes({"main;f": (1, MS, 0)}))
    assert "a" not in rows.columns
    assert len(table.read(folder / "out.parquet")) == 1


def test_few_of_many_bad_files_are_named(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for number in range(30):
        (source / f"bad{number}.pb.gz").touch()
    with pytest.raises(StrataError, match=r"bad0\.pb\.gz: .*, and 29 more files$"):
        merge(tmp_path)
    merged, _, warnings = merge(tmp_path, lifetimes({"main;f": (1, MS, 0)}))
    assert (merged.skipped, len(warnings)) == (30, 21)
    assert warnings[-1] == "10 more files are left out"


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("in", "is a directory"),
        ("full", "is a device"),  # which a file put in its place would replace
        ("no/x", "no such directory"),
        ("n" * 300, "file name too long"),
    ],
)
def test_what_can_not_be_written_is_refused(tmp_path: Path, where: str, why: str) -> None:
    source = tmp_path / "in"
    source.mkdir()
    dump(lifetimes({"main;f": (1, MS, 0)}), source / "a.pb.gz")
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(StrataError, match=why):
        dataset.merge([source], tmp_path / where, NO_SPLIT, print)
    assert {path.name for path in tmp_path.iterdir()} == {"in", "full"}


def test_without_any_lifetimes_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(StrataError, match=r"no lifetime profile$"):
        merge(tmp_path, heap({"main;f": 100}))
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_no_function_of_the_test_is_on_a_stack_to_learn_from(tmp_path: Path) -> None:
    draw = random.Random(9)
    stacks = {
        f"main;serve;a{draw.randrange(20)};b{draw.randrange(30)};c{k % 60};wrapper": (k + 1, MS, 0)
        for k in range(500)
    }
    merged, rows, _ = merge(tmp_path, lifetimes(stacks), split=Split(0.2, 3))
    assert set(merged.splits) == {"train", "test"}
    site = pl.col("frames").list.get(1)
    held = set(rows.filter(pl.col("split") == "test").select(site).to_series())
    assert 4 <= len(held) <= 22, "a fifth of sixty"
    seen = set(rows.filter(pl.col("split") == "train")["frames"].explode())
    assert not held & seen
    assert {"main", "serve", "wrapper"} <= seen
    _, again, _ = merge(tmp_path, lifetimes(stacks), split=Split(0.2, 3))
    assert again["split"].equals(rows["split"])
    _, other, _ = merge(tmp_path, lifetimes(stacks), split=Split(0.2, 4))
    assert not other["split"].equals(rows["split"])


def test_a_held_out_function_further_out_is_in_neither(tmp_path: Path) -> None:
    stacks = {f"main;f{k}": (1, MS, 0) for k in range(10)} | {
        f"main;f{k};g{k}": (1, MS, 0) for k in range(10)
    }
    split = Split(0.5, 1)
    held = {name for k in range(10) for name in (f"f{k}", f"g{k}") if split.holds_out(name)}
    _, rows, _ = merge(tmp_path, lifetimes(stacks), split=split)
    for frames, part in rows.select("frames", "split").iter_rows():
        expected = "test" if frames[0] in held else "neither" if held & set(frames) else "train"
        assert part == expected, frames
    assert set(rows["split"]) == {"train", "test", "neither"}


@pytest.fixture
def environment(library: Path) -> dict[str, str]:
    rest = {k: v for k, v in os.environ.items() if not k.startswith("STRATA_")}
    return {**rest, "STRATA_LIB": str(library)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--heap", "glibc", "--learn", "d"], "--learn: the heap glibc takes no samples"),
        (
            ["--set", "PROFILE=heap:/tmp/x", "--learn", "d"],
            "--learn and --set PROFILE=heap:/tmp/x cannot be used together",
        ),
        (["--learn", "/dev/null/d"], "--learn /dev/null/d: not a directory"),
    ],
)
def test_what_can_not_be_recorded_is_refused(
    tmp_path: Path, environment: dict[str, str], arguments: list[str], said: str
) -> None:
    command = [*STRATA, "run", *arguments, "--", "true"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.stderr == f"strata: {said}\n"
    assert done.returncode == 2


def test_a_source_that_is_not_there(tmp_path: Path, environment: dict[str, str]) -> None:
    command = [*STRATA, "lifetimes", str(tmp_path / "no"), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.returncode) == (
        f"strata: {tmp_path}/no: no such file or directory\n",
        2,
    )


@pytest.mark.filterwarnings("ignore")  # of Dask's own
def test_a_cluster_makes_the_same(tmp_path: Path) -> None:
    from distributed import LocalCluster

    from strata.learn import cluster

    profiles = [lifetimes({"main;f": (10 + k, MS, k), f"main;g{k}": (5, MS, 0)}) for k in range(70)]
    merged, alone, _ = merge(tmp_path, *profiles)
    bad = tmp_path / "bad.pb.gz"
    bad.write_bytes(b"no profile")
    together = tmp_path / "together.parquet"
    warnings: list[str] = []
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as local:
        workers = cluster.Cluster(local.scheduler_address)
        found = dataset.merge(
            [tmp_path / "in", bad], together, NO_SPLIT, warnings.append, workers.read_all
        )
        workers.close()
    assert (found.profiles, found.skipped, len(warnings)) == (merged.profiles, 1, 1)
    assert_frame_equal(pl.read_parquet(together), alone)  # but for the order of sums


@pytest.mark.parametrize("address", ["no-such-scheme://x", "127.0.0.1:1", "tcp://127.0.0.1", "x"])
def test_a_cluster_that_is_not_there_gets_one_line(tmp_path: Path, address: str) -> None:
    command = [sys.executable, "-m", "strata", "lifetimes", str(tmp_path), "-o"]
    done = subprocess.run(
        [*command, str(tmp_path / "a.parquet"), "--cluster", address],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith(f"strata: --cluster {address}: ")
    assert "errno" not in done.stderr
