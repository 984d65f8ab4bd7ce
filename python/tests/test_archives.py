"""Static libraries whose bytes are anybody's: what lint reads of them."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from strata.errors import StrataError
from strata.lint import units
from strata.lint.archives import ARCHIVE, THIN, members, note_behind

LLVM = b"BC\xc0\xde"


def header(name: str, size: str) -> bytes:
    return f"{name:16}{'':32}{size:10}`\n".encode()


def read(path: Path, lost: list[Path] | None = None) -> list[bytes]:
    return [bytes(member) for member in members(path, [] if lost is None else lost)]


@pytest.mark.parametrize("size", ["-60", "+4", "4_0", "", "1x"])
def test_a_size_that_is_none_ends_the_archive(size: str, tmp_path: Path) -> None:
    path = tmp_path / "lib.a"
    path.write_bytes(ARCHIVE + header("a.o/", "4") + b"abcd" + header("b.o/", size) + b"efgh")
    assert read(path) == [b"abcd"]


def thin(path: Path, *names: str) -> None:
    path.write_bytes(THIN + b"".join(header(f"{name}/", "4") for name in names))


def test_a_missing_member_of_a_thin_archive_hides_no_other(tmp_path: Path) -> None:
    thin(tmp_path / "lib.a", "a.o", "gone.o", "none.o", "b.o")
    for name in ("a", "b"):
        bitcode = tmp_path / f".{name}.o.bc"
        bitcode.write_bytes(LLVM)
        (tmp_path / f"{name}.o").write_bytes(LLVM + note_behind(os.fsencode(bitcode)))
    (tmp_path / "none.o").write_bytes(b"")
    lost: list[Path] = []
    assert len(read(tmp_path / "lib.a", lost)) == 2
    assert lost == [tmp_path / "gone.o"]
    for place in (tmp_path / "lib.a", tmp_path):
        (program,) = units.find(place)
        assert program.bitcode == (tmp_path / ".a.o.bc", tmp_path / ".b.o.bc")
        assert program.lost == (tmp_path / "gone.o",)


def test_a_library_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "lib.a"
    with path.open("wb") as file:
        file.write(ARCHIVE)
        for at in (0, 1):
            file.write(header(f"{at}.o/", str(64 << 20)))
            file.seek(64 << 20, 1)
        file.write(header("c.o/", "4") + b"abcd")
    tracemalloc.start()
    assert [len(member) for member in members(path, [])] == [64 << 20, 64 << 20, 4]
    assert units.read_archive(path) is None
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20


def test_bitcode_whose_objects_are_gone_is_no_program(tmp_path: Path) -> None:
    (tmp_path / ".a.o.bc").write_bytes(LLVM)
    (tmp_path / ".b.o.bc").write_bytes(LLVM)
    (tmp_path / "b.o").write_bytes(b"\x7fELF\x02 of another compiler")
    with pytest.raises(StrataError, match="objects of its bitcode are gone"):
        units.find(tmp_path)


def test_an_object_with_an_offset_beyond_all_addresses_is_none(tmp_path: Path) -> None:
    """Fuzzers leave such files in source trees."""
    path = tmp_path / "seed.o"
    data = bytearray(b"\x7fELF\x02\x01\x01" + bytes(121))
    data[40:48] = (2**64 - 256).to_bytes(8, "little")
    data[58:62] = b"\x40\0\x01\0"
    path.write_bytes(bytes(data))
    assert units.read_made(path) is None
