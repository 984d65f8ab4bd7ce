"""What libstrata-hoard.so does not need goes back to the system, in the calls that free."""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import Lab, heap_library

SOURCE = Path(__file__).resolve().parent / "burst_back.c"


def on(lab: Lab, heap: str, build: Path) -> Lab:
    return Lab(heap_library(lab, heap), build)


@pytest.mark.parametrize("case", ["all", "most"])
def test_burst_goes_back(lab: Lab, tmp_path: Path, case: str) -> None:
    hoard = on(lab, "hoard", tmp_path)
    result = hoard.run(hoard.build(SOURCE), case).ok()
    print(result.stdout)
    assert result.stderr == ""


def test_a_heap_that_keeps_all_is_found_out(lab: Lab, tmp_path: Path) -> None:
    """The control of the test above: Kingsley's heap gives nothing back."""
    kingsley = on(lab, "kingsley", tmp_path)
    result = kingsley.run(kingsley.build(SOURCE), "all")
    assert result.returncode == 1, result.explain()
    assert "resident < bound" in result.stderr, result.explain()
