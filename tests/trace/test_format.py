"""The Python reader against the C++ writer and reader, and against damaged files."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
import textwrap
import zlib
from pathlib import Path

import numpy as np
import pytest
from blackbox import ROOT, Lab
from strata.errors import StrataError
from strata.trace.analyze import live_bytes, objects
from strata.trace.annotate import annotate, encode_varints
from strata.trace.format import BLOCK_HEADER, Operation, varints
from strata.trace.read import NAMES, Totals, Trace, parse, read_trace

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


def read(writer: Path, path: Path) -> list[tuple[int | None, ...]]:
    """The events as the C++ reader sees them, with their lifetimes."""
    done = subprocess.run([writer, path], capture_output=True, text=True, check=True, timeout=60)
    return [
        tuple(None if word == "-" else int(word) for word in line.split())
        for line in done.stdout.splitlines()
    ]


def with_lifetimes(trace: Trace) -> list[tuple[int | None, ...]]:
    return list(trace.events.select(*NAMES, "lifetime", "lifetime_bytes").iter_rows())


@pytest.mark.parametrize("seed", range(6))
def test_an_annotated_trace_says_what_follows_from_the_events(
    writer: Path, tmp_path: Path, seed: int
) -> None:
    path, annotated = tmp_path / "t", tmp_path / "a"
    write(writer, path, seed, seed * 977 % 5000 + 10, seed % 3 + 1)
    said: list[str] = []
    annotate(path, annotated, said.append)
    plain, trace = read_trace(path), read_trace(annotated)
    assert rows(trace) == rows(plain)
    assert trace.damage is None
    assert trace.totals == plain.totals
    table = objects(plain)
    made = trace.events.filter(trace.events["operation"] != Operation.FREE)
    for name in ("lifetime", "lifetime_bytes"):
        # sizes of all 64 bits, as these have, wrap around
        expected = [None if n is None else n % 2**64 for n in table[name]]
        assert made[name].to_list() == expected
    ended = made["lifetime"].len() - made["lifetime"].null_count()
    assert said == [f"{annotated}: {len(table):,} objects, of which {ended:,} ended"]
    assert read(writer, annotated) == with_lifetimes(trace)
    again = tmp_path / "again"
    annotate(annotated, again, said.append)
    assert again.read_bytes() == annotated.read_bytes()


def test_a_cut_trace_is_annotated_up_to_there(writer: Path, tmp_path: Path) -> None:
    path, annotated = tmp_path / "t", tmp_path / "a"
    write(writer, path, 5, 5000, 1)
    path.write_bytes(path.read_bytes()[:-3000])
    said: list[str] = []
    annotate(path, annotated, said.append)
    assert len(said) == 2
    assert "cut off within a block; taking what is before it" in said[0]
    assert read_trace(annotated).damage is None
    assert rows(read_trace(annotated)) == rows(read_trace(path))


def test_annotating_where_nothing_can_be_written_is_one_message(
    writer: Path, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    write(writer, path, 5, 100, 1)
    for output, why in ((Path("/dev/full"), "no space left"), (tmp_path / "no" / "a", "no such")):
        with pytest.raises(StrataError, match=why):
            annotate(path, output, lambda _: None)
    assert [p.name for p in tmp_path.iterdir()] == ["t"]


def test_varints_of_all_widths() -> None:
    values = [0, 1, *(n for k in range(1, 65) for n in ((1 << k) - 1, 1 << k) if n < 1 << 64)]
    numbers = np.array(values, np.uint64)
    assert varints(memoryview(encode_varints(numbers)), 0).tolist() == values
    assert encode_varints(numbers[:0]) == b""


def as_hex(data: bytes) -> str:
    return "\n".join(textwrap.wrap(data.hex(" ", -2), 79)) + "\n"


def test_the_format_has_not_changed(writer: Path, tmp_path: Path) -> None:
    """What files of version 1 hold, to the byte; a reader of any later version reads it."""
    golden = ROOT / "tests/golden/trace_format.hex"
    path = tmp_path / "t"
    subprocess.run([writer, path, "golden"], stdout=subprocess.PIPE, check=True, timeout=60)
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(as_hex(path.read_bytes()))
    assert as_hex(path.read_bytes()) == golden.read_text()
    trace = parse(memoryview(bytes.fromhex(golden.read_text())), "golden")
    assert trace.damage is None
    assert trace.header.command == ("prog", "-x")
    assert trace.header.start_realtime == 1_700_000_000_000_000_000
    assert trace.totals == Totals(24, 2, 1)
    assert trace.mappings.endswith("/prog\n")
    # the innermost first; both were called from the same two
    assert trace.stacks == {1: (0x401030, 0x401040, 0x401000), 2: (0x401230, 0x401040, 0x401000)}
    found = with_lifetimes(trace)
    assert found == read(writer, path)
    assert all(row[8] is None for row in found[:8])
    assert any(row[8] is not None for row in found[8:])


def test_what_is_no_trace_is_refused_with_one_line(tmp_path: Path) -> None:
    for content, why in ((b"", "empty"), (b"\x7fELF" + bytes(500), "no block"), (b"S", "cut off")):
        path = tmp_path / "x"
        path.write_bytes(content)
        with pytest.raises(StrataError, match=why):
            read_trace(path)
    with pytest.raises(StrataError, match="no such file"):
        read_trace(tmp_path / "missing")
