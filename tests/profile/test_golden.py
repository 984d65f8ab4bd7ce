"""Each kind of profile of a day that is always the same (write_kinds.cpp): the bytes are as agreed,
the figures follow from what happened, and `go tool pprof` opens each file.
"""

from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path

import pytest
from strata.pprof import Profile, Sample, ValueType, load
from test_pprof import GOLDEN, WRITER, go_pprof

KINDS = ("heap", "allocs", "peak", "lifetime", "fragmentation")
NAMES = (*KINDS, "heap-window", "allocs-window", "lifetime-window")
REQUEST, PAGE, PLUGIN = 200, 4096, 1 << 20
SERVE, CACHE, LOAD = 0x46000F, 0x47001F, 0x7F100020000F  # the calls, not where they return to
MS = 1_000_000


def path_of(name: str) -> Path:
    return GOLDEN / f"{name}.pb.gz"


@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_as_agreed(name: str) -> None:
    """`make golden` rewrites them, to be reviewed as a diff."""
    kind, _, window = name.partition("-")
    command: list[str | Path] = [WRITER.absolute() / "write_kinds", kind, GOLDEN / "maps.txt"]
    command += [window] if window else []
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path_of(name).write_bytes(done.stdout)
    assert done.stdout == path_of(name).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_last_value_is_how_many_samples_there_were(name: str) -> None:
    """docs/profiles.md says so, and older tools look for it there."""
    assert load(path_of(name)).types[-1] == ValueType("samples", "count")


def weight(size: int) -> float:
    """The objects that one sample of this size stands for, at an interval of 256 bytes."""
    return 1 / (1 - math.exp(-size / 256))


def rows(profile: Profile, call: int) -> list[Sample]:
    """The rows of one site, by their innermost frame."""
    return [sample for sample in profile.samples if sample.stack[0].address == call]


def values(profile: Profile, call: int, size: int) -> dict[str, int]:
    """The one row of a site with objects of a size, by the names of its values."""
    (row,) = [row for row in rows(profile, call) if row.label("bytes") == size]
    return dict(zip((kind.type for kind in profile.types), row.values, strict=True))


def near(figure: float) -> object:
    return pytest.approx(figure, abs=0.51)  # rounded to whole ones


@pytest.mark.parametrize("name", ["heap", "allocs"])
def test_heap_and_allocs(name: str) -> None:
    profile = load(path_of(name))
    assert profile.default_type == {"heap": "inuse_space", "allocs": "alloc_space"}[name]
    serve = values(profile, SERVE, 208)  # its class
    assert serve["alloc_objects"] == near(62 * weight(REQUEST))
    assert serve["alloc_space"] == near(62 * weight(REQUEST) * REQUEST)
    assert serve["inuse_objects"] == near(2 * weight(REQUEST))
    assert serve["inuse_space"] == near(2 * weight(REQUEST) * REQUEST)
    assert serve["samples"] == {"heap": 2, "allocs": 62}[name]  # behind what is shown first
    cache = values(profile, CACHE, PAGE)
    assert cache["alloc_objects"] == near(30)
    assert cache["inuse_space"] == near(29 * PAGE)
    assert values(profile, CACHE, 2 * PAGE)["inuse_space"] == near(2 * PAGE)  # grown by realloc
    load_plugin = values(profile, LOAD, PLUGIN)
    assert (load_plugin["alloc_space"], load_plugin["inuse_space"]) == (4 * PLUGIN, 0)


def test_peak() -> None:
    profile = load(path_of("peak"))
    assert values(profile, LOAD, PLUGIN) == {
        "inuse_objects": 4, "inuse_space": 4 * PLUGIN, "samples": 4,
    }  # fmt: skip
    assert values(profile, CACHE, PAGE)["inuse_space"] == near(30 * PAGE)
    assert values(profile, SERVE, 208)["inuse_objects"] == near(weight(REQUEST))  # one at a time


def test_lifetime() -> None:
    profile = load(path_of("lifetime"))
    serve = values(profile, SERVE, 208)
    assert serve["objects"] == near(60 * weight(REQUEST))
    assert serve["still_live"] == near(2 * weight(REQUEST))
    assert (serve["lifetime_min"], serve["lifetime_max"]) == (MS, 50 * MS)
    lives = [i * MS for i in range(1, 51)] + [2 * MS] * 10
    mean = sum(lives) / 60
    assert serve["lifetime_mean"] == near(mean)
    assert serve["lifetime_stddev"] == pytest.approx(
        math.sqrt(sum((life - mean) ** 2 for life in lives) / 60), abs=2
    )
    for name, share in (("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95)):
        truth = sorted(lives)[math.ceil(share * 60) - 1]
        assert truth / 1.3 < serve[f"lifetime_{name}"] < truth * 1.3, name
    assert serve["freed_by_other_thread"] == near(100 * 25 / 60)
    assert serve["freed_by_other_cpu"] == near(100 * 10 / 60)
    assert serve["samples"] == 62
    assert values(profile, CACHE, PAGE)["still_live"] == near(29)


def test_fragmentation() -> None:
    profile = load(path_of("fragmentation"))
    # Objects younger than a second pin nothing yet.
    assert rows(profile, SERVE) == []
    found = {
        (row.label("bytes"), row.label("level"), row.label("age_s")): row.values
        for row in rows(profile, CACHE)
    }
    assert found == {
        (PAGE, "page", 100): (29 * 64, 29 * PAGE, 29),
        (PAGE, "hugepage", 100): (29 * 1024, 29 * PAGE, 0),
        (2 * PAGE, "page", 100): (64, 2 * PAGE, 1),
        (2 * PAGE, "hugepage", 100): (1024, 2 * PAGE, 0),
    }


def test_windows() -> None:
    """Only what happened in them; the figures since the start are other ones."""
    heap, allocs, lifetime = (
        load(path_of(f"{kind}-window")) for kind in ("heap", "allocs", "lifetime")
    )
    assert heap.duration_ns == 110_000 * MS
    for profile in (heap, allocs):
        assert values(profile, SERVE, 208)["alloc_objects"] == near(12 * weight(REQUEST))
        assert rows(profile, LOAD) == []
    assert values(heap, SERVE, 208)["inuse_objects"] == near(2 * weight(REQUEST))
    assert rows(heap, CACHE) == []  # all older than the window
    serve = values(lifetime, SERVE, 208)
    assert serve["objects"] == near(10 * weight(REQUEST))
    assert serve["lifetime_mean"] == near(2 * MS)
    assert serve["freed_by_other_cpu"] == 100 and serve["freed_by_other_thread"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_go_tool_pprof_opens_it(name: str) -> None:
    top = go_pprof("-top", path_of(name))
    assert f"Type: {load(path_of(name)).default_type}\n" in top
    assert "/usr/bin/server" in go_pprof("-raw", path_of(name))
