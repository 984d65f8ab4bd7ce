"""Redis, SQLite and Python in a checked run (STRATA_CHECK=on), a few seconds of each. Their whole
suites: `make checked-suites`."""

from __future__ import annotations

import os
import random
from pathlib import Path

from blackbox import Lab, need
from test_python import python_with_tests
from test_redis import Model, redis
from test_sqlite import SCRIPT

CHECKED = {"STRATA_CHECK": "on"}
MODULES = ("test_copy", "test_struct", "test_textwrap")


def test_redis(lab: Lab, tmp_path: Path) -> None:
    with redis(lab, tmp_path, CHECKED) as (client, _):
        model = Model(client, random.randrange(1 << 30))
        model.change(20_000)
        model.check()


def test_sqlite(lab: Lab, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(SCRIPT.replace(":rows", "10000"))
    outputs = []
    for preload in (False, True):
        with script.open() as stdin:
            result = lab.run(
                need("sqlite3"),
                "-batch",
                tmp_path / f"{preload}.db",
                stdin=stdin,
                preload=preload,
                env=CHECKED,
            )
        outputs.append(result.ok().stdout)
    assert "\nok\n" in outputs[0]
    assert outputs[0] == outputs[1]


def test_python(lab: Lab, tmp_path: Path) -> None:
    env = {**CHECKED, "PYTHONMALLOC": "malloc", "TMPDIR": str(tmp_path)}
    command = [python_with_tests(), "-m", "test", f"-j{os.cpu_count()}", *MODULES]
    result = lab.run(*command, env=env, timeout=120, cwd=tmp_path)
    assert "== Tests result: SUCCESS ==" in result.stdout, result.explain()
    assert "strata:" not in result.stdout + result.stderr, result.explain()
