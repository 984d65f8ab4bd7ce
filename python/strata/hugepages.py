"""What the report and the doctor both say of a heap's hugepages."""

from __future__ import annotations

HUGEPAGE = 2 << 20
MOSTLY_THERE = 1 / 16  # missing: the library rebuilds such hugepages


def were_broken(hugepages: int, missing: int, gave_back: int) -> bool:
    """Whether so many hugepages, which the heap no longer or not yet has whole, were perhaps split
    to give memory back: `missing` bytes of them are not there, and `gave_back` bytes went back
    since the start. After hours that holds of most heaps, so who says it names the other cause."""
    return missing > MOSTLY_THERE * HUGEPAGE * hugepages and 2 * gave_back > missing
