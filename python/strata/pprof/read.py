"""Reads profiles, and refuses what is cut short, malformed or made to harm with one clear error."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from strata.errors import StrataError
from strata.files import UnreadableError, read_within
from strata.pprof.model import Label, Line, Location, Mapping, Profile, Sample, ValueType

if TYPE_CHECKING:
    from strata.pprof import profile_pb2 as pb

# Ten times what a large program's has. It takes up to thirty times as much memory to read it.
MAX_BYTES = 64 << 20  # unpacked
MAX_ROWS = 1 << 20  # of samples, of places, ...
MAX_FRAMES = 1 << 24  # of all samples together, with those that were inlined
MAX_MEMBERS = 10_000  # that gzip packed apart
STEP = 1 << 16
ZEROS = re.compile(rb"\0*")
GZIP = 16 + zlib.MAX_WBITS
Item = TypeVar("Item")


class Malformed(Exception):
    """What is wrong with the bytes."""


def load(path: Path) -> Profile:
    """The profile in a file."""
    try:
        data = read_within(path, MAX_BYTES)
    except UnreadableError as error:
        why = str(error)
        raise StrataError(f"{path}: {why[:1].upper()}{why[1:]}") from error
    return parse(data, str(path))


def parse(data: bytes, name: str = "profile") -> Profile:
    """The profile in some bytes, packed or not. `name` is for the error."""
    from google.protobuf.message import DecodeError  # slow to load, and most commands need none

    from strata.pprof import profile_pb2 as pb

    try:
        message = pb.Profile()
        message.ParseFromString(unpack(data))
        return Reader(message).profile()
    except DecodeError as error:
        raise StrataError(f"{name}: not a profile in pprof's format, or cut short") from error
    except Malformed as error:
        raise StrataError(f"{name}: a malformed profile: {error}") from error


def unpack(data: bytes) -> bytes:
    """What gzip packed, within bounds; other bytes as they are."""
    if not data:
        raise Malformed("it is empty")
    if data[:2] != b"\x1f\x8b":
        return data
    unpacked = bytearray()
    at = 0
    for _ in range(MAX_MEMBERS):
        at = unpack_member(data, at, unpacked)
        at += len(ZEROS.match(data, at)[0])  # type: ignore[index]  # a file may be padded
        if at == len(data):
            return bytes(unpacked)
    raise Malformed(f"it is packed in more than {MAX_MEMBERS:,} parts")


def unpack_member(data: bytes, at: int, unpacked: bytearray) -> int:
    """Adds what gzip packed in one go; where that ends. By steps, for what is left over of one is
    copied."""
    stream = zlib.decompressobj(GZIP)
    while not stream.eof:
        step = stream.unconsumed_tail or data[at : at + STEP]
        if not step:
            raise Malformed("it is cut short")
        if not stream.unconsumed_tail:
            at += len(step)
        try:
            unpacked += stream.decompress(step, MAX_BYTES + 1 - len(unpacked))
        except zlib.error as error:
            raise Malformed("its compression is damaged") from error
        if len(unpacked) > MAX_BYTES:
            raise Malformed(f"it unpacks to more than {MAX_BYTES >> 20} MiB")
    return at - len(stream.unused_data)


class Reader:
    """Turns numbers into what they stand for, checking each."""

    def __init__(self, message: pb.Profile) -> None:
        self._message = message
        self._frames_left = MAX_FRAMES
        rows = (message.sample, message.location, message.function, message.mapping)
        if any(len(each) > MAX_ROWS for each in (*rows, message.string_table)):
            raise Malformed(f"it has more than {MAX_ROWS:,} rows of a kind")
        self._strings = [text.decode("utf-8", "replace") for text in message.string_table]
        if not self._strings or self._strings[0] != "":
            raise Malformed("its string table does not begin with an empty string")

    def profile(self) -> Profile:
        message = self._message
        types = [self._type(value) for value in message.sample_type]
        if not types:
            raise Malformed("it says not what its values are")
        mappings = by_id("mapping", ((m.id, self._mapping(m)) for m in message.mapping))
        functions = by_id(
            "function",
            (
                (
                    f.id,
                    (self._string(f.name), self._string(f.filename), self._string(f.system_name)),
                )
                for f in message.function
            ),
        )
        locations = by_id(
            "location",
            ((place.id, self._location(place, mappings, functions)) for place in message.location),
        )
        return Profile(
            types=types,
            samples=[self._sample(sample, locations, len(types)) for sample in message.sample],
            mappings=list(mappings.values()),
            default_type=self._string(message.default_sample_type),
            time_ns=message.time_nanos,
            duration_ns=message.duration_nanos,
            period_type=(
                self._type(message.period_type) if message.HasField("period_type") else None
            ),
            period=message.period,
            comments=[self._string(comment) for comment in message.comment],
        )

    def _count_frames(self, more: int) -> None:
        self._frames_left -= more
        if self._frames_left < 0:
            raise Malformed(f"its samples have more than {MAX_FRAMES:,} frames")

    def _string(self, index: int) -> str:
        if not 0 <= index < len(self._strings):
            raise Malformed(f"it names string {index} of {len(self._strings)}")
        return self._strings[index]

    def _type(self, value: pb.ValueType) -> ValueType:
        return ValueType(self._string(value.type), self._string(value.unit))

    def _mapping(self, m: pb.Mapping) -> Mapping:
        if m.memory_limit < m.memory_start:
            raise Malformed(f"mapping {m.id} ends before it begins")
        return Mapping(
            m.memory_start,
            m.memory_limit,
            m.file_offset,
            self._string(m.filename),
            self._string(m.build_id),
            m.has_functions,
        )

    def _location(
        self,
        place: pb.Location,
        mappings: dict[int, Mapping],
        functions: dict[int, tuple[str, str, str]],
    ) -> Location:
        mapping = find("mapping", mappings, place.mapping_id) if place.mapping_id else None
        lines = []
        self._count_frames(len(place.line))
        for line in place.line:
            name, file, system_name = find("function", functions, line.function_id)
            lines.append(Line(name, file, line.line, system_name))
        return Location(place.address, mapping, tuple(lines))

    def _sample(self, sample: pb.Sample, locations: dict[int, Location], types: int) -> Sample:
        if len(sample.value) != types:
            raise Malformed(f"a sample has {len(sample.value)} values of {types} types")
        self._count_frames(len(sample.location_id) + len(sample.label))
        stack = tuple(find("location", locations, number) for number in sample.location_id)
        self._count_frames(sum(len(place.lines) for place in stack))
        return Sample(
            stack,
            tuple(sample.value),
            tuple(
                Label(
                    self._string(label.key),
                    self._string(label.str) if label.str else label.num,
                    self._string(label.num_unit),
                )
                for label in sample.label
            ),
        )


def by_id(what: str, rows: Iterable[tuple[int, Item]]) -> dict[int, Item]:
    """Rows by their numbers, which have to be unique and not zero."""
    found: dict[int, Item] = {}
    for number, item in rows:
        if number == 0 or number in found:
            raise Malformed(f"the number {number} of a {what} is taken or zero")
        found[number] = item
    return found


def find(what: str, rows: dict[int, Item], number: int) -> Item:
    try:
        return rows[number]
    except KeyError:
        raise Malformed(f"it names {what} {number}, which it lacks") from None
