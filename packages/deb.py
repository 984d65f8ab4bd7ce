"""The Debian packages: libstrata0, libstrata0-dbgsym, libstrata-dev, strata-tools and
libstrata0-musl, for each architecture, and strata-lint for this machine's.

Made by dpkg-deb from the stage. strata-tools carries the Python packages it needs (carried.py).
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import carried
import manual
from stage import ROOT, VERSION, Stage, newest_glibc, run

REVISION = f"{VERSION}-1"
MAINTAINER = "The Strata authors <strata@localhost>"
TOOLS = "usr/lib/strata-tools"
WRAPPER = f"""#!/usr/bin/python3
import sys

sys.path.insert(0, "/{TOOLS}")

from strata.MODULE import NAME

sys.exit(NAME())
"""
DROP_IN = """# For a unit: systemctl edit UNIT, or a file in /etc/systemd/system/UNIT.d/. What
# Strata writes goes to the journal with the unit's own output.
[Service]
Environment=LD_PRELOAD=/usr/lib/{triplet}/libstrata.so.0
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


def wrapper(module: str, name: str) -> str:
    return WRAPPER.replace("MODULE", module).replace("NAME", name)


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


def put_pages(doc: Path) -> None:
    """README and docs/, which link to each other, with what a monitor imports; links to the sources
    lead nowhere."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*"))):
        if page.suffix in (".md", ".png", ".json", ".yml"):
            put(doc / page.relative_to(ROOT), "")
            shutil.copyfile(page, doc / page.relative_to(ROOT))


def put_errors(doc: Path) -> None:
    """The page that the library's messages name, for those who have no strata-tools."""
    put(doc / "docs/errors.md", (ROOT / "docs/errors.md").read_text())


def finish(package: Package, stage: Stage, tree: Path, out: Path) -> Path:
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
        "Architecture": stage.target.debian,
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
    file = out / f"{package.name}_{REVISION}_{stage.target.debian}.deb"
    # xz needs minutes for what strata-tools carries, and saves a few megabytes.
    press = ("-Zzstd", "-z9") if package.name == "strata-tools" else ("-Zxz",)
    run("dpkg-deb", "--root-owner-group", *press, "--build", tree, file)
    return file


def libraries(stage: Stage, work: Path, out: Path) -> Path:
    tree = work / "libstrata0"
    take(stage.root, tree, f"usr/lib/{stage.target.triplet}/libstrata*.so.0*")
    put_errors(tree / "usr/share/doc/libstrata0")
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
        stage,
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
        stage,
        tree,
        out,
    )


def development(stage: Stage, work: Path, out: Path) -> Path:
    tree = work / "libstrata-dev"
    library = f"usr/lib/{stage.target.triplet}"
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
        stage,
        tree,
        out,
    )


def tools(stage: Stage, work: Path, out: Path) -> Path:
    tree = work / "strata-tools"
    library = f"usr/lib/{stage.target.triplet}"
    take(stage.root, tree, "usr/libexec")
    for path in sorted((stage.root / library).glob("libstrata*.so")):
        if not path.is_symlink():
            take(stage.root, tree, f"{library}/{path.name}")
    modules = tree / TOOLS
    shutil.copytree(
        ROOT / "python/strata", modules / "strata", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy2(ROOT / "docs/errors.md", modules / "strata")
    carried.put_into(modules, stage.target, work)
    put(tree / "usr/bin/strata", wrapper("cli", "main"), 0o755)
    put_gzipped(tree / "usr/share/man/man1/strata.1.gz", manual.page(VERSION).encode())
    for place, shell in manual.COMPLETIONS.items():
        put(tree / place, manual.completion(shell))
    put(
        tree / "usr/share/doc/strata-tools/examples/strata-preload.conf",
        DROP_IN.format(triplet=stage.target.triplet),
    )
    put_pages(tree / "usr/share/doc/strata-tools")
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
        stage,
        tree,
        out,
    )


def lint(stage: Stage, work: Path, out: Path) -> Path:
    tree = work / "strata-lint"
    take(stage.lint, tree, "usr")
    for name, function, language in (("strata-cc", "cc", "C"), ("strata-c++", "cxx", "C++")):
        put(tree / "usr/bin" / name, wrapper("lint.wrapper", function), 0o755)
        page = manual.compiler_page(name, language, VERSION)
        put_gzipped(tree / f"usr/share/man/man1/{name}.1.gz", page.encode())
    glibc = newest_glibc(stage, stage.lint)
    return finish(
        Package(
            "strata-lint",
            "devel",
            "finds misuse of memory, files, locks and formats before a program runs",
            "`strata lint` says what is wrong in a whole C or C++ program that was built with\n"
            " `strata-cc` or `strata-c++`, and on which path.",
            (
                f"strata-tools (= {REVISION})",
                f"libc6 (>= {glibc})",
                *("libstdc++6", "libllvm19", "clang-19", "binutils"),
            ),
        ),
        stage,
        tree,
        out,
    )


def for_musl(stage: Stage, work: Path, out: Path) -> Path:
    """What preloads and what links, in one: it is nobody's dependency."""
    tree = work / "libstrata0-musl"
    take(stage.root, tree, f"usr/lib/{stage.target.triplet}")
    (tree / f"usr/lib/{stage.target.triplet}/libstrata-trace.so").unlink()  # the wheel's
    put_errors(tree / "usr/share/doc/libstrata0-musl")
    return finish(
        Package(
            "libstrata0-musl",
            "libs",
            "malloc that keeps hugepages and gives memory back (for musl)",
            "libstrata-musl.so.0, which `strata run` takes for a program that is linked with\n"
            " musl, and libstrata-musl.a for those that are linked statically. The headers are\n"
            " those of libstrata-dev.",
            more={"Multi-Arch": "same", "Suggests": "musl, libstrata-dev"},
        ),
        stage,
        tree,
        out,
    )


def make(stage: Stage, work: Path, out: Path) -> list[Path]:
    one_by_one = {"glibc": (libraries, debug, development, tools), "musl": (for_musl,)}
    folder = work / f"deb-{stage.target.triplet}"
    made = [make_one(stage, folder, out) for make_one in one_by_one[stage.target.libc]]
    return [*made, lint(stage, folder, out)] if (stage.lint / "usr/bin").exists() else made
