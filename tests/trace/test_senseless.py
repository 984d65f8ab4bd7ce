"""Traces that are whole by their checksums and make no sense: both readers stop at the same block,
with one line. And what a trace says of its command is text on the terminal, nothing else."""

from __future__ import annotations

import json
import struct
import subprocess
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from strata.trace.command import find_tool
from strata.trace.format import BLOCK_HEADER, COLUMN_HEADER, MAGIC
from strata.trace.read import read_trace
from tracing import forked

MALLOC, FREE = 0, 4


def varint(n: int) -> bytes:
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def varints(numbers: Iterable[int]) -> bytes:
    return b"".join(map(varint, numbers))


def block(kind: int, *columns: bytes) -> bytes:
    return sealed(kind, b"".join(COLUMN_HEADER.pack(i, len(c)) + c for i, c in enumerate(columns)))


def sealed(kind: int, payload: bytes) -> bytes:
    head = struct.pack("<IB3xI", MAGIC, kind, len(payload))
    return BLOCK_HEADER.pack(MAGIC, kind, len(payload), zlib.crc32(head + payload)) + payload


def header(command: bytes = b"x\0") -> bytes:
    return block(1, varints([1, 100, 1, 10**18, 10**9, 0]), command)


def calls(
    first: int,
    operations: Sequence[int] = (MALLOC, FREE),
    steps: Sequence[int] = (0, 1),
    times: Sequence[int] = (0, 10),
    start: int = 0,
    thread: int = 1,
) -> bytes:
    mallocs = operations.count(MALLOC)
    scalars = varints([len(operations), thread, first, start])
    sizes, objects = [64] * mallocs, [1] * (len(operations) - mallocs)
    rest = (varints(column) for column in (steps, times, sizes, objects))
    return block(2, scalars, bytes(operations), *rest)


END = block(5, varints([2, 0, 0]))
NO_SENSE = "events that make no sense"
# What follows two good calls, and what is said of it.
SENSELESS = {
    "numbers twice": (calls(1), "calls with the numbers of others"),
    "one number twice": (calls(2, [MALLOC], [0], [0]), "calls with the numbers of others"),
    "numbers twice before an end": (calls(1) + END, "calls with the numbers of others"),
    "calls behind the end": (END + calls(3), "calls behind the trace's end"),
    "a time of 2^63": (calls(3, start=1 << 63), NO_SENSE),
    "times that reach 2^63": (calls(3, start=(1 << 63) - 2), NO_SENSE),
    "times that wrap around": (calls(3, start=(1 << 63) - 1, times=(0, 1 << 63)), NO_SENSE),
    "a first time that wraps": (calls(3, start=9, times=((1 << 64) - 5, 1)), NO_SENSE),
    "numbers that wrap around": (calls((1 << 64) - 1, steps=(4, 1)), NO_SENSE),
    "stacks that lie": (
        block(3, varints([3, 1]), varints([1024] * 3), varints([2] * 5)) + calls(3),
        "stacks that make no sense",
    ),
    "no calls, and a time of 2^63": (calls(3, [], [], [], start=1 << 63), NO_SENSE),
    "an end without its figures": (block(5, varints([2])), "a block without its figures"),
    "mappings that are no columns": (
        sealed(4, b"\1\xff\0\0\0r-xp"),
        "a block whose columns make no sense",
    ),
    "a thread beyond 32 bits": (calls(3, thread=(1 << 32) + 1), NO_SENSE),
}


@pytest.mark.parametrize("name", SENSELESS)
def test_both_readers_stop_before_it(tmp_path: Path, name: str) -> None:
    data, why = SENSELESS[name]
    path = tmp_path / "t"
    good = header() + calls(1)
    path.write_bytes(good + data)
    # of "calls behind the end", the end itself is good
    offset = len(good) + (len(END) if data.startswith(END) else 0)
    trace = read_trace(path)
    assert trace.damage == f"damaged at byte {offset}: {why}"
    assert trace.events["sequence"].to_list() == [1, 2]
    info = forked("trace", "--info", path)
    assert info.returncode == 0, info.explain()
    assert info.stderr == f"strata: {path}: {trace.damage}; showing what is before it\n"
    whole = tmp_path / "whole"
    annotated = forked("trace", "--annotate", path, "-o", whole)
    assert annotated.returncode == 0, annotated.explain()
    assert read_trace(whole).damage is None
    assert read_trace(whole).events["lifetime"].to_list() == [10, None]
    for options in ([], ["--threads"]):
        done = subprocess.run(
            [find_tool("strata-replay"), *options, path],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0
        assert done.stderr.endswith(f"{trace.damage}; replaying what is before it\n")
        assert len(done.stderr.splitlines()) == 1
        assert json.loads(done.stdout)["events"] == 2
    table = forked("replay", path, "--runs", "1", "--allocator", "glibc")
    assert table.returncode == 0, table.explain()
    assert len(table.stderr.splitlines()) == 1, table.explain()
    assert table.stderr.startswith("strata: "), table.explain()
    assert trace.damage in table.stderr


def test_unknown_blocks_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "t"
    head = struct.pack("<IB3xI", MAGIC, 77, 5)
    unknown = BLOCK_HEADER.pack(MAGIC, 77, 5, zlib.crc32(head + b"hello")) + b"hello"
    path.write_bytes(header() + unknown + calls(1) + END)
    trace = read_trace(path)
    assert trace.damage is None
    assert len(trace.events) == 2
    assert trace.totals is not None


def test_a_trace_without_a_command_says_so(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(header(b"\0") + calls(1) + END)
    info = forked("trace", "--info", path).ok().stdout
    line = next(line for line in info.splitlines() if line.startswith("command"))
    assert line.split(maxsplit=1)[1].strip() == "not recorded"


def test_the_command_cannot_reach_into_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "t"
    command = "a b\0\x1b[31mred\0\x1b]0;title\x07\0x\ny\0\x9b2J\0\u202eabc\0[bold]é\0"
    path.write_bytes(header(command.encode() + b"\xff\0") + calls(1) + END)
    info = forked("trace", "--info", path).ok().stdout
    assert all(c.isprintable() or c == "\n" for c in info)
    line = next(line for line in info.splitlines() if line.startswith("command"))
    for part in (
        "'a b'",
        r"\u001b[31mred",
        r"\u001b]0;title\u0007",
        r"x\ny",
        r"\u009b2J",
        r"\u202eabc",
    ):
        assert part in line
    assert "[bold]é" in line
