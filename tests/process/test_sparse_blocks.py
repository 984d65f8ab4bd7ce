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


def test_a_locked_block_keeps_its_memory(lab: Lab) -> None:
    lab.require_strata()
    lab.run(lab.build(SOURCE, "-pthread"), "locked", "5").ok()


def test_no_block_shrinks_where_that_is_off(lab: Lab) -> None:
    lab.require_strata()
    off = {"STRATA_SPARSE_BLOCKS": "off"}
    assert lab.run(lab.build(SOURCE, "-pthread"), "rest", "6", env=off).returncode != 0
