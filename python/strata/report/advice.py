"""What to do about the figures: the form of an answer, and what the rules share.

A rule is a pure function, from the data to a sentence. It says what the figure shows and then, if a
bound is passed, the one thing to do, with the exact command where there is one. The bounds are
judgement, not law; they come from the study's own figures, named at each (Z. Zhou et al.,
"Characterizing a memory allocator at warehouse scale", ASPLOS 2024). The rules lie in the files
advice_*.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

MUCH = 1 << 20  # bytes: less than this is not worth anybody's time
ENOUGH_SAMPLES = 30


class Level(StrEnum):
    FINE = "nothing to do"
    LOOK = "worth a look"
    ACT = "do this"


@dataclass(frozen=True)
class Advice:
    """What a figure shows, what to do about it, and the command if there is one."""

    level: Level
    text: str
    command: str = ""
    brings: int = 0  # bytes, at most; 0: not to be counted in bytes
    cause: str = ""  # what several figures may show


PINNED = "pinned"  # live objects keep free memory around them from going back


def fine(text: str) -> Advice:
    return Advice(Level.FINE, text.strip())


def look(text: str, command: str = "", brings: int = 0, cause: str = "") -> Advice:
    return Advice(Level.LOOK, text, command, brings, cause)


def act(text: str, command: str = "", brings: int = 0) -> Advice:
    return Advice(Level.ACT, text, command, brings)


def after(text: str, advice: Advice) -> Advice:
    """The same advice, with words before it."""
    return replace(advice, text=text + advice.text)


def share(part: float, whole: float) -> str:
    """A percentage with as many digits as it deserves."""
    ratio = 100 * part / whole if whole else 0.0
    if 0 < ratio < 0.1:
        return "less than 0.1 %"
    return f"{ratio:.1f} %" if ratio < 10 else f"{ratio:.0f} %"


def of_live(part: int, live: int) -> str:
    if part >= 10 * live > 0:
        return f"{part / live:,.0f} times what is live"
    return f"{share(part, live)} of what is live"


def started_with(*settings: str) -> str:
    """The command for what takes a new start."""
    return " ".join(["strata run", *(f"--set {one}" for one in settings), "-- COMMAND"])


def setting(pid: str, name: str, value: str) -> str:
    return f"strata set {pid} {name}={value}"
