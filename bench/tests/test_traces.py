"""Traces that a group records before it starts, and their replays. Nothing here is measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from blackbox import find_library
from strata_bench import classic_groups, execute, groups, traces
from strata_bench.allocators import GLIBC, Allocator
from strata_bench.plan import Case, Kind
from strata_bench.results import Results, Run


def test_a_program_is_recorded_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = find_library()
    if library is None or not library.with_name(traces.REPLAY).exists():
        pytest.skip("the tools are not built")
    words = ("-c", "print(sum(len(str(i)) for i in range(1000)))")
    for name, program, env in (
        ("few", sys.executable, {}),
        ("many", sys.executable, {"PYTHONMALLOC": "malloc"}),
        ("gone", "no-such-program", {}),
        ("failing", "false", {}),
    ):
        one = traces.Recording(lambda program=program: program, words, env)  # type: ignore[misc]
        monkeypatch.setitem(traces.RECORDINGS, name, one)
    assert traces.record("few", library, tmp_path) == ""
    assert traces.record("many", library, tmp_path) == ""
    assert traces.record("gone", library, tmp_path) == "no-such-program is not installed"
    assert traces.record("failing", library, tmp_path) != ""
    glibc = Allocator("glibc", "", GLIBC)
    few, many = (
        traces.measure(f"trace-{name}", name, glibc, 1, tmp_path) for name in ("few", "many")
    )
    assert not few.error
    assert not many.error
    assert (many.number("events") or 0) > (few.number("events") or 0) > 0
    whole, calls, alone = (
        many.number(key) or 0 for key in ("seconds", "call_seconds", "overhead_seconds")
    )
    assert whole > alone > 0
    assert calls == pytest.approx(whole - alone, abs=1e-8)
    missing = traces.measure("trace-gone", "gone", glibc, 1, tmp_path)
    assert "cannot be read" in missing.error


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("exec sleep 60", "timed out"),
        ("echo nonsense", "Expecting value"),
        ("echo '{}'", "no 'failures' in its result"),
        ("echo broken >&2; exit 3", "broken"),
        ("exit 3", "exit 3"),
        ("", "No such file"),
    ],
)
def test_a_bad_replay_is_one_bad_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, error: str
) -> None:
    monkeypatch.setattr(traces, "MOST_SECONDS", 0.5 if "sleep" in script else 60)
    tool = traces.path_of(tmp_path, "one").with_name(traces.REPLAY)
    tool.parent.mkdir()
    if script:
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
    step = (Case("trace-one", "one", (), "seconds", kind=Kind.TRACE), Allocator("a", "", None), 1)
    run = execute.run_step(step, tmp_path, quick=False)
    assert error in run.error
    assert (run.case, run.allocator, run.round, run.fields) == ("trace-one", "a", 1, {})


def test_what_the_group_replays_can_be_recorded() -> None:
    for work in classic_groups.TRACES:
        assert work.case.kind is Kind.TRACE
        assert work.case.program in traces.RECORDINGS
        assert work.case.program in classic_groups.LABELS
        read = [Path(a) for a in traces.RECORDINGS[work.case.program].args if "/traced/" in a]
        assert [path.exists() for path in read] == [True]
    names = {work.case.name for work in classic_groups.HEAPS.works}
    assert {target.work for target in classic_groups.HEAPS.targets} == names
    assert classic_groups.IN_MALLOC.keys() == {w.case.name for w in classic_groups.PROGRAMS}


def test_the_means_are_over_the_works_named() -> None:
    results = Results()
    times = {"cfrac": 0.8, "espresso": 0.8, "parser": 0.8, "barnes": 1.0}
    for work in classic_groups.HEAPS.works:
        for number in range(1, 5):
            for variant in ("glibc", "lea", "kingsley"):
                time = times.get(work.case.name, 0.5) if variant == "kingsley" else 1
                fields = {"seconds": str(time), "call_seconds": str(time / 2), "hwm_kib": "2048"}
                fields |= {"overhead_seconds": "0.01", "events": "1000"}
                results.add(Run(work.case.name, variant, number, fields))
    page = groups.page(classic_groups.HEAPS, results, {}, "How.", Path())
    assert "| the programs with at least 5 % in malloc | 1.000 | 0.800 |" in page
    assert f"| all four programs | 1.000 | {0.8**0.75:.3f} |" in page
    assert "| the replays | 1.000 | 0.500 |" in page
    assert "| trace-words | Perl, hashes of words | 1,000 | 10.0 ms | 1000.0 ms |" in page
    assert "- barnes, kingsley: time 1.000 (1.000 to 1.000) × glibc, asked for ≤ 0.833: mis" in page
    assert "- trace-words, lea: time of malloc and free 1.000" in page
