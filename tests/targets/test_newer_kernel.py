"""Strata on a newer kernel than this machine's release has: Debian 13's Linux 6.12, in qemu-system,
with DAMON (`make test-kernel`).

DAMON's files alone do not show that it pages anything out: that takes a kernel.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from blackbox import ROOT, Lab
from machine import NEWER, Ended, Machine

HERE = Path(__file__).resolve().parent
KEYS, VALUE = 100_000, 1024
ZRAM = ("lz4_compress", "lz4hc_compress", "zsmalloc", "zram")  # each needs the ones before


@pytest.fixture(scope="module")
def ended(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """All commands in one boot, by their names."""
    machine = Machine(NEWER, tmp_path_factory.mktemp("machine"))
    library = machine.add(lab.require_strata().resolve())
    swap = machine.add(lab.build(HERE / "swap_on_zram.c", "-static"))
    modules = [machine.add_module(name) for name in ZRAM]
    store = machine.add(ROOT / "build/bin/crestdb")
    mode = machine.add(lab.build(HERE / "cache_mode.c"))
    stress = machine.add(ROOT / "build/release/tests/cache/rseq_stress_test")
    bench = f"{store} bench --structure harris-table --ycsb C --keys {KEYS} --value {VALUE}"
    bench += " --threads 2 --tidy on --json"
    commands = {
        "mode": f"LD_PRELOAD={library} {mode}",
        "stress": f"STRATA_STRESS_MS=10000 {stress}",
        "swap": f"{swap} 1024 {' '.join(modules)}",
        "none": f"{bench} --seconds 5 --reclaim none",
        "damon": f"{bench} --seconds 40 --reclaim damon",
        "after": swap,
    }
    return dict(zip(commands, machine.run(list(commands.values()), cpus=2), strict=True))


def test_caches_are_per_cpu(ended: dict[str, Ended]) -> None:
    assert ended["mode"].output.strip().startswith("per-cpu"), ended["mode"]


def test_sequences_are_restarted(ended: dict[str, Ended]) -> None:
    assert ended["stress"].status == 0 and "PASSED" in ended["stress"].output, ended["stress"]


def test_damon_pages_out_what_is_cold(ended: dict[str, Ended]) -> None:
    assert ended["swap"].status == 0, ended["swap"]
    figures = {name: json.loads(line_of(ended[name])) for name in ("none", "damon")}
    held = {name: figure["resident_mib"] for name, figure in figures.items()}
    assert held["none"] > KEYS * VALUE / (1 << 20), ended["none"]
    assert held["damon"] < 0.5 * held["none"], held
    assert "DAMON" not in ended["damon"].output, ended["damon"]  # it was not refused
    # Nothing of it is left.
    assert ended["after"].output.strip() == "threads of DAMON: 0", ended["after"]


def line_of(end: Ended) -> str:
    assert end.status == 0, end
    return next(line for line in end.output.splitlines() if line.startswith("{"))
