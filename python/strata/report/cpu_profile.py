"""Where a process spends its CPU time, by the kernel's clock: a profile taken with Linux perf.

perf interrupts each running thread some hundred times a second of its CPU time, in user mode only,
and notes the instruction. Those in the library are kept one by one, to be named later; those
elsewhere are summed up by file. The values are samples and nanoseconds.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from strata.errors import StrataError
from strata.pprof import Label, Line, Location, Mapping, Profile, Sample, ValueType
from strata.processes import Process

HERTZ = 499  # no divisor of anybody's timer
LIBRARY = "libstrata.so"  # how the name of its file begins
NOWHERE = "code of no file"


def record(process: Process, seconds: float) -> Profile:
    """Watches for so long. StrataError if perf is not there, or may not."""
    perf = shutil.which("perf")
    if perf is None:
        raise StrataError("perf is not installed")
    with tempfile.TemporaryDirectory(prefix="strata-cpu-") as folder:
        data = Path(folder) / "perf.data"
        options = ["-e", "cpu-clock:u", "-F", str(HERTZ), "-p", str(process.pid), "-B", "-N"]
        _run([perf, "record", *options, "-o", data, "--", "sleep", f"{seconds:.3f}"], seconds)
        mappings = code_of(process.read("maps"))
        text = _run([perf, "script", "-i", data, "-F", "ip"], 0)
    if not mappings:
        raise StrataError("the process is gone")
    addresses = (int(word, 16) for word in text.split() if _is_hex(word))
    return make(addresses, mappings, seconds)


def _is_hex(word: str) -> bool:
    return len(word) <= 16 and all(digit in "0123456789abcdef" for digit in word)


def _run(command: list[str | Path], seconds: float) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds + 120,
            check=False,
            env={**os.environ, "LC_ALL": "C", "PERF_CONFIG": "/dev/null"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StrataError(f"perf failed: {error}") from error
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise StrataError(f"perf failed: {lines[0] if lines else done.returncode}")
    return done.stdout


def code_of(maps: str) -> list[Mapping]:
    """The mappings that may be executed, of the text of /proc/PID/maps, by address."""
    found = []
    for line in maps.split("\n"):
        fields = line.split(maxsplit=5)
        if len(fields) < 5 or "x" not in fields[1]:
            continue
        begin, _, end = fields[0].partition("-")
        name = fields[5] if len(fields) > 5 else ""
        found.append(Mapping(int(begin, 16), int(end, 16), int(fields[2], 16), name))
    return sorted(found, key=lambda mapping: mapping.start)


def make(addresses: Iterable[int], mappings: list[Mapping], seconds: float) -> Profile:
    """The profile of the instructions that were found running."""
    starts = [mapping.start for mapping in mappings]
    inside: Counter[tuple[int, Mapping]] = Counter()
    outside: Counter[str] = Counter()
    for address in addresses:
        at = bisect_right(starts, address) - 1
        mapping = mappings[at] if at >= 0 and address < mappings[at].limit else None
        name = Path(mapping.file.removesuffix(" (deleted)")).name if mapping else ""
        if mapping is not None and name.startswith(LIBRARY):
            inside[address, mapping] += 1
        else:
            outside[name or NOWHERE] += 1
    tick = round(1e9 / HERTZ)
    library = (Label("file", LIBRARY),)
    samples = [
        Sample((Location(address, mapping),), (count, count * tick), library)
        for (address, mapping), count in sorted(inside.items(), key=lambda item: item[0][0])
    ]
    samples += [
        Sample((Location(at, None, (Line(name),)),), (count, count * tick), (Label("file", name),))
        for at, (name, count) in enumerate(sorted(outside.items()), 1)
    ]
    return Profile(
        [ValueType("samples", "count"), ValueType("cpu", "nanoseconds")],
        samples,
        list(dict.fromkeys(mapping for _, mapping in inside)),
        default_type="cpu",
        duration_ns=math.ceil(seconds * 1e9),
        period_type=ValueType("cpu", "nanoseconds"),
        period=tick,
    )
