"""A preloaded Python program's profile names its own functions, files and lines, in the order of
the calls, among the frames of C that call them and that they call."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from blackbox import Lab
from strata.flame.graph import by_function
from strata.pprof import Profile, Sample, load
from strata.pprof.sites import owners

PROGRAM = Path(__file__).parent / "python_program.py"
LINES = {
    line.rpartition("  # ")[2]: number
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
    if "  # " in line
}
MIB = 1 << 20


def pythons() -> Iterator[str]:
    """Debian's, and the later ones that happen to be here."""
    for name in ("/usr/bin/python3.11", "python3.12", "python3.13"):
        path = shutil.which(name)
        if (
            path
            and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            yield path


@pytest.fixture(scope="module", params=list(pythons()) or [""])
def profile(
    request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Profile:
    if not request.param:
        pytest.skip("no Python of Debian's here")
    out = tmp_path_factory.mktemp("python") / "heap.pb.gz"
    lab.run(request.param, PROGRAM, out, env={"STRATA_SAMPLE": "65536"}).silent()
    return load(out)


def calls(sample: Sample) -> list[tuple[str, int]]:
    return [(line.function, line.line) for at in sample.stack if at.is_script for line in at.lines]


def test_functions_hold_what_they_allocated(profile: Profile) -> None:
    rows = by_function(profile, profile.index_of("inuse_space"), owners)
    own = {row.name: row.flat / MIB for row in rows}
    name = PROGRAM.name
    expected = {"Store.make": 8, "größe": 5, "Key.__eq__": 4, "generate": 7, "<lambda>": 2}
    expected |= {"beside": 6, "deep": 3}
    assert {key: own.get(f"{key} ({name})") for key in expected} == pytest.approx(
        expected, rel=0.1, abs=0.1
    )


def test_lines_and_order_of_the_calls(profile: Profile) -> None:
    stacks = [calls(sample) for sample in profile.samples]

    def one(function: str) -> list[str | int]:
        stack = next(stack for stack in stacks if stack and stack[0][0] == function)
        return [part for call in stack[:2] for part in call]

    assert one("Store.make")[:4] == ["Store.make", LINES["make"], "Store.load", LINES["load"]]
    assert one("größe")[:3] == ["größe", LINES["größe"], "<module>"]
    assert one("Key.__eq__")[:3] == ["Key.__eq__", LINES["eq"], "<module>"]
    assert one("generate")[:2] == ["generate", LINES["generate"]]
    assert one("<lambda>") == ["<lambda>", LINES["lambda"], "<module>", LINES["lambda"]]
    assert one("beside")[:3] == ["beside", LINES["beside"], "Thread.run"]


def test_c_functions_stand_between(profile: Profile) -> None:
    """`map` lies between the lambda and who called it; the C functions that started Python lie
    outside of all."""
    sample = next(s for s in profile.samples if calls(s)[:1] == [("<lambda>", LINES["lambda"])])
    kinds = [place.is_script for place in sample.stack]
    first = kinds.index(True)
    second = kinds.index(True, first + 1)
    assert first > 0 and second > first + 1 and not kinds[-1]


def test_deep_recursion_keeps_the_innermost(profile: Profile) -> None:
    sample = next(s for s in profile.samples if calls(s)[:1] and calls(s)[0][0] == "deep")
    assert len(sample.stack) == 64
    assert {function for function, _ in calls(sample)} == {"deep"}
