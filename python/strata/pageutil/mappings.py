"""What each page that was touched was mapped to: heap, stack, which file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from strata.pageutil.shared import PAGE_BYTES, PAGE_SHIFT, Event, Kind, Pages

MAP_FIXED = 0x10
MAP_STACK = 0x20000


class Use(Enum):
    BREAK = "heap (brk)"
    ANONYMOUS = "anonymous memory"
    STACK = "stack"
    THREAD_STACK = "stacks of threads"
    FILE = "file"
    UNKNOWN = "unknown"

    @property
    def is_heap(self) -> bool:
        return self in (Use.BREAK, Use.ANONYMOUS)


@dataclass(frozen=True)
class Label:
    """What a page is part of."""

    use: Use
    path: str = ""  # of a file

    @property
    def name(self) -> str:
        return self.path or self.use.value


@dataclass(frozen=True)
class CodeMapping:
    """A stretch of a file."""

    start: int
    end: int
    offset: int
    path: str


class PageLabels:
    """Paints the pages with one event after the other; what is unmapped keeps its colour."""

    def __init__(self, pages: Pages, guest_base: int, stack: int) -> None:
        self.labels: list[Label] = [Label(Use.UNKNOWN)]
        self.files: list[CodeMapping] = []
        self._pages = pages  # in order
        self._of = np.zeros(len(pages), np.int32)
        self._numbers = {self.labels[0]: 0}
        self._guest_base = guest_base
        self._stack = stack
        self._first_break = 0

    def of(self, pages: Pages) -> NDArray[np.int32]:
        """The places in `labels` of some of the pages, as they are now."""
        return self._of[np.searchsorted(self._pages, pages)]

    def apply(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind is Kind.SNAPSHOT:
                self._snapshot(event.text)
            elif event.kind is Kind.BREAK:
                self._first_break = self._first_break or event.start
                self._paint(self._first_break, event.start, Label(Use.BREAK))
            elif event.kind is Kind.MOVE:
                place = self._range(event.flags, event.flags + PAGE_BYTES)
                known = self._of[place]
                label = self.labels[known[0]] if len(known) else Label(Use.ANONYMOUS)
                self._paint(event.start, event.start + event.size, label)
            else:
                self._map(event)

    def _map(self, event: Event) -> None:
        end = event.start + event.size
        if event.text:
            self.files.append(CodeMapping(event.start, end, event.offset, event.text))
            self._paint(event.start, end, Label(Use.FILE, event.text))
        elif event.flags & MAP_STACK:
            self._paint(event.start, end, Label(Use.THREAD_STACK))
        elif event.flags & MAP_FIXED:
            # what the dynamic linker lays over the end of a file's mapping are its zero-filled
            # variables
            self._paint(event.start, end, Label(Use.ANONYMOUS), keep_files=True)
        else:
            self._paint(event.start, end, Label(Use.ANONYMOUS))

    def _snapshot(self, text: str) -> None:
        """The program as QEMU loaded it. QEMU's own are there too, untouched."""
        before_end, before = 0, Label(Use.UNKNOWN)
        for line in text.splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) < 5:
                continue
            begin, end = (int(word, 16) - self._guest_base for word in fields[0].split("-"))
            path = fields[5] if len(fields) == 6 and fields[5].startswith("/") else ""
            if path:
                label = Label(Use.FILE, path)
                self.files.append(CodeMapping(begin, end, int(fields[2], 16), path))
            elif begin <= self._stack < end:
                label = Label(Use.STACK)
            elif begin == before_end and before.use is Use.FILE:
                label = before  # its zero-filled variables
            else:
                label = Label(Use.ANONYMOUS)
            self._paint(begin, end, label)
            before_end, before = end, label

    def _range(self, begin: int, end: int) -> slice:
        first, last = (
            int(np.searchsorted(self._pages, np.uint64(max(0, address) >> PAGE_SHIFT)))
            for address in (begin, end + PAGE_BYTES - 1)
        )
        return slice(first, last)

    def _paint(self, begin: int, end: int, label: Label, *, keep_files: bool = False) -> None:
        number = self._numbers.setdefault(label, len(self.labels))
        if number == len(self.labels):
            self.labels.append(label)
        place = self._range(begin, end)
        if not keep_files:
            self._of[place] = number
            return
        is_file = np.array([known.use is Use.FILE for known in self.labels])
        part = self._of[place]
        part[~is_file[part]] = number
