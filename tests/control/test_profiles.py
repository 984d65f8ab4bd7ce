"""Profiles of running processes: on the socket, at exit, on a signal; read back as pprof does."""

from __future__ import annotations

import contextlib
import gzip
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from blackbox import ROOT, Lab, wait_until
from command import good, refused
from reaching import ask_raw, body_of, connect, key_of, receive_all

PROGRAM = Path(__file__).resolve().parent / "profile_cases.c"
KINDS = ("heap", "allocs", "peak", "lifetime", "fragmentation")
SAMPLE = {"STRATA_SAMPLE": "64K"}


def start(lab: Lab, case: str, env: dict[str, str] | None = None) -> Any:
    """A case of profile_cases.c; wait_ready gives it back once it is ready."""
    lab.require_strata()
    return lab.start(lab.build(PROGRAM), case, env={**SAMPLE, **(env or {})})


def wait_ready(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    connect(process.pid).close()
    return process.pid


def parsed(data: bytes) -> Any:
    sys.path.insert(0, str(ROOT / "python"))
    from importlib import import_module

    return import_module("strata.pprof").parse(data)


def totals(data: bytes) -> dict[str, int]:
    """The sum of each value of a profile."""
    profile = parsed(gzip.decompress(data))
    return {
        kind.type: sum(sample.values[i] for sample in profile.samples)
        for i, kind in enumerate(profile.types)
    }


def profile(pid: int, request: str) -> dict[str, int]:
    return totals(body_of(ask_raw(pid, b"profile " + request.encode())))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(lab: Lab, kind: str) -> None:
    with start(lab, "hold") as process:
        assert profile(wait_ready(process), kind)


def test_live_heap_is_what_the_program_holds(lab: Lab) -> None:
    with start(lab, "hold") as process:
        live = profile(wait_ready(process), "heap")["inuse_space"]
    assert live == pytest.approx(32 << 20, rel=0.25)


@pytest.mark.parametrize("case", ["hold", "sleep_and_hold"])
def test_stacks_of_the_first_samples_are_whole(lab: Lab, case: str) -> None:
    """Without an option, and before any table is made: a server that loads data as it starts."""
    with start(lab, case, {"STRATA_SAMPLE": ""}) as process:
        data = gzip.decompress(body_of(ask_raw(wait_ready(process), b"profile heap")))
    samples = parsed(data).samples
    assert samples
    # HoldsMemory, Hold, the case, main, and two of libc.
    assert min(len(sample.stack) for sample in samples) >= 5


def test_window_sees_only_what_happens_in_it(lab: Lab) -> None:
    with start(lab, "churn") as process:
        pid = wait_ready(process)
        begin = time.monotonic()
        seen = profile(pid, "allocs 1")
        assert time.monotonic() - begin > 0.95
        since_start = profile(pid, "allocs")["alloc_space"]
    assert 2 << 20 < seen["alloc_space"] < since_start - (16 << 20)


def test_others_are_answered_while_a_window_is_open(lab: Lab) -> None:
    with start(lab, "hold") as process:
        pid = wait_ready(process)
        with connect(pid) as window, connect(pid) as short:
            window.sendall(key_of(pid) + b"profile heap 3600\n")
            short.sendall(key_of(pid) + b"profile heap 1\n")
            assert ask_raw(pid, b"version").startswith(b"ok ")
            assert totals(body_of(receive_all(short)))["inuse_space"] < 8 << 20
            assert select.select([window], [], [], 0)[0] == []


def test_window_of_a_client_that_leaves_is_dropped(lab: Lab) -> None:
    """Its slot is free at once: more windows are begun than there are slots."""
    with start(lab, "hold") as process:
        pid = wait_ready(process)
        for _ in range(12):
            with connect(pid) as window:
                window.sendall(key_of(pid) + b"profile heap 3600\n")
        assert ask_raw(pid, b"version").startswith(b"ok ")


def test_open_windows_keep_nobody_out(lab: Lab) -> None:
    """More of them than there are slots wait; one too many is told so."""
    with start(lab, "hold") as process, contextlib.ExitStack() as stack:
        pid = wait_ready(process)
        windows = [stack.enter_context(connect(pid)) for _ in range(8)]
        for window in windows:
            window.sendall(key_of(pid) + b"profile heap 3600\n")
        assert ask_raw(pid, b"version").startswith(b"ok ")
        assert ask_raw(pid, b"profile heap 3600").startswith(b"error as many profiles")
        assert ask_raw(pid, b"profile heap").startswith(b"ok ")


def test_command_writes_a_file(lab: Lab, tmp_path: Path) -> None:
    with start(lab, "hold") as process:
        pid = wait_ready(process)
        path = tmp_path / "heap.pb.gz"
        assert f"heap profile of process {pid}" in good("profile", pid, "-o", path)
        assert totals(path.read_bytes())["inuse_space"] > 16 << 20
        asked, read = (good("top", source).splitlines() for source in (pid, path))
        assert re.match("profile_cases.*, inuse_space: ", asked[0])
        assert asked[2].split()[-2:] == read[2].split()[-2:], "the same function owns most"
        assert ", space: " in good("top", pid, "--kind", "lifetime").splitlines()[0]
        assert "you named neither" in refused("top", path, "--kind", "heap")
        assert "No such file, and no process 0" in refused("top", "0")
        good("set", pid, "sample=0")
        assert good("get", pid, "sample") == "0\n"


def test_sampling_that_was_never_on_is_said(lab: Lab, tmp_path: Path) -> None:
    with start(lab, "hold", {"STRATA_SAMPLE": "0"}) as process:
        pid = wait_ready(process)
        assert "sampling is off" in refused("profile", pid, "-o", tmp_path / "x")
        assert not (tmp_path / "x").exists()


# ---- by the environment


def test_at_exit(lab: Lab, tmp_path: Path) -> None:
    lab.require_strata()
    env = {**SAMPLE, "STRATA_PROFILE": f"allocs:{tmp_path}/p-%p.pb.gz"}
    lab.run(lab.build(PROGRAM), "hold_and_end", env=env).silent()
    (path,) = tmp_path.iterdir()
    assert path.name.removeprefix("p-").removesuffix(".pb.gz").isdecimal()
    assert totals(path.read_bytes())["alloc_space"] == pytest.approx(32 << 20, rel=0.25)


def test_profile_says_what_the_process_is_called(lab: Lab, tmp_path: Path) -> None:
    """As it was started, which may be by a link; titles of pages come from it."""
    lab.require_strata()
    link = tmp_path / "billing-server"
    link.symlink_to(lab.build(PROGRAM))
    env = {**SAMPLE, "STRATA_PROFILE": f"heap:{tmp_path}/heap.pb.gz"}
    lab.run(link, "hold_and_end", env=env).silent()
    link.unlink()
    assert good("top", tmp_path / "heap.pb.gz").startswith("billing-server, inuse_space: ")
    good("report", tmp_path, "-o", tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<title>Memory of billing-server</title>" in page


def test_at_exit_of_parent_and_child(lab: Lab, tmp_path: Path) -> None:
    lab.require_strata()
    env = {**SAMPLE, "STRATA_PROFILE": f"heap:{tmp_path}/%p"}
    lab.run(lab.build(PROGRAM), "forks_and_ends", env=env).silent()
    assert len(list(tmp_path.iterdir())) == 2


def test_temporary_of_another_process_is_left_alone(lab: Lab, tmp_path: Path) -> None:
    lab.require_strata()
    other = tmp_path / "p.tmp"
    other.write_text("of another process")
    env = {**SAMPLE, "STRATA_PROFILE": f"heap:{tmp_path}/p"}
    lab.run(lab.build(PROGRAM), "hold_and_end", env=env).silent()
    assert other.read_text() == "of another process"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p", "p.tmp"]


def test_temporary_of_a_process_of_the_same_number_is_left_alone(lab: Lab, tmp_path: Path) -> None:
    """In another container, on the same volume: both are process 1."""
    lab.require_strata()
    script = f'echo theirs > {tmp_path}/p.$$.tmp; exec "$0" hold_and_end'
    env = {**SAMPLE, "STRATA_PROFILE": f"heap:{tmp_path}/p"}
    lab.run("/bin/sh", "-c", script, lab.build(PROGRAM), env=env).silent()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2 and names[0] == "p"
    assert (tmp_path / names[1]).read_text() == "theirs\n"


def test_path_that_cannot_be_written_is_one_line(lab: Lab) -> None:
    lab.require_strata()
    env = {**SAMPLE, "STRATA_PROFILE": "heap:/no/such/place"}
    result = lab.run(lab.build(PROGRAM), "hold_and_end", env=env)
    assert result.returncode == 0, result.explain()
    assert result.strata_lines() == [
        "strata: can't write a profile to /no/such/place: No such file or directory"
    ]


def test_is_rewritten_for_a_program_that_is_killed(lab: Lab, tmp_path: Path) -> None:
    env = {"STRATA_PROFILE": f"heap:{tmp_path}/p-%p", "STRATA_PROFILE_INTERVAL": "1"}
    with start(lab, "hold", env) as process:
        wait_ready(process)
        path = tmp_path / f"p-{process.pid}"
        assert wait_until(path.exists)
        first = path.stat().st_ino
        assert wait_until(lambda: path.stat().st_ino != first), "it is replaced whole each time"
        process.kill()
        process.wait()
    assert list(tmp_path.iterdir()) == [path]
    assert totals(path.read_bytes())["inuse_space"] > 16 << 20


def test_on_a_signal(lab: Lab, tmp_path: Path) -> None:
    env = {"STRATA_PROFILE": f"heap:{tmp_path}/p", "STRATA_PROFILE_SIGNAL": "12"}
    with start(lab, "hold", env) as process:
        wait_ready(process)
        took = []
        for number in range(1, 7):
            begin = time.monotonic()
            process.send_signal(signal.SIGUSR2)
            path = tmp_path / f"p.{number}"
            assert wait_until(path.exists), list(tmp_path.iterdir())
            took.append(time.monotonic() - begin)
            assert totals(path.read_bytes())["inuse_space"] > 16 << 20
        assert process.poll() is None
    # A thread that is not woken writes at its ticks, and every wait but the first begins after one.
    assert min(took[1:]) < 0.8, f"the thread was not woken: {took}"


def test_signal_without_the_background_thread(lab: Lab, tmp_path: Path) -> None:
    """Nobody is there to write; the signal does no harm, and the start says so."""
    env = {"STRATA_PROFILE": f"heap:{tmp_path}/p", "STRATA_PROFILE_SIGNAL": "12"}
    with start(lab, "hold", env | {"STRATA_BACKGROUND": "off"}) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR2)
        time.sleep(0.1)
        assert process.poll() is None
        process.kill()
        assert process.stderr is not None
        assert "STRATA_BACKGROUND=off" in process.stderr.read()


def test_program_that_takes_the_signal_later_has_it(lab: Lab, tmp_path: Path) -> None:
    env = {"STRATA_PROFILE": f"heap:{tmp_path}/p", "STRATA_PROFILE_SIGNAL": "12"}
    with start(lab, "takes_the_signal", env) as process:
        wait_ready(process)
        for _ in range(3):
            process.send_signal(signal.SIGUSR2)
            assert process.stdout is not None and process.stdout.readline() == "mine\n"
        time.sleep(1.2)
        assert list(tmp_path.iterdir()) == []


def test_program_that_waits_for_the_signal_gets_it(lab: Lab, tmp_path: Path) -> None:
    env = {"STRATA_PROFILE": f"heap:{tmp_path}/p", "STRATA_PROFILE_SIGNAL": "12"}
    with start(lab, "waits_for_the_signal", env) as process:
        wait_ready(process)
        for _ in range(3):
            process.send_signal(signal.SIGUSR2)
            assert process.stdout is not None and process.stdout.readline() == "mine\n"
        assert process.wait(60) == 0


def test_signal_that_is_ignored_is_left_alone(lab: Lab, tmp_path: Path) -> None:
    env = {"STRATA_PROFILE": f"heap:{tmp_path}/p", "STRATA_PROFILE_SIGNAL": "12"}
    shell = ("sh", "-c", "trap '' USR2; exec \"$0\" hold_and_end", lab.build(PROGRAM))
    result = lab.run(*shell, env={**SAMPLE, **env})
    assert result.returncode == 0
    assert any(
        "ignores or handles this signal; left alone" in line for line in result.strata_lines()
    )
