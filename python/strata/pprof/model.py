"""A profile as the tools see it: without tables of strings and numbers of everything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from strata.errors import StrataError

# What compilers compile. A script's name may end in anything, or in nothing.
COMPILED = re.compile(
    r"\.(?:c|cc|cpp|cxx|c\+\+|cu|h|hh|hpp|hxx|inc|s|f90|rs|go|zig|d|swift|mm?)$", re.IGNORECASE
)


@dataclass(frozen=True)
class ValueType:
    type: str  # e.g. inuse_space
    unit: str  # e.g. bytes

    @property
    def rule(self) -> str:
        """How two values of one context become one: sum, min, max, or mean by objects."""
        if self.type in ("lifetime_min", "lifetime_max"):
            return self.type.removeprefix("lifetime_")
        return "mean" if self.type.startswith("lifetime_") or self.unit == "percent" else "sum"


@dataclass(frozen=True)
class Mapping:
    start: int
    limit: int
    offset: int  # in the file
    file: str
    build_id: str = ""
    has_functions: bool = False  # the profile brings its own names


@dataclass(frozen=True)
class Line:
    function: str
    file: str = ""
    line: int = 0
    system_name: str = ""  # as the linker knows it

    @property
    def is_script(self) -> bool:
        return self.file != "" and COMPILED.search(self.file) is None


@dataclass(frozen=True)
class Location:
    """A call: where it lies, and what is known of it. Inlined functions come innermost first."""

    address: int
    mapping: Mapping | None = None
    lines: tuple[Line, ...] = ()

    @property
    def file_address(self) -> int:
        """The place in the file, which the same program has in every run."""
        if self.mapping is None:
            return self.address
        return self.address - self.mapping.start + self.mapping.offset

    @property
    def is_script(self) -> bool:
        """A frame of an interpreted program: the profile names it, and it is no mapped code. Other
        profilers leave out the mappings of compiled code too."""
        return self.mapping is None and any(line.is_script for line in self.lines)

    def places(self) -> Iterator[str]:
        """For each of its names the line it stands for, as file:line; empty where it is unknown."""
        for line in self.lines or (Line(""),):
            yield f"{line.file.rpartition('/')[2]}:{line.line}" if line.file and line.line else ""

    def names(self) -> Iterator[str]:
        """What to call it, innermost first; without symbols, the file and the place in it."""
        if self.is_script:
            for line in self.lines:
                yield f"{line.function} ({line.file.rpartition('/')[2]})"
        elif self.lines:
            for line in self.lines:
                yield line.function
        elif self.mapping is not None:
            name = PurePosixPath(self.mapping.file).name or self.mapping.file or "?"
            yield f"{name}+{self.file_address:#x}"
        else:
            yield f"{self.address:#x}"


@dataclass(frozen=True)
class Label:
    key: str
    value: str | int
    unit: str = ""


@dataclass(frozen=True)
class Sample:
    stack: tuple[Location, ...]  # innermost first
    values: tuple[int, ...]  # one for each of Profile.types
    labels: tuple[Label, ...] = ()

    def label(self, key: str) -> str | int | None:
        return next((label.value for label in self.labels if label.key == key), None)

    def names(self) -> tuple[str, ...]:
        """The stack by names, outermost first."""
        return tuple(name for location in self.stack for name in location.names())[::-1]

    def places(self) -> tuple[str, ...]:
        """The same by lines."""
        return tuple(place for location in self.stack for place in location.places())[::-1]


@dataclass
class Profile:
    types: list[ValueType]
    samples: list[Sample] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)  # the program's first
    default_type: str = ""
    time_ns: int = 0
    duration_ns: int = 0
    period_type: ValueType | None = None
    period: int = 0
    comments: list[str] = field(default_factory=list)

    def index_of(self, name: str | None = None) -> int:
        """Where the values of a type stand in each sample; of the default type if none is named."""
        names = [value.type for value in self.types]
        wanted = name or self.default_type
        if wanted in names:
            return names.index(wanted)
        if name:
            raise StrataError(f"the profile has no values '{name}': it has {', '.join(names)}")
        return len(names) - 1  # what pprof does
