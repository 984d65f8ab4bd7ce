"""bursts.c with predictions, and what its statistics say of them."""

from __future__ import annotations

import json
from pathlib import Path

from blackbox import Lab, Result

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "bursts.c"
SURE = HERE.parent / "lifetime/golden/sure.model"  # what `Staying` allocates lasts


def burst(lab: Lab, tmp_path: Path, *words: str, **options: str) -> tuple[Result, dict[str, int]]:
    """The run, and what its statistics say of predictions."""
    stats = tmp_path / "stats.json"
    variables = {f"STRATA_{name}": value for name, value in options.items()}
    done = lab.run(
        lab.build(PROGRAM, "-pthread"), *words, env={"STRATA_STATS": str(stats), **variables}
    )
    assert (done.returncode, done.stderr) == (0, ""), done.explain()
    return done, json.loads(stats.read_text())["predictions"]
