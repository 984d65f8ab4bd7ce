"""Strata on a whole arm64 machine: Debian's kernel in qemu-system, with rseq (`make test-arm`).

The machine emulates four processors on as many threads, so threads are preempted, migrate and run
at once, which is what restartable sequences are about.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import ROOT, TESTS, Lab
from machine import ARM, Ended, Machine

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def ended(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """All commands in one boot, by their names."""
    machine = Machine(ARM, tmp_path_factory.mktemp("machine"))
    library = machine.add(lab.require_strata().resolve())
    build = ROOT / "build/aarch64/tests"
    stress = machine.add(build / "cache_rseq_stress_test")
    control = machine.add(build / "cache_rseq_control_stress_test")
    mode = machine.add(lab.build(HERE / "cache_mode.c"))
    storm = machine.add(lab.build(TESTS / "process/fork_storm.c"))
    threads = machine.add(lab.build(TESTS / "process/thread_cases.c"))
    vfork = machine.add(lab.build(TESTS / "process/vfork_cases.c"))
    edge = machine.add(lab.build(TESTS / "edge/api_cases.c"))
    new = machine.add(lab.build(TESTS / "edge/new_cases.cpp"))
    on = f"LD_PRELOAD={library}"
    commands = {
        "mode": f"{on} {mode}",
        "mode thread": f"{on} STRATA_CACHE=thread {mode}",
        "stress": f"STRATA_STRESS_MS=40000 {stress}",
        "control": control,
        "fork storm": f"{on} {storm} storm 40 4 2000",
        "vfork": f"{on} {vfork} children_beside_threads",
        "threads": f"{on} {threads} hand_over",
        "key destructors": f"{on} {threads} key_destructors_allocate",
        "new": f"{on} {new} every_form",
        "calloc": f"{on} {edge} calloc_zeroes_recycled",
        "realloc": f"{on} {edge} realloc_grows_and_shrinks",
    }
    return dict(zip(commands, machine.run(list(commands.values())), strict=True))


def test_caches_are_per_cpu(ended: dict[str, Ended]) -> None:
    assert ended["mode"].output.strip().startswith("per-cpu"), ended["mode"]
    assert ended["mode thread"].output.strip() == "per-thread", ended["mode thread"]


def test_sequences_are_restarted(ended: dict[str, Ended]) -> None:
    """And without their descriptor they are found broken."""
    for name in ("stress", "control"):
        result = ended[name]
        assert result.status == 0 and "PASSED" in result.output, result.output[-3000:]


@pytest.mark.parametrize(
    "name", ["fork storm", "vfork", "threads", "key destructors", "new", "calloc", "realloc"]
)
def test_program(ended: dict[str, Ended], name: str) -> None:
    """It says what went wrong; nothing if nothing did."""
    assert ended[name].status == 0, ended[name]
    assert ended[name].output.strip() == "", ended[name]
