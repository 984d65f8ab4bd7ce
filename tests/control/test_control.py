"""The control socket of real processes: whoever they are, they answer; whoever asks, they live."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from blackbox import TESTS, Lab, missing, need, status_kib, wait_until
from reaching import (
    CASES,
    PATIENCE_SECONDS,
    ask_raw,
    body_of,
    connect,
    crowd,
    key_of,
    receive_all,
    started,
)

DENY = TESTS / "edge" / "deny.c"


def stats(pid: int) -> dict[str, object]:
    report: dict[str, object] = json.loads(body_of(ask_raw(pid, b"stats json")))
    return report


def has_socket(pid: int) -> bool:
    name = f"@strata-control/{pid}"
    return any(
        line.endswith(" " + name) for line in Path("/proc/net/unix").read_text().splitlines()
    )


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def descriptors(pid: int) -> list[str]:
    return sorted(path.name for path in Path(f"/proc/{pid}/fd").iterdir())


@pytest.mark.parametrize("case", ["grow_and_sleep", "close_everything", "descriptor_numbers"])
def test_process_that_never_allocates_again_answers(lab: Lab, case: str) -> None:
    with started(lab, case) as (process, _):
        assert stats(process.pid)["pid"] == process.pid


def test_every_request(lab: Lab) -> None:
    with started(lab, "grow_and_sleep") as (process, _):
        pid = process.pid
        assert body_of(ask_raw(pid, b"stats text")).startswith(b"strata ")
        assert body_of(ask_raw(pid, b"stats\r")).startswith(b"{")  # as typed into a terminal tool
        assert int(body_of(ask_raw(pid, b"release 1M"))) >= 0
        assert body_of(ask_raw(pid, b"get release")) == b"release=on\n"
        assert body_of(ask_raw(pid, b"set release=off")) == b""
        assert b"release=off\n" in body_of(ask_raw(pid, b"get"))
        assert b"release=off\ton|off\t" in body_of(ask_raw(pid, b"options"))
        assert body_of(ask_raw(pid, b"version")).strip().count(b".") == 2
        for wrong in (b"", b"nonsense", b"set release=7", b"set nothing=1", b"get nothing"):
            assert ask_raw(pid, wrong).startswith(b"error "), wrong


def test_heap_limit_is_set_and_lifted(lab: Lab) -> None:
    with started(lab, "grow_and_sleep") as (process, _):
        assert body_of(ask_raw(process.pid, b"set heap_limit=64M")) == b""
        assert body_of(ask_raw(process.pid, b"get heap_limit")) == b"heap_limit=67108864\n"
        assert body_of(ask_raw(process.pid, b"set heap_limit=0")) == b""


def test_daemon_answers(lab: Lab) -> None:
    with started(lab, "daemonize") as (_, lines):
        pid = int(lines[0])
        try:
            assert stats(pid)["pid"] == pid
        finally:
            os.kill(pid, 9)


def test_child_has_its_own_socket(lab: Lab) -> None:
    with started(lab, "fork_and_grow") as (process, lines):
        child = int(lines[0])
        assert stats(child)["pid"] == child
        assert stats(process.pid)["pid"] == process.pid


def test_child_that_may_become_another_program_gets_no_thread(lab: Lab) -> None:
    for _ in range(5):
        with started(lab, "fork_and_allocate_at_once") as (_, lines):
            if lines != ["too slow"]:
                assert lines == ["1"]
                return
    pytest.skip("the machine is too loaded to tell")


def test_exec_leaves_nothing_behind(lab: Lab) -> None:
    with started(lab, "exec_tiny") as (process, _):
        assert not has_socket(process.pid)


def test_descriptors_have_the_numbers_they_have_without_us(lab: Lab) -> None:
    with started(lab, "descriptor_numbers") as (process, ours):
        assert wait_until(lambda: has_socket(process.pid))
        opened = descriptors(process.pid)
    with started(lab, "descriptor_numbers", env={"LD_PRELOAD": ""}) as (process, plain):
        assert not has_socket(process.pid)
        assert opened == descriptors(process.pid)
    assert ours == plain


def test_buffered_output_is_flushed_when_main_has_left(lab: Lab) -> None:
    program = lab.build(CASES)
    result = lab.run(program, "main_leaves").ok()
    assert result.stdout == "kept in a buffer until exit\n"


# ---- when it is there, and when not


def test_tiny_program_gets_no_thread(lab: Lab) -> None:
    with started(lab, "tiny") as (process, _):
        time.sleep(0.3)
        assert threads(process.pid) == 1
        assert not has_socket(process.pid)


def test_always_means_from_the_start(lab: Lab) -> None:
    with started(lab, "tiny", env={"STRATA_CONTROL": "always"}) as (process, _):
        assert stats(process.pid)["pid"] == process.pid


@pytest.mark.parametrize("env", [{"STRATA_CONTROL": "off"}, {"STRATA_BACKGROUND": "off"}])
def test_off_means_no_socket(lab: Lab, env: dict[str, str]) -> None:
    with started(lab, "grow_and_sleep", env=env) as (process, _):
        time.sleep(0.3)
        assert not has_socket(process.pid)
        assert threads(process.pid) == (1 if "STRATA_BACKGROUND" in env else 2)


ALONE = {"STRATA_CONTROL": "off", "STRATA_RELEASE": "off"}


def test_thread_has_other_duties_than_release(lab: Lab) -> None:
    """It looks after limits and cache sizes in a process that nobody may ask."""
    with started(lab, "grow_large", env=ALONE) as (process, _):
        assert wait_until(lambda: threads(process.pid) == 2)


def test_setting_that_needs_the_thread_gets_it(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    env = {**ALONE, "STRATA_STATS": str(path)}
    with started(lab, "set_an_interval_later", env=env):
        assert wait_until(path.exists)
        assert json.loads(path.read_text())["bytes"]["live"] > 0


def processor_seconds(pid: int) -> float:
    """Of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_thread_that_may_not_poll_does_not_spin(lab: Lab) -> None:
    with started(lab, "no_descriptors") as (process, _):
        before = processor_seconds(process.pid)
        time.sleep(2.5)
        assert processor_seconds(process.pid) - before < 0.15


def stderr_until(process: subprocess.Popen[str], text: str) -> Iterator[str]:
    """The lines of a running process up to the one that has a text; none for the empty text."""
    assert process.stderr is not None
    end = threading.Timer(PATIENCE_SECONDS, process.kill)  # which ends its stderr
    end.start()
    line = ""
    while text not in line:
        line = process.stderr.readline()
        assert line, f"it never said {text}"
        yield line
    end.cancel()


@pytest.mark.parametrize(
    ("rules", "reachable"),
    [
        (["close_range:ENOSYS"], True),
        (["close_range:EPERM", "unshare:EPERM"], False),
        (["socket:EACCES"], False),
        (["bind:EPERM"], False),
        (["memfd_create:EPERM"], False),
    ],
)
def test_refused_system_calls(lab: Lab, rules: list[str], reachable: bool) -> None:
    deny = lab.build(DENY)
    prefix: tuple[str | Path, ...] = (deny, *rules, "--")
    env = {"STRATA_VERBOSE": "1", "STRATA_CONTROL": "always"}  # there is a filter
    with started(lab, "close_everything", env=env, prefix=prefix) as (process, _):
        if reachable:
            assert stats(process.pid)["pid"] == process.pid
        said = list(stderr_until(process, "" if reachable else "control is off"))
        if not reachable:
            assert not has_socket(process.pid)
            assert threads(process.pid) == 2
        process.kill()
        assert process.stderr is not None
        said += process.stderr.read().splitlines()
    assert sum("control is off" in line for line in said) == (0 if reachable else 1), said


# ---- clients


def test_many_clients_at_once(lab: Lab) -> None:
    """None waits for the thread's next tick: together that would be minutes."""
    with started(lab, "grow_and_sleep") as (process, _), ThreadPoolExecutor(20) as pool:
        connect(process.pid).close()
        begin = time.monotonic()
        answers = list(pool.map(lambda _: stats(process.pid)["pid"], range(400)))
        assert answers == [process.pid] * 400
        assert time.monotonic() - begin < 60


def test_clients_that_misbehave_harm_nothing(lab: Lab) -> None:
    with started(lab, "grow_and_sleep") as (process, _):
        pid = process.pid
        assert stats(pid)["pid"] == pid  # the thread is there, and its stack
        before = status_kib(pid, "VmRSS")
        question = key_of(pid) + b"stats json\n"
        for _ in range(50):
            for sent in (b"\0\xff" * 400, b"stats js", b"x" * 5000, b"", question):
                # garbage, half a line, too long, nothing, a question whose answer is not read
                with connect(pid) as link, contextlib.suppress(BrokenPipeError):
                    link.sendall(sent)
        assert stats(pid)["pid"] == pid
        assert ask_raw(pid, b"y" * 5000).startswith(b"error the request is longer")
        assert process.poll() is None
        assert status_kib(pid, "VmRSS") < before + 2048


def test_client_that_only_shuts_its_half_gets_its_answer(lab: Lab) -> None:
    with started(lab, "grow_and_sleep") as (process, _), connect(process.pid) as link:
        link.sendall(key_of(process.pid) + b"version\n")
        link.shutdown(socket.SHUT_WR)
        assert receive_all(link).startswith(b"ok ")


def ticks(pid: int) -> int:
    background = stats(pid)["background"]
    assert isinstance(background, dict)
    return int(background["ticks"])


def test_ticks_go_on_while_a_client_reads_nothing(lab: Lab) -> None:
    with started(lab, "grow_and_sleep") as (process, _), connect(process.pid) as idle:
        idle.sendall(key_of(process.pid) + b"stats json\n")
        first = ticks(process.pid)
        assert wait_until(lambda: ticks(process.pid) > first)


# ---- who may ask

AS_ANOTHER = r"""
import os, socket, sys
os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
s = socket.socket(socket.AF_UNIX)
s.connect("\0strata-control/" + sys.argv[1])
try:
    s.sendall(b"stats json\n")
except BrokenPipeError:
    pass
print(s.recv(300).decode())
"""


def ask_as(user: int, pid: int) -> str:
    if os.geteuid() != 0:
        missing("needs root to become somebody else")
    done = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER, str(pid), str(user)],
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
    )
    return done.stdout + done.stderr


def test_another_user_is_refused(lab: Lab) -> None:
    with started(lab, "grow_and_sleep") as (process, _):
        connect(process.pid).close()
        assert ask_as(65534, process.pid).startswith("error only the user of this process")


def test_another_user_keeps_nobody_out(lab: Lab) -> None:
    """Silent connections of somebody who may not ask hold no slot; each would for ten seconds."""
    if os.geteuid() != 0:
        missing("needs root to become somebody else")
    with started(lab, "grow_and_sleep") as (process, _):
        connect(process.pid).close()
        other = crowd(process.pid, 65534)
        with lab.start(*other, preload=False) as silent:
            assert silent.stdout is not None and silent.stdout.readline() == "up\n"
            begin = time.monotonic()
            assert stats(process.pid)["pid"] == process.pid
            assert time.monotonic() - begin < 9


def test_users_without_a_name_are_not_taken_for_nobody(lab: Lab) -> None:
    """In a user namespace all strangers look like 65534, which the process is there too."""
    if os.geteuid() != 0:
        missing("needs root to become somebody else")
    unshare = (need("unshare"), "--user", "--map-user=65534", "--")
    with started(lab, "grow_and_sleep", prefix=unshare) as (process, _):
        connect(process.pid).close()
        assert ask_as(1234, process.pid).startswith("error only the user of this process")
