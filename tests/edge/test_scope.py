"""Scopes from C and C++: what they promise, and what misuse gets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from blackbox import ROOT, Lab, cases
from misuse import expect_misuse

HERE = Path(__file__).resolve().parent
SOURCES = [HERE / "scope_cases.c", HERE / "scope_cap_cases.c"]
CASES = [pytest.param(source, case, id=case) for source in SOURCES for case in cases(source)]
MISUSE = HERE / "scope_misuse_cases.c"
BAD = [case for case in cases(MISUSE) if case.startswith("bad_")]
MODES = {
    "plain": {},
    "per-thread": {"STRATA_CACHE": "thread"},
    "sampled": {"STRATA_SAMPLE": "4096"},
}

# These say where chunks lie, which a debug build draws by lot (malloc/predicted_path.h).
PLACED = ("takes_a_hint_that_it_lasts", "lasts_also_where_it_frees")


@pytest.mark.parametrize(("source", "case"), CASES)
@pytest.mark.parametrize("mode", MODES)
def test_scope(lab: Lab, source: Path, case: str, mode: str) -> None:
    if case in PLACED and "debug" in str(lab.require_strata()):
        pytest.skip("a debug build takes half of all places to allocate what lasts")
    lab.run(lab.build_linked(source), case, env=MODES[mode], preload=False).silent()


@pytest.mark.parametrize("case", BAD)
def test_misuse_is_one_line(lab: Lab, case: str) -> None:
    expect_misuse(lab, lab.build_linked(MISUSE), case)


def test_of_two_threads_that_end_a_scope_one_does(lab: Lab) -> None:
    env = {"STRATA_ON_ERROR": "ignore"}
    result = lab.run(lab.build_linked(MISUSE), "racing_ends", env=env, preload=False)
    assert result.returncode == 0, result.explain()
    assert len(result.strata_lines()) == len(result.stderr.splitlines()) == 3000, result.explain()


@pytest.mark.parametrize("end", ["closed", "destroyed"])
def test_an_end_beside_allocations_breaks_nothing(lab: Lab, end: str) -> None:
    """Each allocation that comes too late says so; none touches what is another's by then."""
    env = {"STRATA_ON_ERROR": "ignore"}
    case = f"many_{end}_beside_allocations"
    result = lab.run(lab.build_linked(MISUSE), case, env=env, preload=False)
    assert result.returncode == 0, result.explain()
    assert result.strata_lines() == result.stderr.splitlines(), result.explain()


@pytest.mark.parametrize("mode", [*MODES, "guarded"])
def test_cxx(lab: Lab, mode: str) -> None:
    """Where every block of the program's is guarded, what a scope takes still lies in the heap."""
    env = (MODES | {"guarded": {"STRATA_GUARD": "1/1"}})[mode]
    lab.run(lab.build_linked(HERE / "scope_cases.cpp"), env=env, preload=False).silent()


@pytest.mark.parametrize("page", ["scope", "reap"])
def test_examples_of_the_pages(lab: Lab, page: str, tmp_path: Path) -> None:
    """Every whole program on the page compiles without a warning and runs."""
    text = (ROOT / f"docs/{page}.md").read_text()
    programs = re.findall(r"```(c|cpp)\n(.*?int main.*?)```", text, re.DOTALL)
    assert programs
    for number, (suffix, program) in enumerate(programs):
        source = tmp_path / f"{page}{number}.{suffix}"
        source.write_text(program)
        program_file = lab.build_linked(source, "-Wall", "-Wextra", "-Werror")
        lab.run(program_file, preload=False).ok()
