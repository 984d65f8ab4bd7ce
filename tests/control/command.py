"""`strata ARGS` for tests that type many commands: what it writes if all is well, and if not."""

from __future__ import annotations

from pathlib import Path

from forked_strata import strata

__all__ = ["good", "refused", "strata"]


def good(*args: str | int | Path) -> str:
    """What a command writes that has nothing to complain about."""
    done = strata(*args)
    assert done.returncode == 0 and done.stderr == "", f"{args}: {done.stdout}{done.stderr}"
    return done.stdout


def refused(*args: str | int | Path) -> str:
    """The one line that a command which cannot do its work writes."""
    done = strata(*args)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert done.stderr.startswith("strata: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr
