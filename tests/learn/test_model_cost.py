"""What a model costs where it has nothing to gain, and when it is asked again."""

from __future__ import annotations

import json
from pathlib import Path

from blackbox import Lab
from bursting import SURE, burst


def test_what_fills_a_few_pages_stays_together(lab: Lab, tmp_path: Path) -> None:
    """Apart it would take more of them."""
    _, predictions = burst(lab, tmp_path, "few", MODEL=str(SURE))
    assert predictions["model_asked"] >= 2
    assert predictions["places"] == 0


def test_a_model_is_asked_again_about_who_calls_from_a_place(lab: Lab, tmp_path: Path) -> None:
    """1.2 MiB by 32 stacks, of which about five are sampled."""
    _, predictions = burst(lab, tmp_path, "again", "2500", MODEL=str(SURE), SAMPLE="256K")
    assert predictions["model_asked"] >= 25


def test_a_model_is_asked_again_no_oftener_where_threads_have_caches(
    lab: Lab, tmp_path: Path
) -> None:
    """Each object is seen there, not one in a batch: 2,048 of them are two questions."""
    settings = {"MODEL": str(SURE), "SAMPLE": "256K", "CACHE": "thread"}
    _, predictions = burst(lab, tmp_path, "again", "64", **settings)
    assert 2 <= predictions["model_asked"] < 16


def test_a_program_of_ever_new_stacks_pays_little_for_a_model(lab: Lab, tmp_path: Path) -> None:
    """An interpreter is one; the model is sure of each of them."""
    stats = tmp_path / "stats.json"
    program = """
import functools, random
def down(n):
    if n == 0:
        return [bytes(400) for _ in range(99)]
    for way in random.sample(WAYS, 1):
        return way(n - 1)
WAYS = [
    lambda n: list(map(down, [n])),
    lambda n: sorted([n], key=down),
    lambda n: functools.reduce(lambda _, m: down(m), [n], 0),
    lambda n: list(filter(down, [n])),
]
keep = bytearray(9 << 20)
for _ in range(12000):
    down(9)
"""
    env = {"STRATA_MODEL": str(SURE), "STRATA_STATS": str(stats), "PYTHONMALLOC": "malloc"}
    done = lab.run("/usr/bin/python3", "-c", program, env=env)
    assert (done.returncode, done.stderr) == (0, ""), done.explain()
    read = json.loads(stats.read_text())
    assert read["predictions"]["model_asked"] > 100
    assert read["predictions"]["bytes"] < 4 << 20
    assert read["sampler"]["interval"] > 32 << 10
    assert read["sampler"]["contexts"] < 4000, "13,800 of them had 16 MiB of records"
