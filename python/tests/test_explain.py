"""`strata explain`, by the topics that the run time's messages name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from strata import explain

ROOT = Path(__file__).resolve().parent.parent.parent


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "strata", "explain", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_each_topic_that_a_message_names_is_there() -> None:
    sources = [ROOT / "src/malloc" / name for name in ("error_report.cpp", "bad_free.cpp")]
    text = "".join(source.read_text() for source in sources)
    named = set(re.findall(r"strata explain ([a-z-]+)", text))
    named |= set(re.findall(r'{"[a-z ]+", "([a-z-]+)"}', text))
    assert named == {"double-free", "invalid-free", "use-after-free", "overflow", "underflow"}
    assert named <= set(explain.sections(explain.page()))


def test_a_section_is_printed_as_text() -> None:
    done = run("double-free")
    assert (done.returncode, done.stderr) == (0, "")
    title, empty, first, *_ = done.stdout.splitlines()
    assert (title, empty) == ("Double free", "")
    assert first.startswith("The block was freed before")
    assert "Invalid free" not in done.stdout
    assert "](" not in run().stdout


def test_what_is_no_topic_is_a_mistake_that_names_them() -> None:
    done = run("double free")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such topic: double free; there are" in done.stderr
    listed = done.stderr.partition("there are ")[2].split(", ")
    assert {*listed[:5]} == {
        "double-free",
        "invalid-free",
        "overflow",
        "underflow",
        "use-after-free",
    }
    assert "guards" in listed[5:]


@pytest.mark.parametrize("there", [True, False])
def test_a_package_s_page_stands_beside_the_module(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = tmp_path / "errors.md"
    if there:
        beside.write_text("# Here\n\nand so\n")
    monkeypatch.setattr(explain, "PAGES", (beside, *explain.PAGES[1:]))
    assert ("here" in explain.sections(explain.page())) is there
