"""cron, su and sudo on the library: programs that change who they are, and run others."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path

import pytest
from blackbox import Lab, wait_until
from private_system import LIBRARY, PASSWORD, UID, USER, PrivateSystem, program

# Who runs, whether on the library, and some work.
REPORT = f"""#!/bin/sh
id -un
grep -q {LIBRARY} /proc/self/maps && echo loaded || echo not loaded
seq 3000 | sort -r | awk '{{ s[$1] = $1; n += s[$1] }} END {{ print n }}'
"""
AS_USER = ("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", "--")


def expected(system: PrivateSystem, name: str) -> str:
    loaded = "loaded" if system.lab.library is not None else "not loaded"
    return f"{name}\n{loaded}\n4501500\n"


@pytest.fixture
def system(lab: Lab, tmp_path: Path) -> PrivateSystem:
    made = PrivateSystem(lab, tmp_path)
    made.write("/etc/report", REPORT, 0o755)
    made.write("/etc/hosts", f"127.0.0.1 localhost {socket.gethostname()}\n")
    return made


def test_su(system: PrivateSystem) -> None:
    result = system.run(program("su"), "-", USER, "-c", "/etc/report")
    assert result.ok().stdout == expected(system, USER)
    script = f"echo {PASSWORD} | su {USER} -c /etc/report"
    result = system.run(*AS_USER, "sh", "-c", script)
    assert result.returncode == 0, result.explain()
    assert result.stdout == expected(system, USER)
    assert result.stderr.strip() == "Password:"


def test_sudo(system: PrivateSystem) -> None:
    system.write("/etc/sudoers", f"root ALL=(ALL) ALL\n{USER} ALL=(ALL) ALL\n", 0o440)
    asking = f"echo {PASSWORD} | sudo -k -S -p '' /etc/report"
    assert system.run(*AS_USER, "sh", "-c", asking).ok().stdout == expected(system, "root")
    result = system.run("sudo", "-n", "-u", USER, "/etc/report")
    assert result.ok().stdout == expected(system, USER)
    result = system.run(*AS_USER, "sudo", "-n", "/etc/report")
    assert result.returncode == 1, result.explain()
    assert result.stderr == "sudo: a password is required\n"


def test_settings_do_not_cross_su(system: PrivateSystem) -> None:
    """The caller of a program with more rights tells the library of its children nothing either."""
    file = system.path("/run/only_root/stats")
    file.parent.mkdir(mode=0o700)
    env = {"STRATA_STATS": "/run/only_root/stats"}
    result = system.run(*AS_USER, "sh", "-c", f"echo {PASSWORD} | su -c /etc/report", env=env)
    assert result.stdout == expected(system, "root"), result.explain()
    assert not file.exists()


def test_cron(system: PrivateSystem, tmp_path: Path) -> None:
    """Jobs of the system's table and of a user's, which crontab installs, run as cron starts."""
    out = system.path(f"/home/{USER}")
    job = f"/etc/report > /home/{USER}/of_system"
    system.write("/etc/cron.d/report", f"PATH=/usr/bin:/bin\n@reboot {USER} {job}\n")
    system.write("/etc/crontab", "")
    tables = system.path("/var/spool/cron/crontabs")
    tables.mkdir()
    tables.chmod(0o1730)
    install = "echo '@reboot /etc/report > of_user' | crontab - && crontab -l"
    log = tmp_path / "cron.log"
    script = 'chgrp crontab /var/spool/cron/crontabs; "$@" >&2 && exec cron -f'
    enter = ("sh", "-c", script, "sh", *AS_USER, "sh", "-c", install)
    with log.open("w") as stream, system.start(*enter, stdout=stream, stderr=stream) as process:
        for file in (out / "of_system", out / "of_user"):
            assert wait_until(partial(has_end, file)), log.read_text()
            assert file.read_text() == expected(system, USER)
        system.daemon(process, "cron")
        assert process.poll() is None
    assert "strata:" not in log.read_text()


def has_end(file: Path) -> bool:
    return file.exists() and file.read_text().count("\n") == 3
