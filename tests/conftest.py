"""Fixtures of the blackbox tests: `lab` compiles helper programs and runs things on Strata."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from blackbox import TOOLCHAINS, Lab, find_library, helpers, paired


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    target = TOOLCHAINS[os.environ.get("STRATA_TARGET", "")]
    return Lab(find_library(), helpers(tmp_path_factory), target)


# What the debug and the release build both run, in each of two cache modes: each case runs on one
# with one mode and on the other with the other.
MODES = ("auto", "thread")
SHARED = re.compile(r"/(edge/\w+|process/test_(fork|threads))\.py$")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases: dict[tuple[str, ...], int] = {}

    def is_tried(item: pytest.Item) -> bool:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            return True
        params = item.callspec.params
        if params.get("mode") in MODES and SHARED.search(str(item.path)):
            others = (repr(value) for name, value in params.items() if name != "mode")
            case = (str(item.path), item.originalname, *others)
            number = cases.setdefault(case, len(cases))
            return paired(number + MODES.index(params["mode"]))
        chosen = getattr(item.module, "is_tried", None)
        return chosen is None or bool(chosen(item))

    kept = [item for item in items if is_tried(item)]
    left = set(items) - set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = kept
