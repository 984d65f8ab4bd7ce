"""Cells of pages that show shares, and tables of them."""

from __future__ import annotations

import math


def percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def share_table(header: tuple[str, ...], left: int, rows: list[tuple[str, ...]]) -> list[str]:
    """With so many columns of text on the left."""
    rule = "|" + "---|" * left + "---:|" * (len(header) - left)
    return [f"| {' | '.join(header)} |", rule, *(f"| {' | '.join(row)} |" for row in rows), ""]
