"""What the central free lists fetch before they take their lock is fetched in the built library.

A compiler that sees no effect in a prefetch may drop the call of the function that does it, and no
other test would notice: gcc 12 did (base/prefetch.h). Two lines of each span's record are fetched.
"""

from __future__ import annotations

import re

from test_fast_path import disassemble

SECOND_LINE = re.compile(r"^(prefetch\w* 0x40\(%\w+\)|prfm \w+, \[x\d+, #64\])$")


def test_span_records_are_fetched() -> None:
    assert [line for line in disassemble().values() if SECOND_LINE.match(line)]


def test_the_check_can_fail() -> None:
    for good in ("prefetcht0 0x40(%rcx)", "prefetchw 0x40(%r11)", "prfm pstl1keep, [x9, #64]"):
        assert SECOND_LINE.match(good)
    for bad in ("prefetcht0 (%rcx)", "mov 0x40(%rcx),%rax", "prfm pstl1keep, [x9]"):
        assert not SECOND_LINE.match(bad)
