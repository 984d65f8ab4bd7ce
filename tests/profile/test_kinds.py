"""Each kind of profile of a real, preloaded program: what it says of the program is true, and
`go tool pprof` opens it and shows the program's functions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from blackbox import Lab
from strata.pprof import Profile, dump, load
from strata.symbolize import symbolize
from test_pprof import go_pprof

KINDS = {
    "heap": "inuse_space",
    "allocs": "alloc_space",
    "peak": "inuse_space",
    "lifetime": "space",
    "fragmentation": "wasted_space",
}
INTERVAL = 16 << 10
ORDER, RECEIPT = 1024, 208  # the size classes of what the program asks for


@pytest.fixture(scope="module")
def profiles(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Profile]:
    lab.require_strata()
    folder = tmp_path_factory.mktemp("shop")
    program = lab.build(Path(__file__).parent / "shop.cpp")
    lab.run(program, folder, env={"STRATA_SAMPLE": str(INTERVAL)}).silent()
    found = {kind: symbolize(load(folder / f"{kind}.pb.gz")) for kind in KINDS}
    for kind, profile in found.items():
        dump(profile, folder / f"{kind}.named.pb.gz")
        profile.comments.append(str(folder / f"{kind}.named.pb.gz"))
    return found


def total(profile: Profile, function: str, value: str) -> int:
    """The sum over the stacks that a function of the program is in."""
    index = profile.index_of(value)
    return sum(
        sample.values[index]
        for sample in profile.samples
        if any(name.startswith(f"shop::{function}") for name in sample.names())
    )


def near(value: float) -> object:
    """A thousand samples and more stand behind each figure: 20 % is five deviations and more."""
    return pytest.approx(value, rel=0.2)


def test_heap(profiles: dict[str, Profile]) -> None:
    heap = profiles["heap"]
    assert total(heap, "TakeOrder", "inuse_space") == near(15_000 * ORDER)
    assert total(heap, "TakeOrder", "inuse_objects") == near(15_000)
    assert total(heap, "PrintReceipt", "inuse_space") < 100 * RECEIPT + 2 * INTERVAL
    assert total(heap, "Open", "inuse_space") > total(heap, "TakeOrder", "inuse_space")
    assert heap.period == INTERVAL
    assert heap.time_ns > 0


def test_allocs(profiles: dict[str, Profile]) -> None:
    allocs = profiles["allocs"]
    assert total(allocs, "PrintReceipt", "alloc_space") == near(200_000 * RECEIPT)
    assert total(allocs, "TakeOrder", "alloc_objects") == near(50_000)
    assert total(allocs, "Rush", "alloc_space") > 0


def test_peak(profiles: dict[str, Profile]) -> None:
    peak = profiles["peak"]
    assert total(peak, "TakeOrder", "inuse_space") == near(50_000 * ORDER)
    assert total(peak, "Rush", "inuse_space") > 25_000 * ORDER


def test_lifetime(profiles: dict[str, Profile]) -> None:
    lifetime = profiles["lifetime"]
    sizes = {
        name: [s for s in lifetime.samples if s.label("bytes") == size
               and any(frame.startswith(f"shop::{name}") for frame in s.names())]
        for name, size in (("PrintReceipt", RECEIPT), ("Rush", ORDER))
    }  # fmt: skip
    column = {value.type: index for index, value in enumerate(lifetime.types)}
    receipts, orders = sizes["PrintReceipt"][0].values, sizes["Rush"][0].values
    assert receipts[column["objects"]] == near(200_000)
    assert receipts[column["freed_by_other_thread"]] == 0
    assert orders[column["objects"]] == near(30_000)
    assert orders[column["freed_by_other_thread"]] >= 99
    for row in (receipts, orders):
        marks = ["min", "p50", "p75", "p90", "p95", "max"]
        times = [row[column[f"lifetime_{mark}"]] for mark in marks]
        assert times == sorted(times), marks
        assert times[0] <= row[column["lifetime_mean"]] <= times[-1]
    assert receipts[column["lifetime_p50"]] < orders[column["lifetime_p50"]]


def test_fragmentation(profiles: dict[str, Profile]) -> None:
    fragmentation = profiles["fragmentation"]
    assert total(fragmentation, "TakeOrder", "wasted_space") > 1 << 20
    assert {sample.label("level") for sample in fragmentation.samples} <= {"page", "hugepage"}
    # Decades; the second only if the program took ten seconds.
    assert {sample.label("age_s") for sample in fragmentation.samples} <= {1, 10}


@pytest.mark.parametrize(("kind", "shown"), KINDS.items())
def test_go_tool_pprof(profiles: dict[str, Profile], kind: str, shown: str) -> None:
    path = profiles[kind].comments[-1]
    top = go_pprof("-top", path)
    assert f"Type: {shown}\n" in top
    assert re.search(r"shop::(TakeOrder|PrintReceipt)\(\)", top), top
    assert profiles[kind].default_type == shown
    build_id = profiles[kind].mappings[0].build_id
    assert f"Build ID: {build_id}" in top
