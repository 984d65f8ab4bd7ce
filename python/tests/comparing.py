"""`strata compare` run in the tests' own process. The fixture for it is in conftest.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from strata.cli import app_for
from strata.errors import StrataError


class Compare:
    """`strata compare --json` in this process."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._options = ["--json", "--lib", str(library)]
        self._out = ["--out", str(folder)]
        self.errors = ""

    def __call__(self, *arguments: str, status: int = 0, out: bool = True) -> Any:  # noqa: ANN401
        """The result's JSON, or for a mistake its message."""
        options = self._options[:1] if "--hosts" in arguments else self._options
        words = ["compare", *options, *(self._out if out else []), *arguments]
        result = CliRunner().invoke(app_for(words), words, standalone_mode=False)
        self.errors = result.stderr
        if isinstance(result.exception, StrataError):
            assert result.exception.status == status
            return str(result.exception)
        assert result.exception is None, result.output
        assert result.return_value == status, result.output
        return json.loads(result.stdout)


def cell(document: dict[str, Any], figure: str, arm: str) -> dict[str, Any]:
    row = next(f for f in document["figures"] if f["name"] == figure)
    found: dict[str, Any] = next(c for c in row["arms"] if c["arm"] == arm)
    return found
