"""A saved report for the tests: samples and profiles with known figures, and one hostile name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strata.pprof import Label, Line, Location, Profile, Sample, ValueType, dump

MIB = 1 << 20
HOSTILE = '</svg><script>document.title="owned"</script><img src=x onerror=alert(1)>'
STACKS = (
    ("malloc", "readQueryFromClient", "main"),
    ("operator new(unsigned long)", "std::vector<int>::push_back", HOSTILE, "main"),
    ("malloc", "template_" + "x" * 3000, "main"),
)
HEAP_TYPES = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
LIFETIME_TYPES = (
    "objects", "space", "lifetime_min", "lifetime_mean", "lifetime_max", "lifetime_stddev",
    "lifetime_p50", "lifetime_p75", "lifetime_p90", "lifetime_p95", "freed_by_other_thread",
    "freed_by_other_cpu", "still_live",
)  # fmt: skip
BYTES = {
    "live": 60 * MIB,
    "internal_slack": 2 * MIB,
    "caches": 3 * MIB,
    "cpu_cache": 2 * MIB,
    "transfer_cache": 1 * MIB,
    "central_free": 4 * MIB,
    "page_heap_free": 6 * MIB,
    "free_resident": 10 * MIB,
    "released": 20 * MIB,
    "metadata": 1 * MIB,
    "untouched": 0,
    "resident": 76 * MIB,
    "mapped": 128 * MIB,
    "hugepage_backed": 60 * MIB,
}


def stats(step: int = 0, old: bool = False) -> dict[str, Any]:
    """The library's JSON; an old one lacks what this milestone added."""
    classes: list[dict[str, Any]] = []
    for size, objects, taken, returned in (
        (32, 256, 900, 30),
        (512, 16, 400, 200),
        (4096, 8, 300, 240),
        (65536, 1, 50, 50),
    ):
        row: dict[str, Any] = {
            "size": size, "pages": 1, "objects": objects, "spans": 100, "live": 10000,
            "cpu": 10, "transfer": 5, "central": 900, "hits": 100_000 * (step + 1),
            "misses": 500, "misses_alloc": 300, "misses_free": 200,
        }  # fmt: skip
        if not old:
            row["spans_taken"], row["spans_returned"] = taken, returned
            row["observed"] = [40, 30, 30, 20, 20, 20, 20, 10]
            row["returned"] = [0, 0, 1, 2, 4, 8, 10, 8]
        classes.append(row)
    document: dict[str, Any] = {
        "strata": "0.1.0", "pid": 4242, "cache_mode": "per-cpu (mm_cid)", "thp_mode": "madvise",
        "bytes": dict(BYTES), "coverage": 0.8,
        "page_heap": {"filler": {"partly_released": 1, "released": 2}},
        "cache": {"hits": 100_000 * (step + 1), "misses_alloc": 300 * (step + 1), "misses_free": 9,
                  "vcpus": 3, "limit_bytes": 3 * (1536 << 10)},
        "background": {"released_bytes": 0}, "classes": classes,
        "hugepage_occupancy": [[256, 256, "r"], [10, 256, "r"], [0, 0, "u"], [128, 200, "p"]],
    }  # fmt: skip
    if not old:
        document["cpu_caches"] = [
            {"vcpu": v, "capacity": MIB, "used": MIB >> v, "limit": 1536 << 10,
             "misses_alloc": 200 * (step + 1) >> v, "misses_free": 10, "resizes": 1}
            for v in range(3)
        ]  # fmt: skip
        document["sampler"] = {"interval": 2 * MIB}
        rows = document["hugepage_occupancy"]
        document["hugepage_occupancy"] = [[*row, 30 * at] for at, row in enumerate(rows)]
    return document


def profile(
    types: Sequence[str],
    rows: Sequence[tuple[int, Sequence[int], int]],
    seconds: float = 0,
    extra: Sequence[Label] = (),
) -> Profile:
    """A symbolized profile of rows (index into STACKS, values, object size)."""
    places = {
        name: Location(at + 1, None, (Line(name),))
        for at, name in enumerate(dict.fromkeys(name for stack in STACKS for name in stack))
    }
    samples = [
        Sample(
            tuple(places[name] for name in STACKS[stack]),
            tuple(values),
            (Label("bytes", size, "bytes"), *extra),
        )
        for stack, values, size in rows
    ]
    kinds = [ValueType(name, "bytes" if name.endswith("space") else "count") for name in types]
    return Profile(kinds, samples, duration_ns=int(seconds * 1e9))


def profiles() -> dict[str, Profile]:
    """One of each kind."""
    heap = [
        (0, (1000, 64 * MIB, 600, 40 * MIB), 65536),
        (1, (9000, 30 * MIB, 100, 15 * MIB), 512),
        (2, (500, 8 * MIB, 10, 5 * MIB), 1 << 20),
    ]
    lives = [
        (0, (900, 9, 10**4, 1, 10**7, 1, 10**5, 4 * 10**5, 10**6, 2 * 10**6, 10, 20, 100), 32),
        (1, (500, 9, 10**8, 1, 10**11, 1, 10**9, 10**10, 10**10, 10**11, 30, 20, 300), 65536),
    ]
    waste = [(1, (9 * MIB, 64), 64), (0, (3 * MIB, 32), 32)]
    return {
        "heap": profile(HEAP_TYPES, heap),
        "allocs": profile(HEAP_TYPES, heap),
        "churn": profile(HEAP_TYPES, heap, seconds=10),
        "peak": profile(HEAP_TYPES[2:], [(2, (90, 100 * MIB), 1 << 20)]),
        "lifetime": profile(LIFETIME_TYPES, lives),
        "fragmentation": profile(
            ("wasted_space", "inuse_space"), waste, extra=[Label("level", "hugepage")]
        ),
        "cpu": cpu(),
    }


def cpu() -> Profile:
    """Of the CPU's time: 400 samples in the library, 3600 in the program."""
    rows = [
        (("strata::RseqPop(int)", "strata::Allocate(unsigned long)", "malloc"), 200),
        (("strata::Lock::Acquire()", "strata::TransferCache<A>::Take(int)", "strata::X()"), 40),
        (("strata::CentralFreeList<A>::Take(int)",), 120),
        (("strata::HugeFiller<A>::Take(int)",), 40),
        (("server",), 3600),
    ]
    samples = [
        Sample(
            (Location(number, None, tuple(Line(name) for name in stack)),),
            (count, count * 2_004_008),
            (Label("file", "server" if stack == ("server",) else "libstrata.so"),),
        )
        for number, (stack, count) in enumerate(rows, 1)
    ]
    kinds = [ValueType("samples", "count"), ValueType("cpu", "nanoseconds")]
    return Profile(kinds, samples, duration_ns=10**10)


def save(folder: Path, samples: int = 4, old: bool = False, with_profiles: bool = True) -> Path:
    """Writes a whole saved report."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"at": 2.5 * step, "rss": 90 * MIB, "stats": stats(step, old)})
        for step in range(samples)
    ]
    (folder / "samples.jsonl").write_text("".join(line + "\n" for line in lines))
    meta = {"format": 1, "pid": 4242, "name": HOSTILE, "command": f"server {HOSTILE}"}
    (folder / "report.json").write_text(json.dumps(meta))
    if with_profiles:
        for kind, data in profiles().items():
            dump(data, folder / f"{kind}.pb.gz")
    return folder
