"""chronyd on the library, in its seccomp filter that kills: twelve starts stay alive and answer."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

from blackbox import Lab, wait_until
from private_system import PrivateSystem, program

STARTS = 12
LIVES_S = 4
CONFIGURATION = """
port 0
cmdport 0
local stratum 8
bindcmdaddress /run/chrony/{n}.sock
pidfile /run/chrony/{n}.pid
driftfile /run/chrony/{n}.drift
dumpdir /run/chrony
user root
"""


def ask(system: PrivateSystem, process: subprocess.Popen[str], start: int) -> str:
    """What `chronyc tracking` says, on the daemon's socket."""
    daemon = system.processes(process, "chronyd")[0]
    socket = f"/run/chrony/{start}.sock"
    result = system.join(daemon, program("chronyc"), "-h", socket, "-c", "tracking")
    return result.stdout + result.stderr


def test_twelve_starts_in_the_filter(lab: Lab, tmp_path: Path) -> None:
    """-x: the clock of the machine is not touched; no port is open and no server asked."""
    system = PrivateSystem(lab, tmp_path)
    folder = system.path("/run/chrony")
    folder.mkdir(mode=0o750)
    logs = [tmp_path / f"{start}.log" for start in range(STARTS)]
    with contextlib.ExitStack() as stack:
        daemons = []
        for start, log in enumerate(logs):
            system.write(f"/etc/chrony/{start}.conf", CONFIGURATION.format(n=start))
            command = (program("chronyd"), "-x", "-d", "-F", "1", "-f", f"/etc/chrony/{start}.conf")
            stream = stack.enter_context(log.open("w"))
            daemons.append(stack.enter_context(system.start(*command, stderr=stream)))
        for start, daemon in enumerate(daemons):
            assert wait_until((folder / f"{start}.sock").exists), logs[start].read_text()
            assert all(system.is_loaded(pid) for pid in system.processes(daemon, "chronyd"))
        deadline = time.monotonic() + LIVES_S
        while time.monotonic() < deadline:
            time.sleep(0.1)
            for daemon, log in zip(daemons, logs, strict=True):
                assert daemon.poll() is None, f"{daemon.returncode}: {log.read_text()}"
        for start, daemon in enumerate(daemons):
            answer = ask(system, daemon, start)
            assert answer.startswith("7F7F0101,"), answer + logs[start].read_text()
    for log in logs:
        assert "strata:" not in log.read_text()
