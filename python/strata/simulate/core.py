"""Runs strata-simulate, the simulation itself, which is C++ over src/lifetime/bin_packer.h."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from strata.errors import StrataError
from strata.simulate.items import Items
from strata.simulate.ladder import Classes, Ladder
from strata.trace.command import find_tool

PROGRAM = "strata-simulate"
MAGIC = b"STRASIM1"
END = np.uint64(1 << 63)


class Domain(StrEnum):
    HEAP = "heap"
    FLASH = "flash"
    JOBS = "jobs"


BIN = {Domain.HEAP: 2 << 20, Domain.FLASH: 256, Domain.JOBS: 64}  # bytes, pages, cores


@dataclass(frozen=True)
class Outcome:
    """What one policy held: bins in the items' unit of size, averages over time."""

    policy: str
    held: float
    live: float
    bound: float  # the least bins that what was live fits into, on average
    held_peak: int
    live_peak: int
    reclaimed: int
    promoted: int
    demoted: int
    parts: tuple[tuple[int, float, float], ...]  # end (ns), held, live
    writes: tuple[tuple[int, int], ...]  # of flash, up to the end of each part: written, moved

    @property
    def ratio(self) -> float:
        return self.held / self.live if self.live > 0 else float("nan")

    @property
    def peak_ratio(self) -> float:
        return self.held_peak / self.live_peak if self.live_peak > 0 else float("nan")

    @property
    def over_bound(self) -> float:
        return self.held / self.bound if self.bound > 0 else float("nan")

    @property
    def write_amplification(self) -> float:
        """In the second half of the run; the first fills the device."""
        (first, first_moved), (last, last_moved) = (
            self.writes[len(self.writes) // 2 - 1],
            self.writes[-1],
        )
        files = last - first
        return (files + last_moved - first_moved) / files if files > 0 else float("nan")


def write_events(items: Items, path: Path) -> None:
    """In the order of time; at one time, ends come first, but for items that last no time."""
    frame = items.frame
    count = frame.height
    begin = int(frame["start"].min())  # type: ignore[arg-type]
    ended = np.flatnonzero(frame["end"].is_not_null().to_numpy())
    first = frame["first"].to_numpy()
    last = frame["last"].drop_nulls().to_numpy()
    key = np.concatenate([first, last])
    late = np.where(last > first[ended], 0, 2)
    order = np.lexsort((np.concatenate([np.ones(count, np.int64), late]), key))
    events = np.empty((key.size, 2), np.uint64)
    times = np.concatenate([frame["start"].to_numpy(), frame["end"].drop_nulls().to_numpy()])
    events[:, 0] = (times - begin).astype(np.uint64)
    events[:count, 1] = np.arange(count)
    events[count:, 1] = ended.astype(np.uint64) | END
    events = events[order]
    events[:, 0] = np.maximum.accumulate(events[:, 0])  # clocks of several processors differ
    with path.open("wb") as file:
        file.write(MAGIC + np.array([count, key.size], "<u8").tobytes())
        file.write(frame["size"].to_numpy().astype("<u8").tobytes())
        file.write(events.astype("<u8").tobytes())


@dataclass(frozen=True)
class Setting:
    """What all policies have in common."""

    domain: Domain
    deadline: int
    blocks: int  # of flash
    parts: int  # of the run


def simulate(
    name: str, policy: str, events: Path, classes: Classes, ladder: Ladder, setting: Setting
) -> Outcome:
    beside = events.with_suffix(".classes")
    beside.write_bytes(classes.tobytes())
    options: dict[str, Any] = {
        "domain": setting.domain.value,
        "policy": policy,
        "base": ladder.base,
        "ratio": ladder.ratio,
        "classes": ladder.count,
        "deadline": setting.deadline,
        "parts": setting.parts,
    }
    if setting.domain is Domain.FLASH:
        options["blocks"] = setting.blocks
    words = [word for option, value in options.items() for word in (f"--{option}", str(value))]
    done = subprocess.run(
        [str(find_tool(PROGRAM)), *words, str(events), str(beside)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        why = said[-1].removeprefix(f"{PROGRAM}: ") if said else f"exit status {done.returncode}"
        raise StrataError(f"{name}: {why}")
    answer: dict[str, Any] = json.loads(done.stdout)
    unit = BIN[setting.domain]
    return Outcome(
        policy=name,
        held=answer["held"] * unit,
        live=answer["live"],
        bound=answer["bound"] * unit,
        held_peak=answer["held_peak"] * unit,
        live_peak=answer["live_peak"],
        reclaimed=answer["reclaimed"],
        promoted=answer["promoted"],
        demoted=answer["demoted"],
        parts=tuple((end, held * unit, live) for end, held, live in answer["parts"]),
        writes=tuple((files, moved) for files, moved in answer.get("writes", ())),
    )
