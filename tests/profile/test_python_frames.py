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
from strata.pprof.model import Line, Location
from strata.pprof.sites import owners
from test_pprof import go_pprof

PROGRAM = Path(__file__).parent / "python_program.py"
LINES = {
    line.rpartition("  # ")[2]: number
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
    if "  # " in line
}
MIB = 1 << 20


def pythons() -> Iterator[str]:
    """Debian's, and the later ones that happen to be here."""
    for name in ("/usr/bin/python3.11", "python3.12", "python3.13", "python3.14"):
        path = shutil.which(name)
        if (
            path
            and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            yield path


@pytest.fixture(scope="module", params=list(pythons()) or [""])
def path(
    request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    if not request.param:
        pytest.skip("no Python of Debian's here")
    out = tmp_path_factory.mktemp("python") / "heap.pb.gz"
    lab.run(request.param, PROGRAM, out, env={"STRATA_SAMPLE": "65536"}).silent()
    return out


@pytest.fixture(scope="module")
def profile(path: Path) -> Profile:
    return load(path)


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


def test_scripts_are_told_from_code_whose_profiler_knows_no_mappings() -> None:
    def name(function: str, file: str) -> str:
        return next(Location(0, None, (Line(function, file, 1),)).names())

    stack = [name("alloc::vec::with", "src/vec.rs"), "f() (.cold)", name("main", "/srv/bin/serve")]
    assert stack == ["alloc::vec::with", "f() (.cold)", "main (serve)"]
    assert owners(stack) == ["main (serve)"]
    assert owners(stack[:2]) == ["f() (.cold)"]
    assert owners([name("f", "<string>"), "main"]) == ["f (<string>)"]


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


def test_go_s_pprof_keeps_the_names(path: Path) -> None:
    """It takes what stands in angle brackets for a template's arguments, and strips it."""
    top = go_pprof("-top", "-nodefraction=0", path)
    assert "<unknown>" not in top
    assert {"<module>", "<lambda>", "größe"} <= set(top.split())


MANY_STACKS = """
import ctypes, os, sys

def inner():
    bytes(50000)
def table(name, calls, lines):
    exec(f"def {name}():\\n" + f"    {calls}()\\n" * lines, globals())
table("middle", "inner", 150)
table("outer", "middle", 200)
outer()
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
sys.exit(ctypes.CDLL(None).strata_profile(b"heap", fd))
"""


def test_stacks_that_differ_by_their_callers_lines_do_not_fill_the_table(
    lab: Lab, tmp_path: Path
) -> None:
    """30,000 of them, where 16,384 have room."""
    python = next(pythons(), None)
    if python is None:
        pytest.skip("no Python of Debian's here")
    out = tmp_path / "heap.pb.gz"
    lab.run(python, "-c", MANY_STACKS, out, env={"STRATA_SAMPLE": "1"}).silent()
    profile = load(out)
    allocated = profile.index_of("alloc_objects")
    stacks = [(calls(sample), sample.values[allocated]) for sample in profile.samples]
    named = sum(count for stack, count in stacks if ("inner", 5) in stack[:1])
    assert named == pytest.approx(30_000, rel=0.01)
    lines = {line for stack, _ in stacks for function, line in stack if function == "middle"}
    assert len(lines) > 100  # of those that came first
    names = {name for sample in profile.samples for at in sample.stack for name in at.names()}
    assert "strata_stacks_beyond_the_table" not in names
