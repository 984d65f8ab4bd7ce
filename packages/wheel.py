"""The wheel `strata-malloc`: the command line tools with the libraries inside."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from stage import ROOT, Stage, newest_glibc, run

# Where strata.library and strata.trace.command look.
INSIDE = "strata/lib"


def copy_parts(stage: Stage, into: Path) -> None:
    """The libraries under their plain names, which a wheel cannot hold as links, and the tools."""
    into.mkdir(parents=True)
    for path in sorted(stage.libraries.glob("libstrata*.so")):
        shutil.copy2(path.resolve(), into / path.name)
    for path in sorted((stage.usr / "libexec/strata").iterdir()):
        shutil.copy2(path, into / path.name)


def make(stage: Stage, work: Path, out: Path) -> Path:
    source = work / "wheel"
    shutil.copytree(
        ROOT / "python", source, ignore=shutil.ignore_patterns("__pycache__", "tests", "*.egg-info")
    )
    shutil.copy2(ROOT / "LICENSE", source)
    shutil.copy2(ROOT / "README.md", source)
    copy_parts(stage, source / INSIDE)
    project = source / "pyproject.toml"
    text = project.read_text().replace('strata = ["py.typed"]', 'strata = ["py.typed", "lib/*"]')
    project.write_text(text.replace("[project]\n", '[project]\nreadme = "README.md"\n'))
    tag = f"manylinux_{newest_glibc(stage).replace('.', '_')}_x86_64"
    (source / "setup.cfg").write_text(f"[bdist_wheel]\nplat_name = {tag}\n")
    run(
        *(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"),
        *("--disable-pip-version-check", "--wheel-dir", out, source),
    )
    return next(out.glob("strata_malloc-*.whl"))
