"""chronyd on the library, in its seccomp filter that kills: twelve starts live, answer and end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from blackbox import Lab, wait_until
from private_system import NO_NETWORK, PrivateSystem, program

STARTS = 12
LIVES_S = 4
COMMANDS = ("tracking", "sources", "sourcestats", "activity", "refresh", "dump", "cyclelogs")
# The pool's name is looked up in a thread of chronyd's; its network namespace has no network.
CONFIGURATION = """
port 0
cmdport 0
local stratum 8
pool pool.invalid iburst
keyfile /etc/chrony/chrony.keys
logdir /var/log/chrony
log tracking measurements statistics
bindcmdaddress /run/chrony/{n}.sock
pidfile /run/chrony/{n}.pid
driftfile /run/chrony/{n}.drift
dumpdir /run/chrony
user root
"""


def ask(system: PrivateSystem, daemon: int, start: int, command: str) -> str:
    """What chronyc says, on the daemon's socket."""
    socket = f"/run/chrony/{start}.sock"
    result = system.join(daemon, program("chronyc"), "-h", socket, "-c", command)
    return result.stdout + result.stderr


def test_twelve_starts_in_the_filter(lab: Lab, tmp_path: Path) -> None:
    """-x: the clock of the machine is not touched; no port is open and no server asked."""
    system = PrivateSystem(lab, tmp_path, NO_NETWORK)
    folder = system.path("/run/chrony")
    folder.mkdir(mode=0o750)
    system.path("/var/log/chrony").mkdir()
    logs = [tmp_path / f"{start}.log" for start in range(STARTS)]
    with contextlib.ExitStack() as stack:
        running = []
        for start, log in enumerate(logs):
            system.write(f"/etc/chrony/{start}.conf", CONFIGURATION.format(n=start))
            command = (program("chronyd"), "-x", "-d", "-F", "1", "-f", f"/etc/chrony/{start}.conf")
            stream = stack.enter_context(log.open("w"))
            running.append(stack.enter_context(system.start(*command, stderr=stream)))
        pids = []
        for start, process in enumerate(running):
            assert wait_until((folder / f"{start}.sock").exists), logs[start].read_text()
            pids.append(system.daemon(process, "chronyd"))
        for end in (time.monotonic() + LIVES_S / 2, time.monotonic() + LIVES_S):
            time.sleep(max(0, end - time.monotonic()))
            for start, process in enumerate(running):
                assert process.poll() is None, f"{process.returncode}: {logs[start].read_text()}"
                for question in COMMANDS:
                    answer = ask(system, pids[start], start, question)
                    assert not answer.startswith("506"), (
                        f"{question}: {answer}{logs[start].read_text()}"
                    )
                    assert question != "tracking" or answer.startswith("7F7F0101,"), answer
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        for process, log in zip(running, logs, strict=True):
            assert process.wait(timeout=60) == 0, log.read_text()
    for log in logs:
        assert "chronyd exiting" in log.read_text()
        assert "strata:" not in log.read_text()
