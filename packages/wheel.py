"""The wheels `strata-malloc`: the command line tools with the libraries inside, one for each
architecture and C library. Those for glibc have the library for musl, too, which `strata run` takes
for a program that needs it; on a machine with musl there are none that need the other.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from stage import ROOT, Stage, newest_glibc, run

# Where strata.library and strata.trace.command look.
INSIDE = "strata/lib"
# The oldest musl that a wheel's name can give (PEP 656) of the series that ours is built with,
# Debian's 1.2.3.
MUSL = "musllinux_1_2"


def copy_parts(stages: list[Stage], into: Path) -> None:
    """The libraries under their plain names, which a wheel cannot hold as links, and the tools."""
    into.mkdir(parents=True)
    first, *others = stages
    for path in sorted(first.libraries.glob("libstrata*.so")):
        shutil.copy2(path.resolve(), into / path.name)
    for path in sorted((first.usr / "libexec/strata").iterdir()):
        shutil.copy2(path, into / path.name)
    for stage in others:
        name = f"libstrata-{stage.target.libc}.so"
        shutil.copy2((stage.libraries / name).resolve(), into / name)


def tag_of(stage: Stage) -> str:
    if stage.target.libc == "musl":
        return f"{MUSL}_{stage.target.machine}"
    return f"manylinux_{newest_glibc(stage).replace('.', '_')}_{stage.target.machine}"


def make(stage: Stage, all_of_machine: list[Stage], work: Path, out: Path) -> Path:
    source = work / f"wheel-{stage.target.triplet}"
    parts = all_of_machine if stage.target.libc == "glibc" else [stage]
    shutil.copytree(
        ROOT / "python", source, ignore=shutil.ignore_patterns("__pycache__", "tests", "*.egg-info")
    )
    shutil.copy2(ROOT / "LICENSE", source)
    shutil.copy2(ROOT / "README.md", source)
    shutil.copy2(ROOT / "docs/errors.md", source / "strata")
    copy_parts(parts, source / INSIDE)
    project = source / "pyproject.toml"
    text = project.read_text().replace(
        'strata = ["py.typed"]', 'strata = ["py.typed", "errors.md", "lib/*"]'
    )
    project.write_text(text.replace("[project]\n", '[project]\nreadme = "README.md"\n'))
    tag = tag_of(stage)
    (source / "setup.cfg").write_text(f"[bdist_wheel]\nplat_name = {tag}\n")
    run(
        *(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"),
        *("--disable-pip-version-check", "--wheel-dir", out, source),
    )
    return next(out.glob(f"strata_malloc-*-{tag}.whl"))
