"""Setuid programs: what their caller says to Strata must not reach what they start."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from blackbox import Lab, missing
from strata.trace.command import find_tool

HERE = Path(__file__).resolve().parent
NOBODY = 65534


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that any user reaches, where setuid means something."""
    if os.geteuid() != 0:
        missing("not root")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            missing(f"{folder} is on a file system mounted nosuid")
        yield folder


@pytest.mark.parametrize("name", ["libstrata.so", "libstrata-trace.so"])
def test_children_of_a_setuid_program_hear_nothing(lab: Lab, open_folder: Path, name: str) -> None:
    library = lab.require_strata() if name == "libstrata.so" else find_tool(name)
    copy = open_folder / f"{name}.0"  # its soname or its file's name, whichever is asked for
    shutil.copy(library, open_folder / name)
    shutil.copy(library, copy)
    link = (f"-Wl,-rpath,{open_folder}", "-Wl,--no-as-needed", str(open_folder / name))
    program = open_folder / "program"
    shutil.copy(lab.build(HERE / "privileged.c", *link), program)
    program.chmod(0o4755)
    files = {kind: open_folder / kind for kind in ("stats", "prometheus", "profile", "trace")}
    env = {
        "STRATA_STATS": str(files["stats"]),
        "STRATA_PROMETHEUS": str(files["prometheus"]),
        "STRATA_PROFILE": f"heap:{files['profile']}",
        "STRATATRACE_FILE": str(files["trace"]),
        "OTHER": "stays",
    }
    result = lab.run(program, "outer", env=env, preload=False, user=NOBODY, group=NOBODY)
    if result.returncode == 77:
        missing("setuid has no effect here")
    assert result.ok().stdout == "outer 0 stays\ninner 0\n", result.explain()
    left = {path.name for path in open_folder.iterdir()}
    assert left == {name, copy.name, "program"}
