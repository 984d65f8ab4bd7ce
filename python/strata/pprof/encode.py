"""Writes profiles: the same bytes for the same profile."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

from strata.files import write_file
from strata.pprof.model import Line, Location, Mapping, Profile, ValueType
from strata.pprof.read import unpack

if TYPE_CHECKING:
    from strata.pprof import profile_pb2 as pb


PROCESS = "process "  # a comment that begins so names the process that was profiled


def process_of(profile: Profile) -> str:
    """What the process was called, or the processes; empty if the profile does not say."""
    named = [c.removeprefix(PROCESS) for c in profile.comments if c.startswith(PROCESS)]
    return ", ".join(dict.fromkeys(named))


def with_comment(data: bytes, comment: str) -> bytes:
    """The same profile with one more comment. All else stays as the library wrote it."""
    from strata.pprof import profile_pb2 as pb

    message = pb.Profile()
    message.ParseFromString(unpack(data))
    message.comment.append(len(message.string_table))
    message.string_table.append(comment.encode())
    return gzip.compress(message.SerializeToString(), mtime=0)


def dump(profile: Profile, path: Path) -> None:
    write_file(path, dumps(profile))


def dumps(profile: Profile) -> bytes:
    return gzip.compress(Encoder(profile).message.SerializeToString(), mtime=0)


class Encoder:
    """Builds the message, giving each string, mapping, function and place its number."""

    def __init__(self, profile: Profile) -> None:
        from strata.pprof import profile_pb2 as pb

        self.message = pb.Profile(
            time_nanos=profile.time_ns, duration_nanos=profile.duration_ns, period=profile.period
        )
        self._strings: dict[str, int] = {"": 0}
        self._mappings: dict[Mapping, int] = {}
        self._functions: dict[tuple[str, str, str], int] = {}
        self._locations: dict[Location, int] = {}
        message = self.message
        for value in profile.types:
            self._put(message.sample_type.add(), value)
        if profile.period_type is not None:
            self._put(message.period_type, profile.period_type)
        message.default_sample_type = self._string(profile.default_type)
        message.comment.extend(self._string(comment) for comment in profile.comments)
        for mapping in profile.mappings:
            self._mapping(mapping)
        for sample in profile.samples:
            row = message.sample.add()
            row.location_id.extend(self._location(location) for location in sample.stack)
            row.value.extend(sample.values)
            for label in sample.labels:
                text = isinstance(label.value, str)
                row.label.add(
                    key=self._string(label.key),
                    str=self._string(label.value) if isinstance(label.value, str) else 0,
                    num=label.value if isinstance(label.value, int) else 0,
                    num_unit=0 if text else self._string(label.unit),
                )
        message.string_table.extend(text.encode() for text in self._strings)

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _put(self, row: pb.ValueType, value: ValueType) -> None:
        row.type, row.unit = self._string(value.type), self._string(value.unit)

    def _mapping(self, mapping: Mapping) -> int:
        number = self._mappings.get(mapping)
        if number is None:
            number = self._mappings[mapping] = len(self._mappings) + 1
            self.message.mapping.add(
                id=number,
                memory_start=mapping.start,
                memory_limit=mapping.limit,
                file_offset=mapping.offset,
                filename=self._string(mapping.file),
                build_id=self._string(mapping.build_id),
                has_functions=mapping.has_functions,
                has_filenames=mapping.has_functions,
                has_line_numbers=mapping.has_functions,
                has_inline_frames=mapping.has_functions,
            )
        return number

    def _function(self, line: Line) -> int:
        key = (line.function, line.file, line.system_name)
        number = self._functions.get(key)
        if number is None:
            number = self._functions[key] = len(self._functions) + 1
            name, file, system_name = (self._string(text) for text in key)
            self.message.function.add(id=number, name=name, filename=file, system_name=system_name)
        return number

    def _location(self, location: Location) -> int:
        number = self._locations.get(location)
        if number is None:
            number = self._locations[location] = len(self._locations) + 1
            row = self.message.location.add(id=number, address=location.address)
            if location.mapping is not None:
                row.mapping_id = self._mapping(location.mapping)
            for line in location.lines:
                row.line.add(function_id=self._function(line), line=line.line)
        return number
