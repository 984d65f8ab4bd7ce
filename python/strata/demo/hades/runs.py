"""One measurement: a process of `crestdb bench`, and what its line says."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

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


def _words(
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
) -> list[str]:
    """`more`: further options of crestdb; `prefix`: words before the command, such as a limit."""
    return [
        *prefix,
        *(str(program), "bench", "--json", "--structure", structure, "--ycsb", mix),
        *("--keys", str(keys), "--value", str(value), "--seconds", str(seconds)),
        *("--tidy", "on" if tidy else "off", *more),
    ]


def run(program: Path, *, tidy: bool, seconds: float = 5, **how: object) -> Result:
    """A process for one measurement; how: as `_words` has it."""
    words = _words(program, tidy=tidy, seconds=seconds, **how)  # type: ignore[arg-type]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=seconds + SLACK_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise StrataError(f"{' '.join(words)} took too long") from error
    if done.returncode:
        raise _failed(program, done.stderr, done.returncode)
    return parse(done.stdout)


def _failed(program: Path, stderr: str, status: int) -> StrataError:
    said = stderr.strip().splitlines()[-1:] or [f"status {status}"]
    return StrataError(f"{program.name}: {said[0]}")


class Standing:
    """A store that has run up and is measured again and again; it stands still between."""

    def __init__(self, program: Path, *, tidy: bool, **how: object) -> None:
        words = _words(program, tidy=tidy, **how)  # type: ignore[arg-type]
        self._program = program
        self._stderr = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [*words, "--repeat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def measure(self) -> Result:
        """The first time this waits until the store has run up."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.send_signal(signal.SIGCONT)
        with contextlib.suppress(OSError):
            process.stdin.write("\n")
            process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self._stderr.seek(0)
            raise _failed(self._program, self._stderr.read(), process.wait())
        process.send_signal(signal.SIGSTOP)
        return parse(line)
