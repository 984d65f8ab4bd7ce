"""The Rust crate `strata-malloc`, with the C++ sources for its build script in `vendor`."""

from __future__ import annotations

import shutil
from pathlib import Path

from stage import ROOT, VERSION, run

NOT_VENDORED = shutil.ignore_patterns("trace", "libraries", "watched_calls.cpp")


def make(work: Path, out: Path) -> Path:
    source = work / "crate"
    shutil.copytree(ROOT / "rust", source, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    shutil.copy2(ROOT / "LICENSE", source)
    (source / "docs").mkdir()
    shutil.copy2(ROOT / "docs/errors.md", source / "docs")
    shutil.copytree(ROOT / "src", source / "vendor/src", ignore=NOT_VENDORED)
    shutil.copytree(ROOT / "include", source / "vendor/include")
    shutil.copytree(ROOT / "cmake/musl", source / "vendor/cmake/musl")
    run(
        *("cargo", "package", "-q", "--offline", "--no-verify", "--allow-dirty"),
        *("--target-dir", work / "cargo"),
        cwd=source,
    )
    made = work / "cargo/package" / f"strata-malloc-{VERSION}.crate"
    target = out / made.name
    shutil.copy2(made, target)
    return target
