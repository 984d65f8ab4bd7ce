"""What the doctor and the report prescribe for the whole machine, taken: what they complained of is
gone, and the process has what it lacked. It changes the machine's settings for some seconds, so it
runs only where STRATA_TEST_MACHINE=1 says that nobody else is on it; they are put back."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from advising import Report, figures, running
from blackbox import Lab, wait_until
from test_doctor_followed import finding

pytestmark = pytest.mark.skipif(
    os.environ.get("STRATA_TEST_MACHINE") != "1" or os.geteuid() != 0,
    reason="changes the machine: STRATA_TEST_MACHINE=1, as root",
)

THP = Path("/sys/kernel/mm/transparent_hugepage")
VM = Path("/proc/sys/vm")


@contextlib.contextmanager
def changed(file: Path, value: str) -> Iterator[None]:
    before = file.read_text()
    chosen = before[before.index("[") + 1 : before.index("]")] if "[" in before else before
    file.write_text(value)
    try:
        yield
    finally:
        file.write_text(chosen)


def take(fix: str) -> None:
    subprocess.run(["bash", "-c", fix.replace("sudo ", "")], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("rule", "file", "value"),
    [
        ("thp-defrag", THP / "defrag", "always"),
        ("thp-defrag", THP / "defrag", "never"),
        ("max-map-count", VM / "max_map_count", "30000"),
    ],
)
def test_the_prescription_helps(lab: Lab, rule: str, file: Path, value: str) -> None:
    with running(lab, "fields") as pid, changed(file, value):
        sick = finding(pid, rule)
        assert sick["state"] == "mend", sick
        for fix in sick["fixes"]:
            take(fix)
        assert finding(pid, rule)["state"] == "ok"


def test_khugepaged_that_fills_what_was_given_back(lab: Lab) -> None:
    with (
        running(lab, "fields") as pid,
        changed(THP / "khugepaged/max_ptes_none", "511"),
        changed(THP / "enabled", "always"),
    ):
        sick = finding(pid, "max-ptes-none")
        assert "out of 1 used pages of 512" in sick["says"], sick
        take(sick["fixes"][0])
        assert finding(pid, "max-ptes-none")["state"] == "ok"


def covered(pid: int) -> float:
    return figures(pid).number("coverage") or 0.0


def test_a_system_that_forbids_hugepages(lab: Lab, tmp_path: Path) -> None:
    """The report's command and the doctor's are one; a process started afterwards has hugepages."""
    with changed(THP / "enabled", "never"):
        with running(lab, "forbid", 1) as pid:
            said = Report(pid, tmp_path / "a")["coverage"]
            assert "The system forbids them" in said.text, said
            assert covered(pid) < 0.1
            sick = finding(pid, "thp")
            assert sick["fixes"] == [said.command.replace("  ", " ")]
            take(said.command)
            assert finding(pid, "thp")["state"] == "ok"
        with running(lab, "forbid", 1) as pid:
            assert wait_until(lambda: covered(pid) > 0.7)
