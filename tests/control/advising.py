"""What test_advice*.py share: programs that waste something, the report on them, and the commands
that an advice names, typed."""

from __future__ import annotations

import contextlib
import json
import shlex
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from blackbox import Lab
from command import good
from strata.processes import find_process
from strata.report import contexts, hotness, model, tiers
from strata.report.advice import Advice
from strata.report.command import gather
from test_reach import wait_for_socket

CASES = Path(__file__).resolve().parent / "advice_cases.c"
FINE = {"STRATA_SAMPLE": "64K"}
ALWAYS = {"STRATA_CONTROL": "always"}
HELD = {"STRATA_RELEASE": "off"}  # nothing goes back by itself before the advice is followed


@contextlib.contextmanager
def running(
    lab: Lab, *command: str | Path | int, env: Mapping[str, str] | None = None
) -> Iterator[int]:
    """A case of advice_cases.c, or a command by its path, that has said it is ready."""
    lab.require_strata()
    program = () if Path(str(command[0])).is_absolute() else (lab.build(CASES),)
    with lab.start(*program, *map(str, command), env=ALWAYS | dict(env or {})) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_for_socket(process.pid)
        yield process.pid


SECTIONS = {
    "churn-stacks": contexts.churn_section,
    "coverage": tiers.coverage_section,
    "fragmentation": tiers.fragmentation_section,
    "hotness": hotness.section,
    "lifetimes": contexts.lifetime_section,
    "live-stacks": contexts.live_section,
    "map": tiers.map_section,
    "misses": tiers.misses_section,
    "peak-stacks": contexts.peak_section,
    "resident": tiers.resident_section,
    "return-capacity": lambda recording: tiers.span_sections(recording)[-1],
    "sizes": tiers.sizes_section,
    "waste-stacks": contexts.waste_section,
}


class Report:
    """What a report says of a process, by the figure's name. Only the figures that are asked for
    are drawn: all of them take most of a report's time."""

    def __init__(self, pid: int, folder: Path, seconds: int = 1) -> None:
        gather(find_process(str(pid)), folder, seconds)
        self._recording = model.load(folder)

    @property
    def rss(self) -> int:
        """When it was taken: what a program at rest holds falls by the second."""
        assert self._recording.last is not None
        return self._recording.last.rss or 0

    def get(self, name: str) -> Advice | None:
        section = SECTIONS[name](self._recording)
        return section.advice if section is not None else None

    def __getitem__(self, name: str) -> Advice:
        advice = self.get(name)
        assert advice is not None, name
        return advice


def follow(advice: Advice) -> None:
    """Types the command of an advice."""
    words = shlex.split(advice.command)
    assert words[0] == "strata", advice
    good(*words[1:])


def settings_of(advice: Advice) -> dict[str, str]:
    """What `strata run` sets for the command of an advice."""
    words = shlex.split(advice.command)
    assert words[:2] == ["strata", "run"] and words[-2:] == ["--", "COMMAND"], advice
    given = [words[at + 1].partition("=") for at, word in enumerate(words) if word == "--set"]
    return {f"STRATA_{name}": value for name, _, value in given}


def figures(pid: int) -> model.Document:
    return model.Document(json.loads(good("stats", pid, "--format", "json")))


def miss_rate(pid: int, seconds: float = 1) -> float:
    """Of the allocations of that time, those that found their cache empty."""
    before = figures(pid)
    time.sleep(seconds)
    after = figures(pid)

    def gained(name: str) -> float:
        return (after.number("cache", name) or 0) - (before.number("cache", name) or 0)

    return gained("misses_alloc") / max(1.0, gained("misses_alloc") + gained("hits"))
