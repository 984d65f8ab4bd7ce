"""The Python packages that strata-tools carries in its own folder, unseen by others: Debian 12 has
some of them too old and polars not at all.

For this machine they are copied from the environment that makes the packages; for another
architecture the same versions are fetched.
"""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import sys
import zipfile
from pathlib import Path

from stage import Target, run

# What the commands import; their needs come with them. Training has jax: too large for everybody.
CARRIED = ("typer", "click", "rich", "protobuf", "matplotlib", "numpy", "polars")
# Of a wheel for Debian 12: its Python, and a glibc that is not newer.
PLATFORMS = (
    "manylinux2014",
    "manylinux_2_17",
    "manylinux_2_24",
    "manylinux_2_27",
    "manylinux_2_28",
)


def needed_distributions(names: tuple[str, ...]) -> dict[str, importlib.metadata.Distribution]:
    """The named distributions of this environment and what they require without extras."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = importlib.metadata.distribution(name)
        for line in found[name].requires or ():
            if ";" in line and not _applies(line.partition(";")[2]):
                continue
            waiting.append(re.split(r"[^A-Za-z0-9._-]", line)[0].lower())
    return found


def _applies(marker: str) -> bool:
    """Of the markers that those packages use: extras never, versions of Python that are older."""
    if "extra" in marker:
        return False
    words = marker.replace('"', "'").split("'")
    if "python_version" in words[0] and "<" in words[0]:
        return tuple(map(int, words[1].split("."))) > (3, 11)
    return "win32" not in marker and "Windows" not in marker


def copy_distribution(distribution: importlib.metadata.Distribution, into: Path) -> None:
    """Its modules, without its programs and its tests."""
    for file in distribution.files or ():
        if ".." in file.parts or "__pycache__" in file.parts or "tests" in file.parts:
            continue
        target = into / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(str(distribution.locate_file(file))), target)


def fetch(distributions: list[importlib.metadata.Distribution], target: Target, to: Path) -> None:
    """Their wheels for the other architecture."""
    platforms = [word for one in PLATFORMS for word in ("--platform", f"{one}_{target.machine}")]
    wanted = [f"{one.metadata['Name']}=={one.version}" for one in distributions]
    run(
        *(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary=:all:", "--python-version", "3.11", "--dest", to),
        *("--implementation", "cp", "--abi", "cp311", "--abi", "abi3", "--abi", "none"),
        *(*platforms, *wanted),
    )


def put_into(modules: Path, target: Target, work: Path) -> None:
    needed = list(needed_distributions(CARRIED).values())
    if not target.is_cross:
        for distribution in needed:
            copy_distribution(distribution, modules)
        return
    wheels = work / "carried"
    fetch(needed, target, wheels)
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if "tests" not in Path(name).parts and ".data/" not in name:
                    archive.extract(name, modules)
