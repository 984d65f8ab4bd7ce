"""A large block that is touched here and there shrinks to what is touched, and loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import Lab

SOURCE = Path(__file__).resolve().parent / "sparse_blocks.c"
THP = Path("/sys/kernel/mm/transparent_hugepage")

pytestmark = pytest.mark.skipif(
    not (THP / "shrink_underused").exists() or "[madvise]" not in (THP / "enabled").read_text(),
    reason="the kernel frees no zero pages, or gives hugepages never or everywhere",
)


def test_a_sparse_block_shrinks_while_it_is_written(lab: Lab) -> None:
    lab.require_strata()
    lab.run(lab.build(SOURCE, "-pthread"), "rest", "60").ok()
