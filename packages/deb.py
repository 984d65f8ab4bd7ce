"""The Debian packages: libstrata0, libstrata0-dbgsym, libstrata-dev and strata-tools.

Made by dpkg-deb from the stage. strata-tools carries the Python packages it needs, because Debian
12 has some of them too old and polars not at all; they lie in its own folder, unseen by others.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import manual
from stage import ROOT, TRIPLET, VERSION, Stage, newest_glibc, run

REVISION = f"{VERSION}-1"
MAINTAINER = "The Strata authors <strata@localhost>"
TOOLS = "usr/lib/strata-tools"
# What the commands import; their needs come with them. Training has jax: too large for everybody.
CARRIED = ("typer", "click", "rich", "protobuf", "matplotlib", "numpy", "polars")
WRAPPER = f"""#!/usr/bin/python3
import sys

sys.path.insert(0, "/{TOOLS}")

from strata.cli import main

sys.exit(main())
"""
DROP_IN = f"""# For a unit: systemctl edit UNIT, or a file in /etc/systemd/system/UNIT.d/. What
# Strata writes goes to the journal with the unit's own output.
[Service]
Environment=LD_PRELOAD=/usr/lib/{TRIPLET}/libstrata.so.0
# Figures and settings from outside, for a unit that is hardened or has less than 8 MiB in use:
# Environment=STRATA_CONTROL=always
"""
COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Strata

Files: *
Copyright: The Strata authors
License: Apache-2.0 WITH LLVM-exception
 The whole text is in LICENSE beside this file; the Apache License is also in
 /usr/share/common-licenses/Apache-2.0.
"""


@dataclass(frozen=True)
class Package:
    name: str
    section: str
    summary: str
    text: str
    depends: tuple[str, ...] = ()
    more: dict[str, str] = field(default_factory=dict)  # other fields
    control: dict[str, str] = field(default_factory=dict)  # other files of DEBIAN/


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


def take(root: Path, into: Path, *patterns: str) -> None:
    """Copies what matches, links as links."""
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            target = into / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink() or path.is_file():
                shutil.copy2(path, target, follow_symlinks=False)
            else:
                shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True)


def put(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def put_gzipped(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, 9, mtime=0))


def finish(package: Package, tree: Path, out: Path) -> Path:
    """Adds the documents and the control files, and makes the .deb."""
    doc = tree / "usr/share/doc" / package.name
    put(doc / "copyright", COPYRIGHT)
    shutil.copy2(ROOT / "LICENSE", doc / "LICENSE")
    put_gzipped(doc / "changelog.Debian.gz", (ROOT / "CHANGELOG.md").read_bytes())
    for path in (tree, *tree.rglob("*")):  # whatever the umask was
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files)
    fields = {
        "Package": package.name,
        "Version": REVISION,
        "Architecture": "amd64",
        "Maintainer": MAINTAINER,
        "Installed-Size": str(-(-size // 1024)),
        "Section": package.section,
        "Priority": "optional",
        "Depends": ", ".join(package.depends),
        **package.more,
        "Description": f"{package.summary}\n {package.text}",
    }
    control = tree / "DEBIAN"
    put(control / "control", "".join(f"{k}: {v}\n" for k, v in fields.items() if v))
    sums = [f"{hashlib.md5(p.read_bytes()).hexdigest()}  {p.relative_to(tree)}\n" for p in files]
    put(control / "md5sums", "".join(sums))
    for name, text in package.control.items():
        put(control / name, text, 0o755 if name in ("postinst", "prerm", "postrm") else 0o644)
    file = out / f"{package.name}_{REVISION}_amd64.deb"
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", tree, file)
    return file


def libraries(stage: Stage, work: Path, out: Path) -> Path:
    tree = work / "libstrata0"
    take(stage.root, tree, f"usr/lib/{TRIPLET}/libstrata*.so.0*")
    names = sorted(p.name.removesuffix(".so.0") for p in tree.rglob("*.so.0"))
    shlibs = "".join(f"{name} 0 libstrata0 (>= {VERSION})\n" for name in names)
    return finish(
        Package(
            "libstrata0",
            "libs",
            "malloc that keeps hugepages and gives memory back (libraries)",
            "Strata replaces malloc: by LD_PRELOAD in a program as it is, or linked.\n"
            " This package has libstrata.so.0 and the other heaps for `strata run --heap`.",
            (f"libc6 (>= {newest_glibc(stage)})",),
            {"Multi-Arch": "same"},
            {"shlibs": shlibs, "triggers": "activate-noawait ldconfig\n"},
        ),
        tree,
        out,
    )


def debug(stage: Stage, work: Path, out: Path) -> Path:
    tree = work / "libstrata0-dbgsym"
    shutil.copytree(stage.debug, tree)
    return finish(
        Package(
            "libstrata0-dbgsym",
            "debug",
            "debug symbols of Strata",
            "For debuggers and profilers, which find them by build id.",
            (f"libstrata0 (= {REVISION})",),
        ),
        tree,
        out,
    )


def development(stage: Stage, work: Path, out: Path) -> Path:
    tree = work / "libstrata-dev"
    library = f"usr/lib/{TRIPLET}"
    take(stage.root, tree, "usr/include", f"{library}/cmake", f"{library}/pkgconfig")
    take(stage.root, tree, f"{library}/libstrata.a")
    for path in sorted((stage.root / library).glob("libstrata*.so")):
        if path.is_symlink():  # the others belong to the tools
            take(stage.root, tree, f"{library}/{path.name}")
    return finish(
        Package(
            "libstrata-dev",
            "libdevel",
            "malloc that keeps hugepages and gives memory back (headers)",
            "Headers, the archive, and files for pkg-config and CMake: heap layers, reaps,\n"
            " scopes, objects that move, statistics.",
            (f"libstrata0 (= {REVISION})",),
        ),
        tree,
        out,
    )


def tools(stage: Stage, work: Path, out: Path) -> Path:
    tree = work / "strata-tools"
    library = f"usr/lib/{TRIPLET}"
    take(stage.root, tree, "usr/libexec")
    for path in sorted((stage.root / library).glob("libstrata*.so")):
        if not path.is_symlink():
            take(stage.root, tree, f"{library}/{path.name}")
    modules = tree / TOOLS
    shutil.copytree(
        ROOT / "python/strata", modules / "strata", ignore=shutil.ignore_patterns("__pycache__")
    )
    for distribution in needed_distributions(CARRIED).values():
        copy_distribution(distribution, modules)
    put(tree / "usr/bin/strata", WRAPPER, 0o755)
    put_gzipped(tree / "usr/share/man/man1/strata.1.gz", manual.page(VERSION).encode())
    for place, shell in manual.COMPLETIONS.items():
        put(tree / place, manual.completion(shell))
    put(tree / "usr/share/doc/strata-tools/examples/strata-preload.conf", DROP_IN)
    clean = f"rm -rf /{TOOLS}/*/__pycache__; find /{TOOLS} -name __pycache__ -exec rm -rf {{}} +"
    prerm = f"#!/bin/sh\nset -e\n[ ! -d /{TOOLS} ] || {{ {clean} 2>/dev/null || true; }}\n"
    return finish(
        Package(
            "strata-tools",
            "devel",
            "command line of the Strata malloc",
            "`strata run` starts a program on Strata; `strata report`, `top`, `flame`, `doctor`,\n"
            " `trace` and others explain the memory of a process.",
            (f"libstrata0 (= {REVISION})", "python3 (>= 3.11)", "python3 (<< 3.12)"),
            {"Suggests": "qemu-user"},
            {"prerm": prerm},
        ),
        tree,
        out,
    )


def make(stage: Stage, work: Path, out: Path) -> list[Path]:
    return [
        make_one(stage, work / "deb", out) for make_one in (libraries, debug, development, tools)
    ]
