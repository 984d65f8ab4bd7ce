"""operator new and delete: every form, alignment, and the new_handler loop."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from blackbox import ROOT, Lab, cases

SOURCE = Path(__file__).resolve().parent / "new_cases.cpp"
LIMITED = "handler_frees_memory"
ONLY_STRATA = {"aligned_sizes_at_the_end_of_the_range"}


@pytest.mark.parametrize("case", [case for case in cases(SOURCE) if case != LIMITED])
def test_new(lab: Lab, case: str) -> None:
    if case in ONLY_STRATA:
        lab.require_strata()
    lab.run(lab.build(SOURCE), case).silent()


def test_handler_that_frees_memory_lets_new_succeed(lab: Lab) -> None:
    limit = 512 << 20
    lab.run(
        lab.build(SOURCE),
        LIMITED,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    ).silent()


HINTED = Path(__file__).resolve().parent / "hot_cold_cases.cpp"


OWN = HINTED.with_name("own_new_cases.cpp")


@pytest.mark.parametrize(
    ("source", "case"), [(source, case) for source in (HINTED, OWN) for case in cases(source)]
)
def test_new_with_a_hint(lab: Lab, source: Path, case: str) -> None:
    library = lab.require_strata()
    include = f"-I{ROOT / 'include'}"
    # Linked, not only preloaded: no other library has these names.
    link = ("-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{library.parent}")
    program = lab.build(source, include, *link)
    lab.run(program, case).silent()
