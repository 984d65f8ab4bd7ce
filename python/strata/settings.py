"""Asks the library itself whether settings make sense to it: it warns of what it does not know, and
runs on. Before hours of measuring, or on a command line, that is a mistake."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

from strata.errors import StrataError

UNKNOWN = re.compile(r"^strata: (unknown option STRATA_\S*) ignored", re.MULTILINE)
SENSELESS = re.compile(
    r"^strata: (STRATA_.* makes no sense[^;\n]*(?:; it takes [^;\n]*)?)", re.MULTILINE
)
# The options are read before the first command of a shell, and one that is killed writes neither
# statistics nor profiles at its end, which the settings may ask for.
PROBE = ("/bin/sh", "-c", "kill -KILL $$")
PATIENCE_SECONDS = 10


def complaints(environment: Mapping[str, str]) -> list[str]:
    """What the preloaded library finds wrong with this environment, a line each."""
    try:
        probe = subprocess.run(
            PROBE,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []  # the command itself will tell
    said = probe.stderr.decode(errors="replace")
    return [*UNKNOWN.findall(said), *SENSELESS.findall(said)]


def check(environment: Mapping[str, str], named_by: str) -> None:
    """One clear error for all that the library would ignore. `named_by` is where it was asked."""
    found = complaints(environment)
    if found:
        raise StrataError(f"{named_by}: {', and '.join(found)}")
