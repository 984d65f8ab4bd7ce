"""The group about Hoard: its tables and verdicts, from results that are made up; and that the
programs that only it has say what they should."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, need
from strata_bench import groups, hoard_group
from strata_bench.results import Results, Run


def made_up(speeds: dict[str, tuple[float, float]]) -> Results:
    """Two rounds of each program with one and two threads, on hoard; glibc is at half of it."""
    results = Results()
    for number in (1, 2):
        for program, pair in speeds.items():
            for threads, mops in zip((1, 2), pair, strict=True):
                for name, share in (("hoard", 1.0), ("glibc", 0.5)):
                    fields = {"mops": str(mops * share * number)}
                    results.add(Run(f"{program}-t{threads}", name, number, fields))
        fields = {key: "1.5" for key, _, _ in hoard_group.FRAGMENTATIONS}
        results.add(Run("fragmentation", "hoard", number, fields))
        results.add(Run("handover", "hoard", number, {"handover_ns": str(50 * number)}))
    return results


LINEAR = {"threadtest": (10.0, 19.0), "larson": (10.0, 15.0), "alone": (10.0, 20.0)}


def test_section_has_speed_ups_and_verdicts(tmp_path: Path) -> None:
    text = groups.page(hoard_group.HOARD, made_up(LINEAR), {}, "How.", tmp_path)
    assert "| alone: nothing shared | 2.00 (2.00) | 2.00 (2.00) |" in text
    assert "| threadtest | 1.90 (1.90) | 1.90 (1.90) |" in text
    assert "| cache-thrash | – | – |" in text
    assert "took 50 to 100 ns" in text
    lines = text.splitlines()
    (threadtest,) = [line for line in lines if "| threadtest: speed-up is linear" in line]
    assert threadtest.endswith(
        "| 1.90, 95 % of what threads get that share nothing | at least 90 % of 2: met |"
    )
    (larson,) = [line for line in lines if "| larson: speed-up is linear" in line]
    assert larson.endswith("| at least 90 % of 2: **missed** |")
    (published,) = [line for line in lines if "pull request 94 of" in line]
    assert published.endswith(
        "| 2.00 × glibc on 2 | needs 192: not testable here; on 2 not slower |"
    )
    (fragmentation,) = [line for line in lines if "fragmentation 1.24" in line]
    assert fragmentation.endswith(
        "| 1.50 on threadtest with 16 bytes, the least block | **missed** |"
    )


def test_claims_without_runs_are_left_out(tmp_path: Path) -> None:
    results = made_up({"threadtest": (10.0, 19.0), "alone": (10.0, 20.0)})
    text = groups.page(hoard_group.HOARD, results, {}, "How.", tmp_path)
    assert "threadtest 278 % faster" in text
    assert "pull request 94" not in text
    assert "one processor: 6.2 %" not in text
    assert "0.00 ×" not in text


def test_works_of_one_variant_run_with_no_other() -> None:
    work = next(w for w in hoard_group.HOARD.works if w.only)
    assert work.only == ("hoard",)
    assert {v.name for v in hoard_group.HOARD.variants} >= set(work.only)


@pytest.mark.parametrize(
    ("name", "arguments", "figures"),
    [
        ("alone", ("--seconds=0.01", "--count=1000", "--threads=2", "--work=4"), ("mops",)),
        ("handover", ("--seconds=0.01",), ("handover_ns",)),
        ("fragmentation", ("--length=0.1",), tuple(k for k, _, _ in hoard_group.FRAGMENTATIONS)),
    ],
)
def test_program_says_its_figures(
    tmp_path: Path, name: str, arguments: tuple[str, ...], figures: tuple[str, ...]
) -> None:
    program = tmp_path / name
    source = ROOT / f"bench/programs/{name}.cpp"
    flags = ["-std=c++20", "-O2", "-fno-builtin-malloc", "-fno-builtin-free", "-pthread"]
    command = [need("g++"), *flags, f"-I{ROOT / 'include'}", str(source), "-o", str(program)]
    subprocess.run(command, check=True, timeout=120)
    done = subprocess.run(
        [str(program), *arguments], check=True, capture_output=True, text=True, timeout=60
    )
    words = dict(word.split("=") for word in done.stdout.split())
    for figure in figures:
        assert float(words[figure]) > 0
    if name == "fragmentation":  # no heap holds less than is in use
        assert all(float(words[figure]) >= 1 for figure in figures)
