"""Memory that a program takes and hardly touches does not become resident by hugepages."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from blackbox import Lab

SOURCE = Path(__file__).resolve().parent / "thin_pools.c"
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")

LINUX = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])

pytestmark = pytest.mark.skipif(
    LINUX < (6, 1) or not THP.exists() or "[madvise]" not in THP.read_text(),
    reason="hugepages are not given where they are asked for, or everywhere, or never rebuilt",
)


def resident_kib(lab: Lab, env: dict[str, str]) -> int:
    return int(lab.run(lab.build(SOURCE), "touch", env=env).ok().stdout)


def test_barely_touched_pools_stay_small(lab: Lab) -> None:
    lab.require_strata()
    with_hugepages, without = resident_kib(lab, {}), resident_kib(lab, {"STRATA_HUGEPAGES": "off"})
    print(f"{with_hugepages} KiB; {without} KiB without hugepages")
    assert with_hugepages <= 1.3 * without


def test_pools_filled_later_get_their_hugepages(lab: Lab) -> None:
    lab.require_strata()
    lab.run(lab.build(SOURCE), "fill", "60").ok()
