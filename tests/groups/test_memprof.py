"""The hints that clang's MemProf writes into a program after a profiled run: from the profile to
the page utilization that they change."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from blackbox import Lab

SOURCE = Path(__file__).resolve().parent / "memprof_example.cpp"
CLANG, PROFDATA = "clang++-19", "llvm-profdata-19"
BUILD = ("-std=c++20", "-O2", "-gmlt", "-fdebug-info-for-profiling", "-fno-omit-frame-pointer",
         "-fno-pie", "-no-pie")  # fmt: skip
# What llvm-profdata asks of a binary: one segment for its code, and a build id.
PROFILED = ("-fno-optimize-sibling-calls", "-mno-omit-leaf-frame-pointer",
            "-Wl,-z,noseparate-code", "-Wl,--build-id")  # fmt: skip
HINTS = ("-mllvm", "-optimize-hot-cold-new", "-mllvm", "-supports-hot-cold-new")


def do(*command: str | Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command], env=env, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def programs(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The example as it is, and with the hints of its own profile."""
    library = lab.require_strata()
    for tool in (CLANG, PROFDATA):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    place = tmp_path_factory.mktemp("memprof")
    link = (f"-Wl,-rpath,{library.parent}", "-Wl,--no-as-needed", library)
    plain, profiled, hinted = (place / name for name in ("plain", "profiled", "hinted"))
    do(CLANG, *BUILD, SOURCE, *link, "-o", plain)
    do(CLANG, *BUILD, *PROFILED, f"-fmemory-profile={place / 'raw'}", SOURCE, "-o", profiled)
    do(profiled, env=lab.environment(preload=False))
    (raw,) = (place / "raw").iterdir()
    merged = place / "merged"
    do(PROFDATA, "merge", raw, "--profiled-binary", profiled, "-o", merged)
    do(CLANG, *BUILD, f"-fmemory-profile-use={merged}", *HINTS, SOURCE, *link, "-o", hinted)
    return plain, hinted


def utilization(lab: Lab, program: Path) -> float:
    return float(lab.run(program).ok().stdout.split()[0])


def test_hints_of_a_profile_raise_page_utilization(lab: Lab, programs: tuple[Path, Path]) -> None:
    plain, hinted = programs
    assert "__hot_cold_t" in do("nm", "-D", hinted)
    assert utilization(lab, hinted) > 0.8
    if "debug" not in str(lab.library):  # which takes half of all places to allocate what lasts
        assert utilization(lab, plain) < 0.15  # one object of eleven
