"""The profile writer of the run time seen from outside: its bytes are as agreed, the Python reader
reads back what it was told to write, and `go tool pprof` opens the result."""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, need
from pprof_tool import pprof
from strata.pprof import Label, Profile, ValueType, dump, load, parse
from strata.symbolize import Tool, symbolize

GOLDEN = Path(__file__).parent / "golden"
WRITER = Path(os.environ.get("STRATA_BUILD_DIR", ROOT / "build/release"), "tests/profile")
WORDS = ["bytes", "level", "page", "x", "a/b", "count", "nanoseconds", "ü"]


def write(text: str, *, cwd: Path | None = None) -> bytes:
    done = subprocess.run(
        [WRITER.absolute() / "write_profile"],
        input=text.encode(),
        capture_output=True,
        check=False,
        timeout=60,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def go_pprof(*arguments: str | Path) -> str:
    need("go")
    done = subprocess.run(
        [pprof(), *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_bytes_are_as_agreed() -> None:
    """The same rows give the same file, in each build. `make golden` rewrites it."""
    packed = write((GOLDEN / "writer.txt").read_text() + "maps maps.txt", cwd=GOLDEN)
    golden = GOLDEN / "writer.pb.gz"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        golden.write_bytes(packed)
    assert packed == golden.read_bytes()


def test_golden_means_what_was_written() -> None:
    profile = load(GOLDEN / "writer.pb.gz")
    assert profile.types == [ValueType("wasted_space", "bytes"), ValueType("inuse_space", "bytes")]
    assert profile.default_type == "wasted_space"
    assert profile.period == 2 << 20
    assert profile.comments == ["strata", "deleted or replaced while mapped: /srv/plugin v2.so"]
    assert [Path(m.file).name for m in profile.mappings] == [
        "server", "libc.so.6", "plugin v2.so", "anon",
    ]  # fmt: skip
    first, second, third, fourth, fifth, sixth = profile.samples
    assert first.stack[0] == third.stack[0]
    assert [place.address for place in first.stack] == [0x46000F, 0x451FFF, 0x7F10000280FF]
    assert first.stack[1].mapping is None  # the call before the first byte of code
    assert third.stack[1].file_address == 0x52000
    assert first.values == (65536, 128)
    assert second.labels == (
        Label("bytes", 64, "bytes"), Label("level", "hugepage"), Label("age_s", 3600, "seconds"),
    )  # fmt: skip
    assert fourth.stack[0].mapping is not None
    assert fourth.stack[0].mapping.file == "//anon"
    assert fifth.stack[0].mapping is not None
    assert sixth.stack[0].mapping is None  # one byte behind the code
    assert sixth.values == (2**63 - 1, -(2**63))


def test_go_tool_pprof_opens_the_golden() -> None:
    raw = go_pprof("-raw", GOLDEN / "writer.pb.gz")
    assert "wasted_space/bytes[dflt] inuse_space/bytes" in raw
    assert re.search(r"65536\s+128: 1 2 3", raw)
    assert "level:[hugepage]" in raw
    assert re.search(r"1: 0x452000/0x500000/0x52000 /usr/bin/server", raw)
    top = go_pprof("-top", "-sample_index=wasted_space", GOLDEN / "writer.pb.gz")
    assert "Type: wasted_space" in top


def random_rows(draw: random.Random) -> tuple[str, list[tuple[list[int], list[int], list[Label]]]]:
    types = draw.randrange(1, 12)
    lines = [f"type t{index} {draw.choice(WORDS)}" for index in range(types)]
    rows = []
    for _ in range(draw.choice([0, 1, 5, 60])):
        stack = [
            draw.choice([draw.getrandbits(64), 0x452000 + draw.randrange(1, 40), 1])
            for _ in range(draw.choice([0, 1, 3, 40]))
        ]
        values = [
            draw.choice([0, 1, -1, 2**63 - 1, -(2**63), draw.getrandbits(30)]) for _ in range(types)
        ]
        labels = [
            Label(draw.choice(WORDS), draw.choice(WORDS))
            if draw.random() < 0.5
            else Label(draw.choice(WORDS), draw.randrange(-(2**63), 2**63), draw.choice(WORDS))
            for _ in range(draw.randrange(4))
        ]
        rows.append((stack, values, labels))
        words = ["row", len(stack), *stack, *values, len(labels)]
        for label in labels:
            if isinstance(label.value, str):
                words += [label.key, "text", label.value]
            else:
                words += [label.key, "number", label.value, label.unit]
        lines.append(" ".join(map(str, words)))
    return "\n".join(lines), rows


def test_the_reader_reads_what_the_writer_wrote() -> None:
    draw = random.Random(5)
    for _ in range(80):
        text, rows = random_rows(draw)
        profile = parse(write(f"{text}\nmaps {GOLDEN / 'maps.txt'}"))
        assert len(profile.samples) == len(rows)
        for sample, (stack, values, labels) in zip(profile.samples, rows, strict=True):
            assert [place.address for place in sample.stack] == [max(a - 1, 0) for a in stack]
            assert list(sample.values) == values
            assert list(sample.labels) == labels
            for place in sample.stack:
                if place.mapping is not None:
                    assert place.mapping.start <= place.address < place.mapping.limit


@pytest.fixture(scope="module")
def landmarks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile whose stacks lie in the program that wrote it."""
    path = tmp_path_factory.mktemp("landmarks") / "heap.pb.gz"
    path.write_bytes(
        write("type inuse_space bytes\nrow 3 @0 @1 @2 4096 0\nrow 2 @3 @2 1024 0\nrow 1 0x10 7 0")
    )
    return path


@pytest.mark.parametrize("tool", Tool)
def test_names_are_found_outside_of_the_process(landmarks: Path, tool: Tool) -> None:
    complaints: list[str] = []
    profile = symbolize(load(landmarks), tool=tool, warn=complaints.append)
    assert complaints == []
    names = [[re.sub(r".*(Landmark<\d>).*", r"\1", name) for name in sample.names()]
             for sample in profile.samples]  # fmt: skip
    assert names == [
        ["Landmark<2>", "Landmark<1>", "Landmark<0>"], ["Landmark<2>", "Landmark<3>"], ["0xf"],
    ]  # fmt: skip
    assert symbolize(profile, tool=tool) == profile


def test_go_tool_pprof_shows_the_names(landmarks: Path, tmp_path: Path) -> None:
    named = tmp_path / "named.pb.gz"
    dump(symbolize(load(landmarks)), named)
    top = go_pprof("-top", named)
    assert re.search(r"4096B\s+79\.\d+%.*Landmark<0>", top) or re.search(r"4.*Landmark<0>", top)
    assert "Type: inuse_space" in top


def another_build(profile: Profile) -> Profile:
    for mapping in profile.mappings:
        object.__setattr__(mapping, "build_id", "00" * 20)
    return profile


def test_another_build_is_not_asked(landmarks: Path) -> None:
    complaints: list[str] = []
    profile = symbolize(another_build(load(landmarks)), warn=complaints.append)
    assert len(complaints) == 1
    assert "is not the file that ran" in complaints[0]
    assert profile.samples[0].names()[0].startswith("write_profile+0x")


def test_the_build_id_is_the_files(landmarks: Path) -> None:
    notes = subprocess.run(
        ["readelf", "-n", WRITER / "write_profile"], capture_output=True, text=True, check=True
    ).stdout
    assert f"Build ID: {load(landmarks).mappings[0].build_id}\n" in notes
