"""Where outputs are written: through links of ours and of root, not those of others; as text that
any file's name can stand in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from profiles import heap
from test_cli import status_of

from strata.errors import StrataError
from strata.files import check_output, follow, write_file
from strata.pprof import dump
from strata.trace.annotate import write_whole

Link = Callable[[Path, Path], None]


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Link:
    """Makes a link that belongs to somebody else."""

    def link(place: Path, target: Path) -> None:
        place.symlink_to(target)
        if os.geteuid() == 0:
            os.lchown(place, 65534, 65534)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 65534)

    return link


def test_a_link_of_ours_stays_one(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to(tmp_path / "file")
    write_file(tmp_path / "one", "text")
    assert follow(tmp_path / "one") == tmp_path / "file"
    assert (tmp_path / "file").read_text() == "text"
    assert (tmp_path / "one").is_symlink()
    write_file(tmp_path / "one", b"x")
    assert (tmp_path / "file").read_bytes() == b"x"


def in_full(path: Path) -> None:
    write_file(path, "theirs")


def in_whole(path: Path) -> None:
    write_whole(path, [b"theirs"])


@pytest.mark.parametrize("there", [True, False])
def test_a_link_of_another_is_refused(tmp_path: Path, foreign: Link, there: bool) -> None:
    precious = tmp_path / "precious"
    if there:
        precious.write_text("mine")
    foreign(tmp_path / "link", precious)
    (tmp_path / "ours").symlink_to("link")
    for name in ("link", "ours"):
        for use in (follow, check_output, in_full, in_whole):
            with pytest.raises(StrataError, match="link: is a link of another user's"):
                use(tmp_path / name)
    assert precious.exists() == there
    assert not there or precious.read_text() == "mine"


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(StrataError, match="one: too many links"):
        write_file(tmp_path / "one", "")


def test_descriptors_are_no_links(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        write_file(Path(f"/dev/fd/{file.fileno()}"), "text")
    assert (tmp_path / "file").read_text() == "text"


def test_anybodys_link_to_a_standard_stream_serves(
    tmp_path: Path, foreign: Link, capfd: pytest.CaptureFixture[str]
) -> None:
    """As /dev/stdout looks in a user namespace, where root is nobody."""
    foreign(tmp_path / "stdout", Path("/proc/self/fd/1"))
    write_file(tmp_path / "stdout", "text")
    assert capfd.readouterr().out == "text"
    for other in (
        "/proc/self/fd/3",
        "/proc/self/fd/10",
        "/proc/1/fd/1",
        "/proc/self/fd/../environ",
        "/proc/self/environ",
    ):
        foreign(tmp_path / "link", Path(other))
        with pytest.raises(StrataError, match="link: is a link of another user's"):
            follow(tmp_path / "link")
        (tmp_path / "link").unlink()


COMMANDS = (
    "flame heap.pb.gz -o x.svg",
    "flame heap.pb.gz -o x.html",
    "diff heap.pb.gz heap.pb.gz -o x.svg",
    "symbolize heap.pb.gz -o x.pb.gz",
    "trace -o x.stb -- true",
    "lifetimes heap.pb.gz -o x.parquet",
    "simulate --generate jobs --save x.csv",
    "simulate --generate jobs -o x.png",
)


@pytest.mark.parametrize("typed", COMMANDS)
def test_no_command_writes_through_it(
    typed: str,
    foreign: Link,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    dump(heap({"main;work": 1000}), tmp_path / "heap.pb.gz")
    monkeypatch.setattr("strata.trace.command.find_tool", lambda _: Path("/bin/true"))
    name = next(word for word in typed.split() if word.startswith("x."))
    (tmp_path / "precious").write_text("mine")
    foreign(tmp_path / name, tmp_path / "precious")
    assert status_of(monkeypatch, typed) == 2
    assert capfd.readouterr().err.endswith(f"{name}: is a link of another user's\n")
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("name", ["x.svg", "x.html", "x.folded"])
def test_a_name_that_is_no_text_is_no_hindrance(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    strange = tmp_path / os.fsdecode(b"caf\xe9.pb.gz")
    dump(heap({"main;work": 1000}), strange)
    assert status_of(monkeypatch, f"flame {strange.name} -o {name}") == 0
    assert (tmp_path / name).read_text(encoding="utf-8")
