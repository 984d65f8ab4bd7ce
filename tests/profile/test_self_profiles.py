"""Profiles that programs write of themselves: live bytes of each site, lifetimes, waste.

With STRATA_SAMPLE=1 nearly every block is a sample, so the figures must be exact, and every free
takes the way of sampled pages; with a greater interval they are estimates of the same truth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest
from blackbox import Lab
from strata.pprof import Profile, Sample, load
from strata.symbolize import symbolize

CASES = Path(__file__).resolve().parent / "profile_cases.cpp"
MODES = {"cpu": {}, "thread": {"STRATA_CACHE": "thread"}}


def run(lab: Lab, case: str, out: Path, env: Mapping[str, str]) -> str:
    lab.require_strata()
    return lab.run(lab.build(CASES), case, out, env=env, timeout=150).ok().stdout


def site_of(sample: Sample) -> str:
    return next((name for name in reversed(sample.names()) if name.startswith("Site")), "")


def by_site(path: Path, value: str) -> dict[str, int]:
    profile: Profile = symbolize(load(path))
    index = profile.index_of(value)
    sums: dict[str, int] = defaultdict(int)
    for sample in profile.samples:
        sums[site_of(sample)] += sample.values[index]
    return sums


# 8 KiB: at least 300 samples a site with the rarest; five deviations of the estimate.
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("interval", "exact"), [("1", True), ("8K", False)])
def test_live_bytes_of_each_site(
    lab: Lab, tmp_path: Path, mode: str, interval: str, exact: bool
) -> None:
    stdout = run(lab, "mix", tmp_path, {"STRATA_SAMPLE": interval, **MODES[mode]})
    rows = [line.split() for line in stdout.splitlines()]
    assert len(rows) == 10, stdout
    found = {
        value: by_site(tmp_path / "heap", value)
        for value in ("inuse_objects", "inuse_space", "alloc_space")
    }
    peak = by_site(tmp_path / "peak", "inuse_space")
    after = by_site(tmp_path / "after", "inuse_space")
    child = by_site(tmp_path / "child", "inuse_space")
    for name, objects, live, allocated in rows:
        expected = {
            "inuse_objects": int(objects),
            "inuse_space": int(live),
            "alloc_space": int(allocated),
        }
        samples = int(live) / 8192
        share = 0.002 if exact else 5 / samples**0.5 + 0.01
        for value, truth in expected.items():
            assert found[value][name] == pytest.approx(truth, rel=share), f"{name} {value}"
        assert peak[name] >= found["inuse_space"][name] * 0.98, name
        assert after[name] == 0, f"{name} after all was freed"
        assert child[name] == 0, f"{name} in the child, which freed all"
    assert child["SiteOverThere"] == pytest.approx(10_000_000, rel=0.002 if exact else 0.16)


def test_lifetimes(lab: Lab, tmp_path: Path) -> None:
    run(lab, "lifetimes", tmp_path, {"STRATA_SAMPLE": "1"})
    profile = symbolize(load(tmp_path / "lifetime"))
    rows = {
        site_of(sample): dict(zip((t.type for t in profile.types), sample.values, strict=True))
        for sample in profile.samples
        if sample.label("bytes") == 64
    }
    there, here, kept = rows["SiteOverThere"], rows["SiteMalloc"], rows["SiteNew"]
    assert there["objects"] == 2000 and there["still_live"] == 0
    assert there["freed_by_other_thread"] == 100
    assert 2e8 <= there["lifetime_min"] <= there["lifetime_mean"] <= there["lifetime_max"] < 6e10
    for quantile in ("p50", "p75", "p90", "p95"):
        assert there["lifetime_min"] <= there[f"lifetime_{quantile}"] <= there["lifetime_max"]
    assert here["objects"] == 2000 and here["freed_by_other_thread"] == 0
    assert here["lifetime_p50"] < 1e6
    assert kept["objects"] == 0 and kept["still_live"] == 1


def test_fragmentation_is_charged_to_who_keeps_the_pages(lab: Lab, tmp_path: Path) -> None:
    run(lab, "fragmentation", tmp_path, {"STRATA_SAMPLE": "1", "STRATA_RELEASE": "off"})
    profile = symbolize(load(tmp_path / "fragmentation"))
    wasted: dict[object, int] = defaultdict(int)
    inuse = 0
    for sample in profile.samples:
        # 112: the library's thread may start in a call of malloc there, and have blocks made.
        if site_of(sample) == "SiteMalloc" and sample.label("bytes") == 112:
            wasted[sample.label("level")] += sample.values[profile.index_of("wasted_space")]
            inuse += sample.values[1] if sample.label("level") == "page" else 0
            assert sample.label("age_s") in (1, 10)  # the whole decade; 10 on a busy machine
    # 63 of 64 blocks of 112 bytes are free; caches may keep a few megabytes of them.
    assert inuse == pytest.approx(104_000, rel=0.01)
    assert 2_000_000 < wasted["page"] < 7_200_000, wasted


@pytest.mark.parametrize("mode", MODES)
def test_bad_frees_are_found_on_sampled_pages(lab: Lab, tmp_path: Path, mode: str) -> None:
    lab.require_strata()
    for case, message in (("double_free", "double free"), ("inside", "middle of a block")):
        env = {"STRATA_SAMPLE": "1", **MODES[mode]}
        result = lab.run(lab.build(CASES), case, tmp_path, env=env)
        assert result.returncode == -6 and message in result.stderr, result.explain()


def test_off_takes_no_sample(lab: Lab, tmp_path: Path) -> None:
    run(lab, "off", tmp_path, {"STRATA_SAMPLE": "0"})
