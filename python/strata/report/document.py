"""One JSON object of the library, taken only as far as it makes sense. Without the packages that a
report needs: doctor reads with it, too, on a base install."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

HUGEPAGE_PAGES = 256  # 8 KiB pages
PAGE = 8192
MOST = 1 << 62


def as_number(value: object) -> float | None:
    """A finite number of sane size, or None. JSON's true and false are no numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if -MOST <= value <= MOST else None


class Document:
    """One JSON object of the library, read without trusting it."""

    def __init__(self, data: object) -> None:
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}

    def _at(self, path: Sequence[str]) -> object:
        value: object = self.data
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def number(self, *path: str) -> float | None:
        return as_number(self._at(path))

    def whole(self, *path: str) -> int | None:
        value = self.number(*path)
        return None if value is None else int(value)

    def text(self, *path: str) -> str:
        value = self._at(path)
        return value if isinstance(value, str) else ""

    def rows(self, name: str) -> list[Any]:
        value = self._at([name])
        return value if isinstance(value, list) else []
