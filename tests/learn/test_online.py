"""STRATA_LIFETIMES=online: what stays of a burst comes to lie apart from what does not, by the call
path alone; without it everything is as before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from blackbox import Lab, Result

PROGRAM = Path(__file__).resolve().parent / "bursts.c"


def burst(lab: Lab, tmp_path: Path, *words: str, **options: str) -> tuple[Result, dict[str, int]]:
    """The run, and what its statistics say of predictions."""
    stats = tmp_path / "stats.json"
    variables = {f"STRATA_{name}": value for name, value in options.items()}
    done = lab.run(
        lab.build(PROGRAM, "-pthread"), *words, env={"STRATA_STATS": str(stats), **variables}
    )
    assert (done.returncode, done.stderr) == (0, ""), done.explain()
    return done, json.loads(stats.read_text())["predictions"]


@pytest.mark.parametrize("cache", ["cpu", "thread"])
@pytest.mark.parametrize("threads", ["one", "many"])
def test_what_stays_comes_to_lie_apart(lab: Lab, tmp_path: Path, threads: str, cache: str) -> None:
    done, predictions = burst(lab, tmp_path, threads, LIFETIMES="online", CACHE=cache)
    assert done.stdout == "apart\n"
    # The wrapper, and one of its callers; and what else of the program was found to last.
    assert predictions["places"] >= 2
    assert predictions["lasting_live"] > 0


def test_without_the_background_thread_nothing_is_learned(lab: Lab, tmp_path: Path) -> None:
    _, predictions = burst(lab, tmp_path, "brief", BACKGROUND="off", LIFETIMES="online")
    assert predictions == {"places": 0, "changes": 0, "rounds": 0, "lasting_live": 0}


def test_a_wrong_value_is_refused(lab: Lab) -> None:
    done = lab.run("true", env={"STRATA_LIFETIMES": "perhaps"})
    assert done.returncode == 0
    assert len(done.strata_lines()) == 1
    assert "STRATA_LIFETIMES" in done.strata_lines()[0]
