"""One measurement: a process of `crestdb bench`, and what its line says."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata.errors import StrataError

SLACK_SECONDS = 300.0


@dataclass(frozen=True)
class Result:
    """Of one run; names as in the line that crestdb prints."""

    operations_per_second: float
    p50_us: float
    p90_us: float
    p99_us: float
    resident_mib: float
    page_utilization: float
    hot_mib: float
    cold_mib: float
    moves: int
    collector_seconds: float
    promotion_rate: float
    missing: int


def parse(line: str) -> Result:
    try:
        found: dict[str, Any] = json.loads(line)
        return Result(**{name: found[name] for name in Result.__dataclass_fields__})
    except (ValueError, KeyError) as error:
        raise StrataError(f"crestdb printed something else than a result: {line[:100]}") from error


def run(
    program: Path,
    *,
    tidy: bool,
    structure: str = "harris-table",
    mix: str = "C",
    keys: int = 1_000_000,
    value: int = 1024,
    seconds: float = 5,
    more: tuple[str, ...] = (),
    prefix: tuple[str, ...] = (),
) -> Result:
    """`more`: further options of crestdb; `prefix`: words before the command, such as a limit."""
    words = [
        *prefix,
        *(str(program), "bench", "--json", "--structure", structure, "--ycsb", mix),
        *("--keys", str(keys), "--value", str(value), "--seconds", str(seconds)),
        *("--tidy", "on" if tidy else "off", *more),
    ]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=seconds + SLACK_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise StrataError(f"{' '.join(words)} took too long") from error
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise StrataError(f"{program.name}: {said[0]}")
    return parse(done.stdout)
