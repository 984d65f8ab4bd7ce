"""What the report advises where growth has a price (docs/price.md), followed and measured."""

from __future__ import annotations

import os
import time
from pathlib import Path

from advising import ALWAYS, Report, figures, follow, follows
from blackbox import ROOT, Lab, wait_until
from memory_cgroup import JOIN, made
from test_report import rss

BOX = 800  # MiB: the last tenth has a price


@follows("or let it take more than the others")
def test_who_waits_takes_more_by_its_weight(lab: Lab, tmp_path: Path) -> None:
    """Of two that grow alike, the one with twice the weight takes twice as much as before."""
    grow = lab.build(ROOT / "bench/programs/grow.cpp", "-O2")
    env = ALWAYS | {"STRATA_PRICE": "on"}
    with made(f"strata-advice-{os.getpid()}") as group:
        group.limit(BOX)
        command = ("/bin/sh", "-c", JOIN, str(group.path), grow, "--mode=hog")
        with lab.start(*command, env=env) as a, lab.start(*command, env=env) as b:
            pids = (a.pid, b.pid)
            assert wait_until(lambda: group.usage_mib() > 0.9 * BOX)
            assert wait_until(lambda: all(map(waiting, pids)))
            said = Report(a.pid, tmp_path / "a")["price"]
            assert said.command == f"strata set {a.pid} weight=200", said
            before = growth(pids)
            follow(said)
            after = growth(pids)
    ratio = after[0] * before[1] / max(1, after[1] * before[0])
    assert 1.4 < ratio < 3.5, (before, after)


def growth(pids: tuple[int, int]) -> list[int]:
    """In two seconds."""
    before = [rss(pid) for pid in pids]
    time.sleep(2)
    return [rss(pid) - had for pid, had in zip(pids, before, strict=True)]


def waiting(pid: int) -> bool:
    return figures(pid).number("price", "waiting_threads") == 1
