"""The CPU profile of a report: from perf's addresses to a profile, and perf that is absent, refuses
or, where it is installed, watches a real process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from strata.errors import StrataError
from strata.processes import Process
from strata.report import cpu_profile

OURS = Process(os.getpid())
MAPS = """\
00400000-00401000 r--p 00000000 fd:01 1  /bin/server
00401000-00500000 r-xp 00001000 fd:01 1  /bin/server
00700000-00800000 rw-p 00000000 00:00 0  [heap]
7f1000000000-7f1000010000 r-xp 00002000 fd:01 2  /opt/my libs/libstrata.so.0.1.0
7f1000020000-7f1000030000 r-xp 00000000 fd:01 3  /lib/gone.so (deleted)
7fff00000000-7fff00001000 rwxp 00000000 00:00 0
"""


def test_addresses_become_samples() -> None:
    inside, server, gone, jit = 0x7F1000000010, 0x401000, 0x7F1000020000, 0x7FFF00000000
    seen = [inside, inside, inside + 1, server, 0x4FFFFF, gone, jit, 0x700000, 0xFFFFFFFF81000000]
    profile = cpu_profile.make(seen, cpu_profile.code_of(MAPS), 2.5)
    found = {
        (sample.label("file"), sample.stack[0].address if sample.stack[0].mapping else None):
        sample.values[0] for sample in profile.samples
    }  # fmt: skip
    assert found == {
        ("libstrata.so", inside): 2, ("libstrata.so", inside + 1): 1, ("server", None): 2,
        ("gone.so", None): 1, (cpu_profile.NOWHERE, None): 3,
    }  # fmt: skip
    (mapping,) = profile.mappings
    assert mapping.file == "/opt/my libs/libstrata.so.0.1.0"
    assert profile.samples[0].stack[0].file_address == 0x2010
    assert profile.samples[0].values[1] == 2 * profile.period
    assert profile.duration_ns == 2_500_000_000


def fake_perf(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "perf").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_without_perf_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StrataError, match="perf is not installed"):
        cpu_profile.record(OURS, 1)


def test_what_perf_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_perf(tmp_path, monkeypatch, "echo; echo 'Error: no permission' >&2; exit 255")
    with pytest.raises(StrataError, match="perf failed: Error: no permission"):
        cpu_profile.record(OURS, 1)


def test_what_is_no_address_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_perf(tmp_path, monkeypatch, 'test "$1" = record || printf "  40 \\n[unknown] zz\\n10\\n"')
    profile = cpu_profile.record(OURS, 1)
    assert [sample.values[0] for sample in profile.samples] == [2]


def test_a_real_process() -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    busy = subprocess.Popen([sys.executable, "-c", "while True: sum(range(1000))"])
    try:
        profile = cpu_profile.record(Process(busy.pid), 1)
    except StrataError as error:
        pytest.skip(f"perf may not be used here: {error}")
    finally:
        busy.kill()
        busy.wait()
    assert sum(sample.values[0] for sample in profile.samples) > 0
    assert any("python" in str(sample.label("file")) for sample in profile.samples)
