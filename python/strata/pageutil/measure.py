"""Page utilization from what the plugin noted: unique bytes touched over the bytes of the pages
touched, for each epoch and for the run, by mapping, size class and allocating stack."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from strata.pageutil.mappings import CodeMapping, PageLabels
from strata.pageutil.shared import (
    FREED,
    GRAINS_OF_PAGE,
    NS,
    PAGE_BYTES,
    TYPE_MASK,
    BlockType,
    Pages,
    SharedFile,
)

LARGE = 256 << 10  # above it a block is a run of pages, and no size class's
AT_ONCE = 1 << 13  # pages, so that what is unpacked stays small
STEPS = 100


@dataclass(frozen=True)
class Use:
    """Of some pages: how many there are, and how many of their bytes were touched."""

    pages: int
    bytes: int

    @property
    def utilization(self) -> float:
        return self.bytes / (self.pages * PAGE_BYTES) if self.pages else 0.0


@dataclass(frozen=True)
class EpochUse:
    """Of the heap. `cdf[n]` is the share of its touched pages that use at most n % of their
    bytes."""

    begin: float
    end: float
    use: Use
    cdf: list[float]

    def share_within(self, percent: int) -> float:
        return self.cdf[percent]


@dataclass(frozen=True)
class TypeUse:
    """Blocks of one kind on the heap's touched pages: the bytes that were touched, and those of
    live blocks that lie beside them untouched."""

    size: int
    stack: tuple[int, ...]
    allocations: int
    pages: int
    touched: int
    untouched: int

    @property
    def utilization(self) -> float:
        whole = self.touched + self.untouched
        return self.touched / whole if whole else 0.0


@dataclass
class Result:
    heap: Use
    seconds: float
    unit: int
    mappings: list[tuple[str, Use]]
    epochs: list[EpochUse]
    classes: list[tuple[int, Use]] = field(default_factory=list)  # size; 0: above LARGE
    types: list[TypeUse] = field(default_factory=list)
    free: int = 0  # bytes untouched on the heap's pages that are no live block's
    knows_blocks: bool = False
    files: list[CodeMapping] = field(default_factory=list)
    forks: int = 0
    executes: int = 0
    lost: int = 0
    started_unix: float = 0.0


def cdf(counts: NDArray[np.int64]) -> list[float]:
    if not len(counts):
        return [0.0] * (STEPS + 1)
    limits = np.arange(STEPS + 1) * PAGE_BYTES / STEPS
    below = np.searchsorted(np.sort(counts), limits + 1e-9, "right")
    return [round(float(n) / len(counts), 5) for n in below]


def _grains(bits: NDArray[np.uint8], unit: int) -> NDArray[np.int64]:
    """Bytes touched of every 8, a row a page."""
    if unit == 1:
        return np.bitwise_count(bits).astype(np.int64)
    lines = np.unpackbits(bits, axis=1, bitorder="little")
    return np.repeat(lines, unit // 8, axis=1).astype(np.int64) * 8


class _Blocks:
    """Sums over the heap's pages by what lies on them."""

    def __init__(self, kinds: list[BlockType]) -> None:
        self._kinds = kinds
        self.touched = np.zeros(len(kinds) + 1, np.int64)
        self.untouched = np.zeros(len(kinds) + 1, np.int64)
        self.pages = np.zeros(len(kinds) + 1, np.int64)
        self.free = 0
        self.by_size: dict[int, list[int]] = {}
        sizes = [0, *(kind.size if kind.size <= LARGE else 0 for kind in kinds)]
        self._sizes = np.array(sizes, np.int64)

    def add(self, touched: NDArray[np.int64], owners: NDArray[np.uint32]) -> None:
        count = len(self.touched)
        kind = (owners & TYPE_MASK).astype(np.int64)
        live = (owners & FREED == 0) & (kind != 0)
        left = 8 - touched
        self.touched += np.bincount(kind.ravel(), touched.ravel(), count).astype(np.int64)
        self.untouched += np.bincount(kind[live], left[live], count).astype(np.int64)
        self.free += int(left[~live].sum())
        rows = np.repeat(np.arange(len(kind)), GRAINS_OF_PAGE)
        present = np.unique(rows * count + kind.ravel())
        self.pages += np.bincount(present % count, minlength=count)
        self._classes(touched.sum(axis=1), kind)

    def _classes(self, touched: NDArray[np.int64], kind: NDArray[np.int64]) -> None:
        """A page counts for the size that most of it is. Strata's spans are of one size each."""
        sizes, place = np.unique(self._sizes, return_inverse=True)
        rows = np.arange(len(kind))[:, None]
        counts = np.zeros((len(kind), len(sizes) + 1), np.int32)
        np.add.at(counts, (rows, np.where(kind == 0, len(sizes), place[kind])), 1)
        counts = counts[:, :-1]  # without what has no owner
        most = counts.argmax(axis=1)
        for at in np.unique(most).tolist():
            here = most == at
            entry = self.by_size.setdefault(int(sizes[at]), [0, 0])
            entry[0] += int(here.sum())
            entry[1] += int(touched[here].sum())

    def types(self) -> list[TypeUse]:
        rows = [
            TypeUse(kind.size, kind.stack, kind.allocations, int(p), int(t), int(u))
            for kind, p, t, u in zip(
                self._kinds, self.pages[1:], self.touched[1:], self.untouched[1:], strict=True
            )
            if p
        ]
        return sorted(rows, key=lambda row: (-row.untouched, -row.touched))


def measure(file: SharedFile, end_ns: int) -> Result:
    epochs = file.epochs(end_ns)
    everything: Pages = np.unique(np.concatenate([epoch.pages for epoch in epochs]))
    labels = PageLabels(everything, file.guest_base, file.stack)
    events = file.events()
    last = np.zeros(len(everything), np.int32)
    marks = []
    done = 0
    for epoch in epochs:
        labels.apply(events[done : epoch.events])
        done = epoch.events
        marks.append(labels.of(epoch.pages))
        last[np.searchsorted(everything, epoch.pages)] = marks[-1]
    is_heap_label = np.array([label.use.is_heap for label in labels.labels])

    bytes_of = np.zeros(len(everything), np.int64)
    heap = is_heap_label[last]
    if file.knows_blocks:
        heap = np.zeros(len(everything), np.bool_)
    kinds = file.types() if file.knows_blocks else []
    blocks = _Blocks(kinds)
    for at in range(0, len(everything), AT_ONCE):
        part = slice(at, at + AT_ONCE)
        bits = file.touched(everything[part])
        bytes_of[part] = np.bitwise_count(bits).sum(axis=1, dtype=np.int64) * file.unit
        if file.knows_blocks:
            owners = file.owners(everything[part])
            holds = (owners != 0).any(axis=1)
            heap[part] = holds
            if holds.any():
                blocks.add(_grains(bits[holds], file.unit), owners[holds])

    result = Result(
        Use(int(heap.sum()), int(bytes_of[heap].sum())),
        epochs[-1].end,
        file.unit,
        _by_mapping(labels, last, heap, bytes_of, file.knows_blocks),
        [],
        files=labels.files,
        forks=file.forks,
        executes=file.executes,
        lost=file.lost,
        started_unix=file.start_unix_ns / NS,
    )
    for epoch in epochs:
        there = heap[np.searchsorted(everything, epoch.pages)]
        counts = epoch.units[there] * file.unit
        use = Use(int(there.sum()), int(counts.sum()))
        result.epochs.append(EpochUse(epoch.begin, epoch.end, use, cdf(counts)))
    if file.knows_blocks:
        result.knows_blocks = True
        result.types = blocks.types()
        result.free = blocks.free
        result.classes = [(size, Use(*blocks.by_size[size])) for size in sorted(blocks.by_size)]
    return result


def _by_mapping(
    labels: PageLabels,
    last: NDArray[np.int32],
    heap: NDArray[np.bool_],
    bytes_of: NDArray[np.int64],
    knows_blocks: bool,
) -> list[tuple[str, Use]]:
    found: dict[str, list[int]] = {}
    for number, label in enumerate(labels.labels):
        for on_heap in (True, False):
            here = (last == number) & (heap == on_heap)
            if not here.any():
                continue
            name = label.name
            if knows_blocks and on_heap:
                name = "heap (blocks of malloc)"
            elif knows_blocks and label.use.is_heap:
                name = "other anonymous memory, malloc's own"
            entry = found.setdefault(name, [0, 0])
            entry[0] += int(here.sum())
            entry[1] += int(bytes_of[here].sum())
    rows = [(name, Use(pages, count)) for name, (pages, count) in found.items()]
    return sorted(rows, key=lambda row: -row[1].pages)
