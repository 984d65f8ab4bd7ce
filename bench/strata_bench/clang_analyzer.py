"""What clang 19's analyzer finds of a program's seeded errors: across units, with its checkers of
memory, streams and locks, and its taint with the sinks of ours."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CONFIG = Path(__file__).resolve().parent.parent / "lint" / "clang_taint.yaml"
CHECKERS = "core,unix,cplusplus,security,alpha.unix.PthreadLock,alpha.security.taint"
# What a warning is about.
PROPERTIES = {
    "taint": "alpha.security.taint",
    "heap": "unix.Malloc|unix.MismatchedDeallocator|core|cplusplus",
    "file": "unix.Stream|unix.StdCLibraryFunctions|alpha.unix.Stream",
    "lock": "alpha.unix.PthreadLock",
}
WARNING = re.compile(r"^(\S+?):(\d+):\d+: warning: (.*) \[([a-z][\w.,]+)\]$", re.M)


@dataclass(frozen=True)
class Warned:
    file: str
    line: int
    property: str  # "" where none of ours fits


def tools_are_here() -> bool:
    return all(shutil.which(name) for name in ("clang-19", "clang-extdef-mapping-19"))


def call(folder: Path, *words: str) -> str:
    done = subprocess.run(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout


def property_of(text: str, checker: str) -> str:
    if "leak" in text and checker.startswith("unix.Malloc"):
        return ""
    return next((p for p, pattern in PROPERTIES.items() if re.match(pattern, checker)), "")


def run(folder: Path, sources: Sequence[str], flags: Sequence[str]) -> tuple[set[Warned], float]:
    """What it says of the sources, each with what it calls in the others, and the seconds."""
    started = time.monotonic()
    ctu = folder / "ctu"
    ctu.mkdir(exist_ok=True)
    names = ""
    for source in sources:
        call(folder, "clang-19", *flags, "-emit-ast", "-o", f"ctu/{source}.ast", source)
        for line in call(folder, "clang-extdef-mapping-19", source, "--", *flags).splitlines():
            name, _, path = line.rpartition(" ")
            if path.endswith(source):
                names += f"{name} {source}.ast\n"
    (ctu / "externalDefMap.txt").write_text(names)
    options = {
        "alpha.security.taint.TaintPropagation:Config": CONFIG,
        "experimental-enable-naive-ctu-analysis": "true",
        "ctu-dir": ctu,
    }
    words = ["--analyze", "--analyzer-output", "text"]
    words += ["-Xclang", f"-analyzer-checker={CHECKERS}"]
    for name, value in options.items():
        words += ["-Xclang", "-analyzer-config", "-Xclang", f"{name}={value}"]
    warned = set()
    for source in sources:
        for file, line, text, checker in WARNING.findall(
            call(folder, "clang-19", *flags, *words, source)
        ):
            warned.add(Warned(Path(file).name, int(line), property_of(text, checker)))
    return warned, time.monotonic() - started
