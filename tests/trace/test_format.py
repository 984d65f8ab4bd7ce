"""The Python reader against the C++ writer and reader, and against damaged files."""

from __future__ import annotations

import random
import re
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from blackbox import ROOT, Lab
from strata.errors import StrataError
from strata.trace.analyze import live_bytes, objects
from strata.trace.format import BLOCK_HEADER
from strata.trace.read import NAMES, Trace, parse, read_trace

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def writer(lab: Lab) -> Path:
    return lab.build(HERE / "write_trace.cpp", f"-I{ROOT / 'include'}", f"-I{HERE}")


def write(writer: Path, path: Path, seed: int, count: int, threads: int) -> list[tuple[int, ...]]:
    """Writes a trace and returns the events as the C++ reader sees them."""
    words = (str(path), str(seed), str(count), str(threads))
    done = subprocess.run([writer, *words], capture_output=True, text=True, check=True, timeout=60)
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]


def rows(trace: Trace) -> list[tuple[int, ...]]:
    return [tuple(row) for row in trace.events.select(NAMES).iter_rows()]


@pytest.mark.parametrize("seed", range(12))
def test_the_readers_agree(writer: Path, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "t"
    expected = write(writer, path, seed, seed * 977 % 7000, seed % 3 + 1)
    trace = read_trace(path)
    assert trace.damage is None
    assert rows(trace) == expected
    assert trace.totals is not None
    assert trace.totals.events == len(expected)


def attempt(data: bytes) -> tuple[Trace | None, str]:
    """The trace, or what its reader says."""
    try:
        return parse(memoryview(data), "t"), ""
    except StrataError as error:
        return None, str(error)


def simple_live(events: list[tuple[int, ...]]) -> list[int]:
    """Bytes live after each event, in the plainest way."""
    sizes: dict[int, int] = {}
    live, curve = 0, []
    for sequence, _, operation, size, ended, *_ in events:
        live -= sizes.pop(ended, 0)
        if operation != 4:
            sizes[sequence] = size
            live += size
        curve.append(live)
    return curve


def test_live_bytes_and_objects_against_a_model(writer: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    # sizes of all 64 bits would overflow the sum: those of a real process do not
    events = [e for e in write(writer, path, 3, 5000, 2) if e[3] < 1 << 40]
    trace = read_trace(path)
    trace.events = trace.events.filter(trace.events["size"] < 1 << 40)
    assert live_bytes(trace).tolist() == simple_live(events)
    table = objects(trace)
    assert len(table) == sum(e[2] != 4 for e in events)
    died = {e[4]: e for e in events if e[4]}
    for row in table.iter_rows(named=True):
        end = died.get(row["born_at"])
        assert row["died_at"] == (end[0] if end else None)
        assert row["freed_by"] == (end[7] if end else None)
        assert row["lifetime"] == (end[1] - row["born"] if end else None)


def test_every_cut_keeps_whole_blocks(writer: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    expected = write(writer, path, 5, 5000, 1)
    data = path.read_bytes()
    kept = set()
    for size in [*range(0, 40), *range(40, len(data), 997), len(data) - 1]:
        trace, said = attempt(data[:size])
        if trace is None:
            assert "\n" not in said
            assert size < 200  # within the header's block
            continue
        found = rows(trace)
        assert found == expected[: len(found)]
        kept.add(len(found))
    assert kept == {0, 2048, 4096, 5000}


def test_changed_bytes_are_seen(writer: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    expected = write(writer, path, 6, 3000, 2)
    data = path.read_bytes()
    chance = random.Random(1)
    for _ in range(300):
        changed = bytearray(data)
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        trace, said = attempt(bytes(changed))
        if trace is None:
            assert re.match(r"t: not a trace of Strata's \(damaged at byte 0: .+\)$", said)
            continue
        assert trace.damage is not None
        found = rows(trace)
        assert found == expected[: len(found)]


def with_right_checksums(data: bytearray, chance: random.Random) -> bytes:
    """Bytes changed at random within the blocks, and nobody could tell by the checksum."""
    at = 0
    while at < len(data):
        magic, kind, length, _ = BLOCK_HEADER.unpack_from(data, at)
        begin = at + BLOCK_HEADER.size
        if length and chance.random() < 0.5:
            data[begin + chance.randrange(length)] = chance.randrange(256)
        head = struct.pack("<IB3xI", magic, kind, length)
        crc = zlib.crc32(data[begin : begin + length], zlib.crc32(head))
        BLOCK_HEADER.pack_into(data, at, magic, kind, length, crc)
        at = begin + length
    return bytes(data)


@pytest.mark.parametrize("with_stacks", [False, True])
def test_nonsense_behind_right_checksums(writer: Path, tmp_path: Path, with_stacks: bool) -> None:
    path = tmp_path / "t"
    if with_stacks:  # a recording of /bin/ls
        path = ROOT / "tests/fuzz/corpus/trace_fuzz/stacks"
        good = read_trace(path)
        assert good.damage is None
        assert len(good.stacks) > 10
        assert all(good.stacks.values())
    else:
        write(writer, path, 7, 200, 2)
    data = path.read_bytes()
    chance = random.Random(2)
    refused = 0
    for _ in range(1000):
        trace, said = attempt(with_right_checksums(bytearray(data), chance))
        assert "\n" not in said
        refused += trace is None or trace.damage is not None
        if trace is not None:
            objects(trace)
    assert refused > 200


def test_what_is_no_trace_is_refused_with_one_line(tmp_path: Path) -> None:
    for content, why in ((b"", "empty"), (b"\x7fELF" + bytes(500), "no block"), (b"S", "cut off")):
        path = tmp_path / "x"
        path.write_bytes(content)
        with pytest.raises(StrataError, match=why):
            read_trace(path)
    with pytest.raises(StrataError, match="no such file"):
        read_trace(tmp_path / "missing")
