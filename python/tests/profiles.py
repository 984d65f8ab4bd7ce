"""Profiles for the tests: random ones, and one that says what Redis might."""

from __future__ import annotations

import random

from strata.pprof import Label, Line, Location, Mapping, Profile, Sample, ValueType

HEAP = [
    ValueType("alloc_objects", "count"),
    ValueType("alloc_space", "bytes"),
    ValueType("inuse_objects", "count"),
    ValueType("inuse_space", "bytes"),
]
PROGRAM = Mapping(0x400000, 0x500000, 0, "/usr/bin/server", "ab" * 20, True)


def place(name: str) -> Location:
    address = 0x400000 + sum(name.encode()) * 16
    return Location(address, PROGRAM, (Line(name, "server.c", 12),))


def heap(stacks: dict[str, int]) -> Profile:
    """A heap profile from `outermost;…;innermost` to bytes in use, one object for each 10 bytes."""
    return Profile(
        HEAP,
        [
            Sample(
                tuple(place(name) for name in reversed(stack.split(";"))),
                (size // 5, size * 2, size // 10, size),
                (Label("bytes", 10, "bytes"),),
            )
            for stack, size in stacks.items()
        ],
        [PROGRAM],
        "inuse_space",
        time_ns=1_790_000_000_000_000_000,
        period_type=ValueType("space", "bytes"),
        period=2 << 20,
    )


def anything(draw: random.Random) -> Profile:
    """A random valid profile with all that the format has."""

    def text() -> str:
        return "".join(draw.choice("abz_ ;<>&\"'\\ü漢\n") for _ in range(draw.randrange(12)))

    mappings = [
        Mapping(start := draw.getrandbits(46), start + draw.getrandbits(20), draw.getrandbits(20),
                text(), text(), draw.random() < 0.5)
        for _ in range(draw.randrange(4))
    ]  # fmt: skip
    places = [
        Location(
            draw.getrandbits(64),
            draw.choice([None, *mappings]),
            tuple(Line(text(), text(), draw.randrange(99)) for _ in range(draw.choice([0, 1, 3]))),
        )
        for _ in range(1 + draw.randrange(9))
    ]
    types = [ValueType(text(), text()) for _ in range(1 + draw.randrange(4))]

    def number() -> int:
        return draw.choice([0, 1, -1, 2**63 - 1, -(2**63), draw.getrandbits(40)])

    def label() -> Label:
        word = text()
        return Label(text(), word) if word else Label(text(), number(), text())

    samples = [
        Sample(
            tuple(draw.choice(places) for _ in range(draw.randrange(7))),
            tuple(number() for _ in types),
            tuple(label() for _ in range(draw.randrange(3))),
        )
        for _ in range(draw.randrange(9))
    ]
    return Profile(
        types, samples, list(dict.fromkeys(mappings)), draw.choice(types).type, number(), number(),
        draw.choice([None, *types]), number(), [text() for _ in range(draw.randrange(3))],
    )  # fmt: skip
