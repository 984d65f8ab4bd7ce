"""Fixtures of the blackbox tests: `lab` compiles helper programs and runs things on Strata."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from blackbox import TOOLCHAINS, Lab, find_library


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    named = os.environ.get("STRATA_BUILD_DIR")
    build = Path(named) / "blackbox" if named else tmp_path_factory.mktemp("blackbox")
    return Lab(find_library(), build, TOOLCHAINS[os.environ.get("STRATA_TARGET", "")])
