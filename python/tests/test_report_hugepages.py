"""What the report says of a heap that is not on hugepages: the cause, by each bound."""

from __future__ import annotations

from dataclasses import replace

from strata.report import advice_hugepages
from strata.report.advice import Level
from strata.report.advice_hugepages import Backing

MIB = 1 << 20


def test_coverage() -> None:
    low = Backing(0.2, 100 * MIB, thp="madvise")
    coverage = advice_hugepages.coverage
    assert coverage(replace(low, coverage=0.5, thp="never")).level is Level.FINE
    never = coverage(replace(low, thp="never"))
    assert never.level is Level.ACT
    assert coverage(replace(low, coverage=0.8768)).text.startswith("87.7 % of the ")
    assert never.command == ("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
    small = replace(low, resident=20 * MIB)
    for kept in (small, replace(small, forbidden=True), replace(small, thp="never")):
        assert (coverage(kept).level, "on purpose" in coverage(kept).text) == (Level.FINE, True)
    broken = coverage(replace(low, broken=30, broken_bytes=40 * MIB))
    assert "30 hugepages were broken up" in broken.text
    assert broken.level is Level.LOOK, "whether the load returns is not known"
    assert "50 % of what is on small pages" in broken.text
    assert "--set RELEASE_IDLE_MS=300000" in broken.command
    assert "compact_memory" in coverage(replace(low, thp="always")).command


def test_hugepages_on_their_way_need_nobody() -> None:
    low = Backing(0.3, 100 * MIB, broken=30, broken_bytes=40 * MIB, thp="madvise")
    rising = advice_hugepages.coverage(replace(low, before=0.1))
    assert (rising.level, rising.command) == (Level.FINE, "")
    assert "It was 10.0 % when the report began" in rising.text
    assert advice_hugepages.coverage(replace(low, before=0.3)).level is Level.LOOK
    begun_small = replace(low, broken=1, broken_bytes=2 * MIB)
    assert advice_hugepages.coverage(replace(begun_small, thin=True)).level is Level.FINE
    dear = advice_hugepages.coverage(replace(begun_small, first_touch_ms=2.1))
    assert (dear.level, "takes 2.1 ms" in dear.text) == (Level.FINE, True)
    assert advice_hugepages.coverage(replace(low, before=0.1, thp="never")).level is Level.ACT


def test_hugepages_that_began_small_were_not_broken() -> None:
    """Of both kinds together, the larger is the cause, with its own figures."""
    low = Backing(0.2, 100 * MIB, 3, 4 * MIB, thp="madvise", begun=30, begun_bytes=40 * MIB)
    begun = advice_hugepages.coverage(low)
    assert (begun.level, begun.command) == (Level.FINE, "")
    assert "30 hugepages began on small pages and hold 50 % of what is on small pages" in begun.text
    assert "broken" not in begun.text
    assert "They are rebuilt as they fill" in begun.text
    dear = advice_hugepages.coverage(replace(low, first_touch_ms=2.1))
    assert "30 hugepages began" in dear.text
    assert "takes 2.1 ms" in dear.text
    assert dear.level is Level.FINE
    other = advice_hugepages.coverage(replace(low, broken=50, broken_bytes=60 * MIB))
    assert other.level is Level.LOOK
    assert "50 hugepages were broken up to give memory back, and 75 %" in other.text
    assert "began" not in other.text
    both = advice_hugepages.coverage(replace(low, broken=50, broken_bytes=60 * MIB, broken_begun=9))
    assert "50 hugepages (9 had begun on small pages) were broken up" in both.text


def test_one_broken_hugepage_is_not_the_reason() -> None:
    found = advice_hugepages.coverage(Backing(0.2, 100 * MIB, 1, MIB, thp="madvise"))
    assert found.level is Level.LOOK
    assert "STRATA_RELEASE" not in found.command


def test_coverage_that_is_refused_by_choice_is_not_the_kernels_fault() -> None:
    off = advice_hugepages.coverage(Backing(0.0, 100 * MIB, thp="always", switched_off=True))
    assert (off.level, off.command) == (
        Level.LOOK,
        "unset STRATA_HUGEPAGES  # where the program is started",
    )
    forbidden = advice_hugepages.coverage(Backing(0.0, 100 * MIB, thp="always", forbidden=True))
    assert "PR_SET_THP_DISABLE" in forbidden.text
    assert forbidden.command == ""
