"""Runs strata-lint-engine on one program."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from strata.errors import StrataError
from strata.lint.finding import Finding, from_engine
from strata.lint.units import Program

ENGINE = "strata-lint-engine"
SHIPPED = ("taint", "heap", "file", "lock")
# What programs side by side may take together; what one takes: so much, and for each byte of its
# bitcode (Dovecot's biggest: 20).
MOST_BYTES = 6 << 30
LEAST_BYTES = 200 << 20
BYTES_EACH = 25
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Outcome:
    findings: list[Finding]
    lines: int
    functions: int
    given_up: int
    coarse: bool  # there were too many pointers to tell where each leads
    seconds: float
    peak_mib: float


def root() -> Path:
    return Path(__file__).resolve().parents[3]


def find_engine() -> Path:
    """The one that is set, that of this tree, or one that is installed."""
    wanted = os.environ.get("STRATA_LINT_ENGINE")
    places = [Path(wanted)] if wanted else [root() / "build" / "bin" / ENGINE]
    if not wanted and (installed := shutil.which(ENGINE)):
        places.append(Path(installed))
    for place in places:
        if os.access(place, os.X_OK):
            return place
    where = f"{places[0]} is not there" if wanted else f"{ENGINE} is missing"
    raise StrataError(
        f"{where}; Debian's package strata-lint has it, `make analyzer` builds it in a checkout"
    )


def properties(engine: Path) -> Path:
    """The folder with the properties that ship."""
    for folder in (
        root() / "lint" / "properties",
        engine.resolve().parent.parent / "share" / "strata" / "lint",
    ):
        if (folder / "taint.prop").exists():
            return folder
    raise StrataError("the property files that ship with strata lint are missing")


def analyse(
    program: Program, property_files: Sequence[Path], engine: Path, progress: Progress
) -> Outcome:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        names, shared = Path(folder, "all"), Path(folder, "shared")
        names.write_bytes(b"".join(os.fsencode(b) + b"\0" for b in program.bitcode))
        shared.write_bytes(b"".join(os.fsencode(b) + b"\0" for b in program.shared))
        words = [str(engine), "--progress", "--list", str(names), "--shared", str(shared)]
        for file in property_files:
            words += ["--property", str(file)]
        process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",  # of a source's name, or of a property file
        )
        complaints: list[str] = []
        reader = threading.Thread(target=follow, args=(process, progress, complaints))
        reader.start()
        try:
            assert process.stdout is not None
            text = process.stdout.read()
        except BaseException:
            process.kill()
            raise
        finally:
            reader.join()
            process.wait()
    if process.returncode != 0:
        last = complaints[-1] if complaints else f"{program.name}: ended by {process.returncode}"
        raise StrataError(last.removeprefix(f"{ENGINE}: "))
    found = json.loads(text)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return Outcome(
        from_engine(program.name, found),
        found["lines"],
        found["functions"],
        found["given_up"],
        found["coarse"],
        time.monotonic() - started,
        peak,
    )


def follow(process: subprocess.Popen[str], progress: Progress, complaints: list[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        words = line.split()
        if len(words) == 4 and words[0] == "progress":
            progress(words[1], int(words[2]), int(words[3]))
        elif line.strip():
            complaints.append(line.strip())
