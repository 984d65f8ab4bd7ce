"""`strata pageutil` on programs whose page utilization is known by construction, and on commands
that end in every way."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from blackbox import ROOT, Lab, need
from strata.pageutil.emulate import emulate
from strata.pageutil.measure import Result
from strata.pageutil.measure import measure as compute
from strata.pageutil.shared import SharedFile

HERE = Path(__file__).resolve().parent
LAST = re.compile(r"page utilization: (\d+\.\d) % of ([\d,]+) pages")
PAGE = 4096
WITHIN = 0.02


@dataclass(frozen=True)
class Measured:
    status: int
    out: list[str]
    err: str
    folder: Path

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "pageutil.json").read_text())
        return found

    @property
    def heap(self) -> float:
        return float(self.json["heap"]["utilization"])


@pytest.fixture(scope="module")
def patterns(lab: Lab) -> Path:
    need("qemu-x86_64")
    return lab.build(HERE / "patterns.c")


def words(folder: Path, options: list[str], command: list[str | Path]) -> list[str]:
    head = [sys.executable, "-m", "strata", "pageutil", "-o", str(folder), *options, "--"]
    return [*head, *map(str, command)]


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    return kept | {"PYTHONPATH": str(ROOT / "python")} | more


def measure(folder: Path, *command: str | Path, options: list[str] | None = None,
            **more: str) -> Measured:  # fmt: skip
    done = subprocess.run(
        words(folder, options or [], list(command)),
        capture_output=True, text=True, check=False, timeout=120, env=environment(**more),
    )  # fmt: skip
    return Measured(done.returncode, done.stdout.splitlines(), done.stderr, folder)


def in_process(command: list[str], epoch: float, unit: str) -> tuple[int, Result]:
    """The measurement without its page."""
    file = os.memfd_create("test")
    try:
        done = emulate(command, None, file, epoch, unit)
        return done.outcome.status, compute(SharedFile(file), done.end_ns)
    finally:
        os.close(file)


@pytest.mark.parametrize(
    ("pattern", "pages", "unit", "expected"),
    [
        ("one", 30_000, "byte", 1 / 64),
        ("one", 30_000, "line", 1 / 64),
        ("second", 3000, "byte", 1 / 2),
        ("second", 3000, "line", 1 / 2),
        ("sweep", 2000, "byte", 1.0),
        ("sweep", 2000, "line", 1.0),
        ("across", 30_000, "line", 2 / 64),
        ("threads", 500, "byte", 1.0),
    ],
)
def test_known_patterns(
    patterns: Path, pattern: str, pages: int, unit: str, expected: float
) -> None:
    status, result = in_process([str(patterns), pattern, f"{pages}"], 10.0, unit)
    assert status == 0
    assert result.heap.utilization == pytest.approx(expected, rel=WITHIN)
    assert pages <= result.heap.pages <= pages + 60


def test_random_bytes_are_counted_once(patterns: Path, tmp_path: Path) -> None:
    pages = 3000
    done = measure(tmp_path, patterns, "random", f"{pages}")
    assert done.status == 0, done.err
    touched = int(done.out[0])
    assert done.heap == pytest.approx(touched / (pages * PAGE), rel=WITHIN)
    last = LAST.fullmatch(done.out[-1])
    assert last is not None
    assert float(last[1]) == pytest.approx(100 * done.heap, abs=0.051)
    assert int(last[2].replace(",", "")) == done.json["heap"]["pages"]
    page = (tmp_path / "index.html").read_text()
    assert "Page utilization" in page
    assert not re.search(r"(src|href)=\"http", page)
    assert (tmp_path / "pageutil.png").read_bytes().startswith(b"\x89PNG")
    found = {row["name"] for row in done.json["mappings"]}
    assert {"stack", "anonymous memory", "heap (brk)", str(patterns)} <= found
    assert any(name.endswith("/libc.so.6") for name in found)
    assert not {name for name in found if "unknown" in name}


def test_epochs_add_up(patterns: Path) -> None:
    _, result = in_process([str(patterns), "sweep", "16000"], 0.02, "byte")
    epochs = result.epochs
    assert len(epochs) > 2
    assert all(a.end == b.begin for a, b in pairwise(epochs))
    # each byte is touched once, so no epoch has another's; what comes beside it is the start's
    assert sum(epoch.use.bytes for epoch in epochs) == pytest.approx(16_000 * PAGE, rel=WITHIN)
    for epoch in epochs:
        assert epoch.cdf[-1] == (1.0 if epoch.use.pages else 0.0)
        assert epoch.cdf == sorted(epoch.cdf)
    assert result.heap.utilization == pytest.approx(1.0, rel=WITHIN)


def test_blocks_on_strata_by_size_and_stack(lab: Lab, patterns: Path, tmp_path: Path) -> None:
    library = lab.require_strata()
    options = ["--heap", "strata", "--lib", str(library)]
    done = measure(tmp_path, patterns, "blocks", "1", options=options)
    assert done.status == 0, done.err
    kinds = {kind["stack"][0]: kind for kind in done.json["types"] if kind["allocations"] == 4000}
    used, unused = kinds["MakeUsed"], kinds["MakeUnused"]
    assert used["size"] == unused["size"] == 512
    assert used["touched"] == pytest.approx(4000 * 512, rel=WITHIN)
    assert unused["touched"] < 4000 * 512 * 0.05  # links of free lists, at most
    assert unused["untouched"] > 4000 * 512 * 0.95
    (size,) = (row for row in done.json["size_classes"] if row["size"] == 512)
    assert size["utilization"] == pytest.approx(0.5, abs=0.03)
    assert "MakeUnused" in (tmp_path / "index.html").read_text()


def test_a_killed_program_leaves_its_results(patterns: Path) -> None:
    status, result = in_process([str(patterns), "second", "3000", "kill"], 10.0, "byte")
    assert status == 128 + signal.SIGKILL
    assert result.heap.utilization == pytest.approx(0.5, rel=WITHIN)


def test_a_stopped_server_leaves_its_results(patterns: Path, tmp_path: Path) -> None:
    number = signal.SIGTERM
    command = words(tmp_path, [], [patterns, "second", "3000", "sleep"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out = process.stdout.read().splitlines()
        assert process.wait(60) == 128 + number
    assert LAST.fullmatch(out[-1])
    assert Measured(0, out, "", tmp_path).heap == pytest.approx(0.5, rel=WITHIN)


def test_a_child_is_not_measured_and_that_is_told(patterns: Path, tmp_path: Path) -> None:
    done = measure(tmp_path, patterns, "second", "3000", "fork")
    assert done.status == 0
    assert done.heap == pytest.approx(0.5, rel=WITHIN)
    assert "started 1 other process, which was not measured" in done.err


def test_a_script_and_an_execute(patterns: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\nexec {patterns} one 10 fail\n")
    script.chmod(0o755)
    done = measure(tmp_path / "out", script, "word", options=["--json"])
    assert done.status == 7
    found = json.loads("\n".join(done.out))
    assert found["exit_status"] == 7
    assert found["command"] == [str(script), "word"]
    assert "page utilization:" in done.err
    assert "executed another program, which was not measured" in done.err


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def test_what_cannot_be_measured_is_one_line(lab: Lab, patterns: Path, tmp_path: Path) -> None:
    static = lab.build(HERE / "patterns.c", "-static", name="patterns-static")
    _, result = in_process([str(static), "second", "3000"], 10.0, "byte")
    assert result.heap.utilization == pytest.approx(0.5, rel=WITHIN)

    foreign = tmp_path / "foreign"
    data = bytearray(Path("/bin/true").read_bytes())
    struct.pack_into("<H", data, 18, 183)
    foreign.write_bytes(data)
    foreign.chmod(0o755)
    nothing = tmp_path / "empty"
    nothing.mkdir()
    cases: list[tuple[str | Path, int, str, dict[str, str]]] = [
        ("/no/such", 127, "/no/such: no such file or directory", {}),
        ("no-such-command", 127, "no-such-command: command not found", {}),
        (foreign, 126, f"{foreign}: not an x86-64 program", {}),
        (patterns, 2, "qemu-x86_64 not found: `make tools`", {"PATH": str(nothing)}),
    ]
    for command, status, message, more in cases:
        done = measure(tmp_path, command, options=[], **more)
        assert done.status == status
        assert len(lines(done.err)) == 1, done.err
        assert message in done.err
