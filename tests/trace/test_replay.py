"""`strata replay` and `strata trace --annotate` on recorded programs: what was recorded is called
again, and told."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from blackbox import Lab
from strata.library import heaps_beside
from strata.stats import duration
from strata.trace.analyze import live_bytes, objects
from strata.trace.command import find_tool
from strata.trace.format import Operation
from strata.trace.read import read_trace
from tracing import (
    assert_replay_follows,
    record,
    replayed,
    strata,
)

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def program(lab: Lab) -> Path:
    return lab.build(HERE / "recorded.cpp", "-fsized-deallocation")


def test_the_replayer_tells_its_own_time(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert record(lab, path, program, "threads").returncode == 0
    plain = replayed(path, touch="pages")
    told = replayed(path, "--overhead", touch="pages")
    assert "overhead_seconds" not in plain
    assert isinstance(told["overhead_seconds"], float)
    assert told["overhead_seconds"] > 0
    # The steps that were made for it leave nothing behind.
    assert told["failures"] == plain["failures"] == 0
    assert told["end_live"] == plain["end_live"]
    result = strata(lab, "replay", path, "--runs", "1", "--allocator", "glibc")
    assert "of the time, the replayer itself: " in result.stdout, result.explain()
    threaded = strata(lab, "replay", path, "--runs", "1", "--allocator", "glibc", "--threads")
    assert "replayer itself" not in threaded.stdout
    both = subprocess.run(
        [find_tool("strata-replay"), "--threads", "--overhead", path], check=False
    )
    assert both.returncode == 2


def test_every_heap_of_the_tree_can_be_replayed_on(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert record(lab, path, program, "threads").returncode == 0
    heaps = heaps_beside(lab.require_strata())
    assert heaps
    assert not {"trace", "apr"} & set(heaps)
    for library in heaps.values():
        assert_replay_follows(path, library)


def test_info_and_replay_as_commands(lab: Lab, program: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "t", tmp_path / "out"
    assert record(lab, path, program, "threads").returncode == 0
    info = strata(lab, "trace", "--info", path).ok().stdout
    for part in ("peak live", "size up to", "lifetime", "freed by another", "5,000"):
        assert part in info
    on = ("--heap", "strata", "--allocator", "glibc", "--preload", lab.require_strata())
    table = strata(lab, "replay", path, *on, "--runs", "1", "-o", out).ok().stdout
    assert "glibc" in table
    assert "libstrata.so" in table
    page = (out / "index.html").read_text()
    assert page.count("<svg") == 2
    assert "http://" not in page.replace("http://www.w3.org", "")
    result = json.loads((out / "result.json").read_text())
    arms = [r["arm"] for r in result["replays"]]
    assert arms == ["strata", "glibc", lab.require_strata().name]
    assert all(r["samples"] and r["seconds"] for r in result["replays"])


def test_times_are_in_the_unit_that_fits(lab: Lab, program: Path, tmp_path: Path) -> None:
    assert [duration(n) for n in (7, 1234, 56_700, 999_900, 41.52e6, 7.0314e9, 311e9)] == [
        "7 ns", "1.23 µs", "56.7 µs", "1000 µs", "41.5 ms", "7.031 s", "311 s",
    ]  # fmt: skip
    path = tmp_path / "t"
    assert record(lab, path, program, "api").returncode == 0
    heaps = ("--heap", "glibc", "--heap", "strata", "--runs", "1")
    table = strata(lab, "replay", path, *heaps).ok().stdout
    assert "0.000" not in table
    assert re.search(r"^glibc +\d\S* (ns|µs|ms) ", table, re.M)


def test_a_damaged_trace_is_replayed_up_to_there_and_told_once(
    lab: Lab, program: Path, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    assert record(lab, path, program, "threads").returncode == 0
    path.write_bytes(path.read_bytes()[:-100])
    result = strata(lab, "replay", path, "--heap", "glibc", "--heap", "strata", "--runs", "2")
    assert result.returncode == 0
    assert re.fullmatch(
        r"strata: \S+/t: damaged at byte \d+: cut off within a block; replaying what is .+\n",
        result.stderr,
    )
    for content, why in ((b"", "empty, not a trace"), (b"MZ" * 50, "not a trace of Strata's")):
        path.write_bytes(content)
        result = strata(lab, "replay", path)
        assert result.returncode == 2
        assert result.stderr == f"strata: {path}: {why}\n"


def test_annotating_as_a_command(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert record(lab, path, program, "threads").returncode == 0
    before = objects(read_trace(path))
    result = strata(lab, "trace", "--annotate", path, "-o", path)
    assert result.returncode == 0
    assert f"{len(before):,} objects, of which " in result.stderr
    events = read_trace(path).events
    made = events.filter(events["operation"] != Operation.FREE)
    assert made["lifetime"].to_list() == before["lifetime"].to_list()
    assert made["lifetime_bytes"].to_list() == before["lifetime_bytes"].to_list()
    info = strata(lab, "trace", "--info", path).ok().stdout
    for part in ("lifetimes by size\n", "bytes allocated meanwhile", "lifetimes by thread"):
        assert part in info
    assert_replay_follows(path)


def test_a_damaged_trace_is_replayed_up_to_the_damage(
    lab: Lab, program: Path, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    assert record(lab, path, program, "threads").returncode == 0
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    trace = read_trace(path)
    assert trace.damage is not None
    assert 0 < len(trace.events) < 40_000
    answer = replayed(path)
    assert answer["events"] == len(trace.events)
    assert answer["end_live"] == live_bytes(trace)[-1]
    assert replayed(path, "--threads")["end_live"] == live_bytes(trace)[-1]
    info = strata(lab, "trace", "--info", path)
    assert info.returncode == 0
    assert len(info.stderr.splitlines()) == 1


def test_annotating_keeps_a_link_and_permissions(lab: Lab, program: Path, tmp_path: Path) -> None:
    path, link = tmp_path / "t", tmp_path / "link"
    assert record(lab, path, program, "api").returncode == 0
    path.chmod(0o640)
    link.symlink_to(path)
    assert strata(lab, "trace", "--annotate", link, "-o", link).returncode == 0
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert "lifetime" in read_trace(path).events.columns


def test_replay_refuses_what_it_could_not_use(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert record(lab, path, program, "fork").returncode == 0
    misspelt = strata(lab, "replay", path, "--allocator", "strata:SAMPL=0")
    assert misspelt.returncode == 2, misspelt.explain()
    assert "--allocator 'strata:SAMPL=0'" in misspelt.stderr
    assert "unknown option STRATA_SAMPL" in misspelt.stderr
    # Told before the runs, so nothing was printed yet.
    beside = strata(lab, "replay", path, "--allocator", "glibc", "-o", path / "folder")
    assert beside.returncode == 2, beside.explain()
    assert beside.stdout == ""
    assert str(path / "folder") in beside.stderr
    assert len(beside.stderr.splitlines()) == 1


def test_rows_are_in_the_order_of_the_command_line(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert record(lab, path, program, "fork").returncode == 0
    library = lab.require_strata()
    words = ["--heap", "lea", "--allocator", "strata", f"--preload={library}", "--heap", "glibc"]
    result = strata(lab, "replay", path, "--runs", "1", *words)
    assert result.returncode == 0, result.explain()
    names = [line.split()[0] for line in result.stdout.splitlines() if line]
    rows = names[names.index("allocator") + 1 :][:4]
    assert rows == ["lea", "strata", library.name, "glibc"], result.explain()
