"""Where the heap and the page map lie: by chance, and none of them at a fixed distance from
another; at the same place each time where the user switched address randomization off."""

from __future__ import annotations

from pathlib import Path

from blackbox import Lab, missing

HERE = Path(__file__).resolve().parent
STARTS = 64
TIB = 1 << 40
REFUSED = 77


def places(text: str) -> tuple[int, list[int]]:
    """The heap's start, and the starts of the other mappings of that part of the address space."""
    first, _, *lines = text.splitlines()
    block = int(first, 16)
    starts = []
    heap = 0
    for line in lines:
        low, high = (int(x, 16) for x in line.split()[0].split("-"))
        if low <= block < high:
            heap = low
        elif 16 * TIB <= low < 81 * TIB and "/" not in line:
            starts.append(low)
    return heap, starts


def test_places_are_random(lab: Lab) -> None:
    program = lab.build(HERE / "where.c")
    heaps = []
    distances = []
    for _ in range(STARTS):
        heap, others = places(lab.run(program).ok().stdout)
        assert heap % (2 << 20) == 0
        assert len(others) == 2
        heaps.append(heap)
        distances.append({abs(heap - o) for o in others} | {abs(others[0] - others[1])})
    # Two of 64 have 11 random bits in common with a chance of 2/3, but hardly ever 8 pairs of them.
    assert len({h % (4 << 30) for h in heaps}) > STARTS - 8
    assert len({h >> 32 for h in heaps}) > STARTS - 8
    assert len({d for ds in distances for d in ds}) == 3 * STARTS
    # Each bit is one about as often as not (a fair one is outside of this once in 10^8).
    for bit in range(21, 44):
        ones = sum(h >> bit & 1 for h in heaps)
        assert 8 < ones < 56, bit


def test_places_repeat_without_randomization(lab: Lab) -> None:
    """As a debugger needs them, in which one finds an address and watches it in the next run."""
    program = lab.build(HERE / "where.c")
    runs = [lab.run(program, "again", env={"STRATA_SAMPLE": "64K"}) for _ in range(3)]
    if runs[0].returncode == REFUSED:
        missing("personality(ADDR_NO_RANDOMIZE) is refused here")
    heaps = {(places(r.ok().stdout)[0], *r.stdout.splitlines()[:2]) for r in runs}
    assert len(heaps) == 1, heaps
