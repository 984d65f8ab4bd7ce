"""The commands that reach into a process, as a user types them, on real processes."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from blackbox import ROOT, Lab, connect, free_port, missing, need, wait_until
from command import good, refused, strata
from reaching import CASES, started
from reaching import connect as connect_control


def wait_for_socket(pid: int) -> None:
    connect_control(pid).close()


def test_a_redis_server(lab: Lab, tmp_path: Path) -> None:
    lab.require_strata()
    port = free_port()
    command = (need("redis-server"), "--port", str(port), "--save", "", "--dir", tmp_path)
    with lab.start(*command, env={"STRATA_CONTROL": "always"}) as server:
        with connect(port, server) as link:
            link.sendall(b"DEBUG POPULATE 20000 key 100\r\n")
            assert link.recv(100)[:1] in b"+-"
        pid = server.pid
        wait_for_socket(pid)
        text = good("stats", pid)
        assert text.startswith("strata ") and f"pid {pid}" in text
        report = json.loads(good("stats", pid, "--format", "json"))
        assert report["pid"] == pid and report["bytes"]["live"] > 0
        assert "gave back" in good("release", pid)
        assert "gave back" in good("release", pid, "1M")
        assert good("get", pid, "release") == "on\n"
        assert good("set", pid, "release=off", "heap_limit=4G") == ""
        assert good("get", pid, "release") == "off\n"
        assert good("get", pid, "heap_limit") == "4294967296\n"
        assert "4294967296 (4.00 GiB)" in good("get", pid)
        taken = tmp_path / "heap.pb.gz"
        good("profile", pid, "-o", taken)
        # Debian's redis-server is a link to redis-check-rdb
        assert strata("top", taken).stdout.startswith("redis-server, inuse_space: ")
        listed = [line for line in good("ps").splitlines() if line.startswith(f"{pid} ")]
        assert len(listed) == 1 and "redis-server" in listed[0] and "reachable" in listed[0]
        assert server.poll() is None


def test_strata_run_stands_for_what_it_runs(lab: Lab) -> None:
    """Its pid is what a shell's $! says."""
    lab.require_strata()
    env = {"STRATA_CONTROL": "always", "PYTHONPATH": str(ROOT / "python")}
    command = (sys.executable, "-m", "strata", "run", "--", lab.build(CASES), "grow_and_sleep")
    with lab.start(*command, env=env, preload=False) as runner:
        assert runner.stdout is not None and "ready\n" in iter(runner.stdout.readline, "")
        child = int(Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text())
        wait_for_socket(child)
        assert f"pid {child}" in good("stats", runner.pid)


def test_watch_prints_again_and_again(lab: Lab) -> None:
    with started(lab, "grow_and_sleep") as (process, _):
        wait_for_socket(process.pid)
        env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        command = [sys.executable, "-m", "strata", "stats", str(process.pid), "--watch", "0.2"]
        watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        assert watch.stdout is not None
        lines = [watch.stdout.readline() for _ in range(4)]
        watch.send_signal(signal.SIGINT)
        watch.stdout.read()
        assert watch.wait(60) == 0
    assert lines[0].split() == [
        *("time", "resident", "live", "caches", "free", "released", "coverage", "misses/s")
    ]
    for number, line in enumerate(lines[1:]):
        assert re.match(r"\s*\d\d:\d\d:\d\d( +[\d.]+ ([KMGT]i)?B){5} +[\d.]+ % +[-\d,]+$", line)
        assert line.endswith(" -\n") == (number == 0), "the first look has none before it"


# ---- what it says when it cannot


def test_no_such_process() -> None:
    assert "no process 4194304" in refused("stats", "4194304")
    assert "no process is called" in refused("stats", "no-such-name")


def test_process_without_strata(lab: Lab) -> None:
    with lab.start("sleep", "30", preload=False) as process:
        assert "does not run on Strata" in refused("stats", process.pid)


def test_control_switched_off(lab: Lab) -> None:
    with started(lab, "grow_and_sleep", env={"STRATA_CONTROL": "off"}) as (process, _):
        assert "STRATA_CONTROL=off" in refused("release", process.pid)
        assert "off (STRATA_CONTROL=off)" in good("ps")


def test_thread_not_started_yet(lab: Lab) -> None:
    with started(lab, "tiny") as (process, _):
        assert "STRATA_CONTROL=always starts it at once" in refused("stats", process.pid)
        assert "no thread yet" in good("ps")


def test_mappings_that_may_not_be_seen(lab: Lab, client: Any, monkeypatch: Any) -> None:
    """Nothing is known then of the background thread of a library that may not be there."""
    with lab.start("sleep", "30", preload=False) as process:
        read = Path.read_bytes

        def deny(path: Path) -> bytes:
            if path.name == "maps":
                raise PermissionError(13, "Permission denied")
            return read(path)

        monkeypatch.setattr(Path, "read_bytes", deny)
        with pytest.raises(client.StrataError, match=r"cannot tell.* \(permission denied\)"):
            client.ask(client.Process(process.pid), "version")


def all_stopped(pid: int) -> bool:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return all("State:\tT" in (task / "status").read_text() for task in tasks)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module behind the commands, for what cannot be set up from outside."""
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    return importlib.import_module("strata.control")


def test_process_of_another_user(lab: Lab, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    with started(lab, "grow_and_sleep") as (process, _):
        found = client.Process(process.pid)
        with pytest.raises(client.StrataError, match=f"belongs to {found.user}: ask as"):
            client.ask(found, "version")


def test_stopped_process_is_not_waited_for_for_ever(
    lab: Lab, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE_SECONDS", 0.5)
    with started(lab, "grow_and_sleep") as (process, _):
        wait_for_socket(process.pid)
        process.send_signal(signal.SIGSTOP)
        assert wait_until(lambda: all_stopped(process.pid))
        with pytest.raises(client.StrataError, match="is it stopped"):
            client.ask(client.Process(process.pid), "version")


@contextlib.contextmanager
def squatter_of(lab: Lab, pid: int) -> Iterator[int]:
    """Another process that has taken the name that this one's socket would have."""
    squat = (
        "import socket, sys, time; s = socket.socket(socket.AF_UNIX);"
        "s.bind('\\0strata-control/' + sys.argv[1]); s.listen(); print('up', flush=True);"
        "time.sleep(30)"
    )
    with lab.start(sys.executable, "-c", squat, str(pid), preload=False) as impostor:
        assert impostor.stdout is not None and impostor.stdout.readline() == "up\n"
        yield impostor.pid


def test_impostor_is_not_asked(lab: Lab) -> None:
    with started(lab, "tiny") as (process, _), squatter_of(lab, process.pid) as impostor:
        assert f"process {impostor} listens in the place" in refused("stats", process.pid)


def test_process_whose_name_was_taken_is_reached_all_the_same(lab: Lab) -> None:
    with started(lab, "grow_when_told") as (process, _), squatter_of(lab, process.pid):
        process.send_signal(signal.SIGUSR1)
        sockets = Path("/proc/net/unix")
        wanted = f"@strata-control/{process.pid}."
        assert wait_until(lambda: wanted in sockets.read_text()), "it gave up"
        assert json.loads(good("stats", process.pid, "--format", "json"))["pid"] == process.pid


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("set", "1", "release"), "expected NAME=VALUE"),
        (("profile", "1", "--kind", "nonsense", "-o", "x"), "nonsense"),
        (("profile", "1", "-o", "/no/such/place/x"), "no such directory"),
        (("stats", "1", "--format", "xml"), "xml"),
    ],
    ids=str,
)
def test_wrong_use(arguments: Sequence[str], part: str) -> None:
    assert part in refused(*arguments)


def test_wrong_values_are_told_by_the_process(lab: Lab) -> None:
    with started(lab, "grow_and_sleep") as (process, _):
        wait_for_socket(process.pid)
        assert "release=7" in refused("set", process.pid, "release=7")
        assert "no such setting" in refused("set", process.pid, "nothing=7")
        assert "release takes bytes" in refused("release", process.pid, "much")


def child_of(pid: int) -> str:
    """The one child of a process, as soon as it is there."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    assert wait_until(lambda: children.read_text().split())
    return children.read_text().split()[0]


def wait_for_answers(pid: str) -> None:
    """Of a process whose socket has a name that cannot be seen from here."""
    assert wait_until(lambda: strata("get", pid, "release").returncode == 0)


def test_another_network_and_pid_namespace(lab: Lab) -> None:
    """As in a container: the process has another pid in there, and its own abstract names."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        missing("needs root and unshare")
    unshare = (need("unshare"), "--net", "--pid", "--fork", "--kill-child")
    with started(lab, "grow_and_sleep", prefix=unshare) as (process, _):
        inside = child_of(process.pid)
        wait_for_answers(inside)
        report = json.loads(good("stats", inside, "--format", "json"))
        assert report["pid"] == 1


def test_containers_that_share_a_network(lab: Lab) -> None:
    """Both processes are number 1 where they live, and want the same name."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        missing("needs root and unshare")
    unshare = (need("unshare"), "--pid", "--fork", "--kill-child")
    with contextlib.ExitStack() as stack:
        outer = [
            stack.enter_context(started(lab, "grow_and_sleep", prefix=unshare))[0] for _ in range(2)
        ]
        first, second = (child_of(process.pid) for process in outer)
        wait_for_answers(first)
        wait_for_answers(second)
        good("set", first, "heap_limit=1G")
        assert good("get", first, "heap_limit") == f"{1 << 30}\n"
        assert good("get", second, "heap_limit") == "0\n"
