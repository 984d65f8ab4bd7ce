"""What the tools print where there is no terminal: no padding, no lines folded at an edge."""

from __future__ import annotations

import io
import sys

import pytest
from rich.table import Table
from test_cli import status_of

from strata.terminal import console


def test_a_pipe_gets_neither_padding_nor_folds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = Table("name", "what", box=None)
    table.add_row("a", "word " * 100)
    table.add_row("longer", "short")
    console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert [line for line in lines if line != line.rstrip()] == []
    console().print("two  spaces inside stay, " * 20)
    assert capsys.readouterr().out.count("\n") == 1


class Closed(io.StringIO):
    """A pipe that nobody reads on, as after head."""

    def write(self, _text: str, /) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("typed", ["--help", "explain", "--version"])
def test_who_reads_no_further_makes_it_no_finding(
    typed: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", Closed())
    assert status_of(monkeypatch, typed) == 141
    assert capfd.readouterr().err == ""


def test_an_unread_stderr_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", Closed())
    shown = console(stderr=True)
    shown.print("a note")
    shown.file.flush()
    print("a result")
    assert capsys.readouterr().out == "a result\n"


def test_a_width_that_is_asked_for_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    console().print("word " * 20)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40


def test_a_terminal_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    table = Table("name", "what", box=None)
    table.add_row("a", "b")
    table.add_row("longer", "short")
    console(width=40).print(table)
    assert any(line != line.rstrip() for line in shown.getvalue().splitlines())
