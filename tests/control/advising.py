"""What the tests that follow an advice share: programs that waste something, the report on them,
the commands that an advice names, typed, and which advice a test follows."""

from __future__ import annotations

import contextlib
import functools
import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ParamSpec

import pytest
from blackbox import Lab
from command import good
from strata.control import ask
from strata.errors import StrataError
from strata.pprof import Profile
from strata.processes import Process, find_process
from strata.report import (
    charts,
    contexts,
    cpu_profile,
    cpu_time,
    document,
    hotness,
    model,
    prediction_sections,
    price,
    tiers,
)
from strata.report.advice import Advice
from strata.report.collect import Collector
from strata.report.page import Section
from test_reach import wait_for_socket

CASES = Path(__file__).resolve().parent / "advice_cases.c"
FINE = {"STRATA_SAMPLE": "64K"}
ALWAYS = {"STRATA_CONTROL": "always"}
HELD = {"STRATA_RELEASE": "off"}  # nothing goes back by itself before the advice is followed

P = ParamSpec("P")
_SAID: list[str] = []  # by the advices that a test read


def follows(*phrases: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Which advices a test follows, each by words of its own: it fails if one was not given.
    test_followed.py wants such a test for every advice."""

    def decorate(test: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(test)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            _SAID.clear()
            test(*args, **kwargs)
            for phrase in phrases:
                assert any(phrase in said for said in _SAID), f"not advised: {phrase}"

        return run

    return decorate


def note(*words: str) -> None:
    """An advice was read."""
    _SAID.append("\n".join(words))


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


def _accuracy(recording: model.Recording) -> Section | None:
    return prediction_sections.sections(recording)[0]


def _wrong_sites(recording: model.Recording) -> Section | None:
    return prediction_sections.sections(recording)[2]


SECTIONS: dict[str, Callable[[model.Recording], Section | None]] = {
    "churn-stacks": contexts.churn_section,
    "coverage": tiers.coverage_section,
    "cpu-time": cpu_time.section,
    "fragmentation": tiers.fragmentation_section,
    "hotness": hotness.section,
    "lifetimes": contexts.lifetime_section,
    "live-stacks": contexts.live_section,
    "map": tiers.map_section,
    "misses": tiers.misses_section,
    "peak-stacks": contexts.peak_section,
    "predictions": _accuracy,
    "price": price.section,
    "resident": tiers.resident_section,
    "return-capacity": lambda recording: tiers.span_sections(recording)[-1],
    "return-live": lambda recording: tiers.span_sections(recording)[0],
    "sizes": tiers.sizes_section,
    "waste-stacks": contexts.waste_section,
    "wrong-sites": _wrong_sites,
}


def _no_cpu_time(_: Process, __: float) -> Profile:
    raise StrataError("not asked for")


def advice_of(name: str, recording: model.Recording) -> Advice | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charts, "chart", lambda *_: "")
        section = SECTIONS[name](recording)
    if section is None or section.advice is None:
        return None
    note(section.advice.text, section.advice.command)
    return section.advice


class Report:
    """What a report says of a process, by the figure's name. Nothing is drawn, and CPU time is
    watched only if it is asked for: these take most of a report's time."""

    def __init__(self, pid: int, folder: Path, seconds: float = 1, *, cpu: bool = False) -> None:
        process = find_process(str(pid))
        Collector(
            process,
            functools.partial(ask, process),
            folder,
            record_cpu=cpu_profile.record if cpu else _no_cpu_time,
        ).run(seconds)
        self.recording = model.load(folder)

    @property
    def rss(self) -> int:
        """When it was taken: what a program at rest holds falls by the second."""
        assert self.recording.last is not None
        return self.recording.last.rss or 0

    def get(self, name: str) -> Advice | None:
        return advice_of(name, self.recording)

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


def figures(pid: int) -> document.Document:
    return document.Document(json.loads(good("stats", pid, "--format", "json")))


def miss_rate(pid: int, seconds: float = 1) -> float:
    """Of the allocations of that time, those that found their cache empty."""
    before = figures(pid)
    time.sleep(seconds)
    after = figures(pid)

    def gained(name: str) -> float:
        return (after.number("cache", name) or 0) - (before.number("cache", name) or 0)

    return gained("misses_alloc") / max(1.0, gained("misses_alloc") + gained("hits"))
