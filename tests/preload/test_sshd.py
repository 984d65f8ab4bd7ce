"""Debian's sshd on the library: its sandboxed child, PAM and the user's session, ten times."""

from __future__ import annotations

import subprocess
from pathlib import Path

from blackbox import Lab, connect, free_port, need
from private_system import LIBRARY, UID, USER, PrivateSystem, program

LOGINS = 10
CONFIGURATION = """
Port {port}
ListenAddress 127.0.0.1
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/user_key.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM yes
PrintMotd no
MaxStartups 100
LoginGraceTime 30
LogLevel VERBOSE
"""


def make_key(file: Path) -> None:
    command = (need("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", file)
    subprocess.run(command, check=True)


def test_ten_logins(lab: Lab, tmp_path: Path) -> None:
    system = PrivateSystem(lab, tmp_path)
    port = free_port()
    make_key(system.path("/etc/ssh/host_key"))
    make_key(tmp_path / "user_key")
    system.write("/etc/ssh/user_key.pub", (tmp_path / "user_key.pub").read_text())
    system.write("/etc/ssh/sshd_config", CONFIGURATION.format(port=port))
    system.path("/run/sshd").mkdir()
    options = {
        "BatchMode": "yes",
        "IdentitiesOnly": "yes",
        "StrictHostKeyChecking": "no",
        "UserKnownHostsFile": "/dev/null",
        "LogLevel": "ERROR",
    }
    client = [need("ssh"), "-F", "none", "-p", str(port), "-i", str(tmp_path / "user_key")]
    for key, value in options.items():
        client += ["-o", f"{key}={value}"]
    log = tmp_path / "sshd.log"
    server = system.start(program("sshd"), "-D", "-e", stderr=log.open("w"))
    with server as process:
        connect(port, process).close()
        system.daemon(process, "sshd")
        for login in range(LOGINS):
            command = f"id -u; grep -c {LIBRARY} /proc/self/maps; seq {login} 20000 | sort | wc -l"
            result = lab.run(*client, f"{USER}@127.0.0.1", command)
            assert result.returncode == 0, f"{login}: {result.explain()}\n{log.read_text()}"
            uid, maps, lines = result.stdout.split()
            assert (int(uid), int(lines)) == (UID, 20001 - login), result.explain()
            assert (int(maps) > 0) == (lab.library is not None)
            assert result.stderr == "", result.explain()
    assert "strata:" not in log.read_text()
