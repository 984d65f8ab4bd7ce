"""The mutants' tool on a project of three lines: each verdict comes out, and none by accident."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from loading import load

mutants = load("mutants")

CMAKE = """cmake_minimum_required(VERSION 3.25)
project(p LANGUAGES CXX)
include_directories(src)
add_executable(a_sum_test tests/a/sum_test.cpp)
set_target_properties(a_sum_test PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/a OUTPUT_NAME sum_test)
"""
HEADER = """constexpr int kFour = 4;
inline int Sum(int a, int b) { return a + b; }
inline int Twice(int a) { return a + a; }
inline int Unused(int a) { return a * 3; }
"""
TEST = """#include "sum.h"
static_assert(kFour == 4);
int main() { return Sum(2, 3) == 5 && Twice(2) == 4 ? 0 : 1; }
"""


def entry(name: str, find: str, replace: str, **more: str) -> str:
    """One entry of a list."""
    lines = ["[[file.mutant]]", f'name = "{name}"', f'find = "{find}"', f'replace = "{replace}"']
    return "\n".join([*lines, *(f'{key} = "{value}"' for key, value in more.items())]) + "\n"


def write_list(path: Path, *entries: str, tests: str = '["a/sum_test"]') -> list[object]:
    """The mutants of a list with one file."""
    path.write_text(f'[[file]]\npath = "src/sum.h"\ntests = {tests}\n' + "".join(entries))
    return list(mutants.read_list(path))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree that git knows, with one header and one test."""
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("cmake or ninja is not installed")
    monkeypatch.setattr(mutants, "LEAST_SECONDS", 2)
    root = tmp_path / "root"
    for name, text in (("CMakeLists.txt", CMAKE), ("src/sum.h", HEADER),
                       ("tests/a/sum_test.cpp", TEST)):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def verdicts(root: Path, chosen: list[object], jobs: int = 1) -> tuple[bool, dict[str, str]]:
    """Whether a run is content, and what it says of each mutant."""
    run = mutants.Run(chosen, root, root.parent / "build")
    ok = run.all(jobs)
    return ok, {mutant.name: verdict.value for mutant, verdict in run.results}


def test_every_verdict(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = write_list(
        tmp_path / "sums.toml",
        entry("minus", "a + b", "a - b"),
        entry("endless", "a + b", '({ for (;;) asm volatile(\\"\\"); 0; })'),
        entry("unseen", "a * 3", "a * 4"),
        entry("same", "a + a", "a * 2", equivalent="twice is a sum"),
        entry("not-the-same", "a + a", "a - a", equivalent="so they say"),
        entry("gone", "a / b", "a"),
        entry("twice", "int a", "int"),
        entry("no-program", "a * 3", "a *"),
        entry("asserted", "kFour = 4", "kFour = 5"),
        entry("behind", "a + a", "a", after="Twice(int a)"),
    )
    ok, found = verdicts(project, chosen, jobs=2)
    assert not ok
    assert found == {
        "minus": "killed", "endless": "killed", "unseen": "SURVIVED", "same": "equivalent",
        "not-the-same": "WRONG", "gone": "STALE", "twice": "STALE", "no-program": "BROKEN",
        "asserted": "killed", "behind": "killed",
    }  # fmt: skip
    printed = capsys.readouterr().out
    assert "sums: 10 mutants, 4 killed, 1 equivalent, 1 survived, 2 stale, 1 broken, 1 wrong" in (
        printed
    )
    assert "SURVIVED: sums/unseen" in printed
    assert "twice is a sum" in printed
    assert (project / "src/sum.h").read_text() == HEADER  # the tree itself was never touched


def test_a_run_without_survivors_is_content_and_sees_what_changed(
    project: Path, tmp_path: Path
) -> None:
    path = tmp_path / "sums.toml"
    killed = entry("minus", "a + b", "a - b")
    assert verdicts(project, write_list(path, killed)) == (True, {"minus": "killed"})
    # A weaker test in the same tree: the same mutant lives now.
    weak = project / "tests/a/sum_test.cpp"
    weak.write_text(TEST.replace("Sum(2, 3) == 5", "Sum(2, 0) == 2"))
    assert verdicts(project, write_list(path, killed)) == (False, {"minus": "SURVIVED"})


def test_a_test_that_fails_by_itself_kills_nothing(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "tests/a/sum_test.cpp").write_text(TEST.replace("5", "6"))
    chosen = write_list(tmp_path / "sums.toml", entry("minus", "a + b", "a - b"))
    assert verdicts(project, chosen) == (False, {"minus": "BROKEN"})
    assert "fails without any mutant" in capsys.readouterr().out


def test_a_test_may_be_a_file_for_pytest(project: Path, tmp_path: Path) -> None:
    (project / ".venv").symlink_to(sys.prefix)
    (project / "tests/a/test_sum.py").write_text(
        "import pathlib, subprocess\n"
        "PROGRAM = pathlib.Path(__file__).parents[2] / 'build/tests/a/sum_test'\n"
        "def test_sum(): assert subprocess.run([PROGRAM]).returncode == 0\n"
    )
    chosen = write_list(
        tmp_path / "sums.toml",
        entry("minus", "a + b", "a - b"),
        entry("unseen", "a * 3", "a * 4"),
        tests='["a_sum_test: tests/a/test_sum.py"]',
    )
    assert verdicts(project, chosen) == (False, {"minus": "killed", "unseen": "SURVIVED"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (entry("a", "x", "y") + entry("a", "z", "y"), "two mutants"),
        (entry("a", "x", "y", because="I say so"), "unknown `because`"),
        ('[[file.mutant]]\nname = "a"\nfind = "x"\n', "`replace` is missing"),
        (entry("", "x", "y"), "`name` is missing"),
        ("", "no mutants"),
    ],
)
def test_lists_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(mutants.ListError, match=message):
        write_list(tmp_path / "sums.toml", text)


def test_a_list_names_its_tests(tmp_path: Path) -> None:
    with pytest.raises(mutants.ListError, match="`tests` is not a list"):
        write_list(tmp_path / "sums.toml", entry("a", "x", "y"), tests="[]")


def test_areas_and_names_are_selected(tmp_path: Path) -> None:
    both = []
    for area in ("one", "two"):
        both += write_list(
            tmp_path / f"{area}.toml", entry("red", "x", "y"), entry("green", "x", "y")
        )
    names = [f"{m.area}/{m.name}" for m in mutants.select(both, ["two"], [])]
    assert names == ["two/red", "two/green"]
    assert [m.area for m in mutants.select(both, [], ["gre"])] == ["one", "two"]
    assert len(mutants.select(both, [], ["one/r*"])) == 1
