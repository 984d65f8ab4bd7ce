"""The kinds of heap: the table and the picture, from results that are made up; and that the program
measures what memory can be measured exactly."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, need
from strata_bench import groups, taxonomy
from strata_bench.results import Results, Run


def results_of(case: str, fields: dict[str, dict[str, str]]) -> Results:
    results = Results()
    for name, values in fields.items():
        results.add(Run(case, name, 1, values))
    return results


def test_the_kinds_have_a_table_and_a_picture(tmp_path: Path) -> None:
    figures = {key: "2" for key, _, _ in taxonomy.COLUMNS}
    kinds = {kind: figures for kind in taxonomy.KINDS if kind != "owners"}
    results = results_of(taxonomy.KIND_CASE.name, kinds)
    images = tmp_path / "img"
    text = groups.page(taxonomy.TAXONOMY, results, {}, "How.", images)
    assert "| serial single heap | 2 | 2 | 2.00 | 2.00 | 2.00 | 2.00 | 2 % | 2 % |" in text
    assert "| private with ownership | – | – | – | – | – | – | – | – |" in text
    assert "![The kinds of heap](img/taxonomy.png)" in text
    assert (images / "taxonomy.png").read_bytes().startswith(b"\x89PNG")


def test_what_the_machine_gave_stands_under_the_table(tmp_path: Path) -> None:
    results = Results()
    for number, (ns, two) in enumerate(((50, 19), (300, 16), (60, 20)), 1):
        results.add(Run("handover", "private", number, {"handover_ns": str(ns)}))
        results.add(Run("alone-t1", "private", number, {"mops": "10"}))
        results.add(Run("alone-t2", "private", number, {"mops": str(two)}))
    text = groups.page(taxonomy.TAXONOMY, results, {}, "How.", tmp_path)
    assert "took 50 to 300 ns in these rounds, 60 in the median" in text
    assert "1.60 to 2.00 times as fast as one in these rounds, 1.90 in the median" in text


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("bench") / "taxonomy"
    source = ROOT / "bench/programs/taxonomy.cpp"
    include = f"-I{ROOT / 'include'}"
    flags = ["-std=c++20", "-O2", "-fno-builtin-malloc", "-fno-builtin-free", "-pthread"]
    command = [need("g++"), *flags, include, str(source), "-o", str(built)]
    subprocess.run(command, check=True, timeout=120)
    return built


def measured(program: Path, kind: str) -> dict[str, float]:
    done = subprocess.run(
        [str(program), f"--kind={kind}", "--seconds=0.01", "--length=0.2"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    words = dict(word.split("=") for word in done.stdout.split())
    assert words["kind"] == kind
    return {key: float(words[key]) for key, _, _ in taxonomy.COLUMNS}


def test_memory_and_lines_are_as_the_kinds_say(program: Path) -> None:
    serial, concurrent, private, owners, hoard = (
        measured(program, kind) for kind in taxonomy.KINDS
    )
    for one_heap in (serial, concurrent):
        assert one_heap["in_turn"] < 1.1
        assert one_heap["one_way_long"] < 1.1
        assert one_heap["active"] > 90
    assert private["in_turn"] > 8
    assert private["one_way_long"] > 3.5 * private["one_way"] > 3.5  # without end
    assert private["active"] == 0
    assert private["passive"] > 90
    assert owners["in_turn"] > 8
    assert owners["one_way_long"] == owners["one_way"] < 1.5
    assert hoard["in_turn"] < 2
    assert hoard["one_way_long"] == hoard["one_way"] < 1.5
    for apart in (owners, hoard):
        assert apart["active"] == 0
        assert apart["passive"] == 0
