"""Runs system programs with the library in /etc/ld.so.preload, as an operator would put it there.

The programs live in mount and pid namespaces of their own, on a copy of /etc (accounts, PAM,
ld.so.preload and the library itself), with fresh /home, /run and spool folders: nothing reaches the
machine that runs the tests, and all processes end with the first one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from blackbox import Lab, Result, need

USER = "strata-user"
UID = 4321
LIBRARY = "/etc/libstrata.so"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
NO_NETWORK = "--net"
FRESH = ("run", "home", "var/spool/cron", "var/log", "var/lib/chrony", "var/cache/man")
UNUSED = ("apache2", "apt", "init.d", "java-17-openjdk", "nginx", "php", "ssl", "systemd", "X11")
# The mounts are made before the library is in sight; what runs in the end has it. The shell stays
# as the namespace's init: not every daemon can cope with the children of others.
ENTER = """
set -e
root=$1; shift
for place in {fresh} etc; do
  [ -d /$place ] && mount --bind $root/$place /$place
done
set +e
"$@"
exit $?
"""


def program(name: str) -> str:
    """A program of the system; those of /usr/sbin are not on every user's path."""
    for folder in PATH.split(":"):
        if os.access(f"{folder}/{name}", os.X_OK):
            return f"{folder}/{name}"
    return need(name)


def need_root() -> None:
    """Accounts, chroot and mounts need root; so do the daemons themselves."""
    if os.geteuid() != 0:
        pytest.skip("only root can run system daemons")
    probe = [need("unshare"), *NAMESPACES, "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespaces to run system daemons in")


class PrivateSystem:
    """One such system; its files are made before anything is started in it."""

    def __init__(self, lab: Lab, folder: Path, *namespaces: str) -> None:
        need_root()
        self.lab = lab
        self._namespaces = (*NAMESPACES, *namespaces)
        self._root = folder / "system"
        self._root.mkdir()
        shutil.copytree("/etc", self._root / "etc", symlinks=True, ignore=_left_out)
        for place in FRESH:
            (self._root / place).mkdir(parents=True)
        (self._root / "etc").chmod(0o755)
        if lab.library is not None:
            shutil.copy(lab.library.resolve(), self.path(LIBRARY))
            self.write("/etc/ld.so.preload", LIBRARY + "\n")
        self.add_user()

    def path(self, inside: str) -> Path:
        """Where a file of the system lies for the test."""
        return self._root / inside.lstrip("/")

    def write(self, inside: str, text: str, mode: int = 0o644) -> None:
        target = self.path(inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def append(self, inside: str, text: str) -> None:
        with self.path(inside).open("a") as file:
            file.write(text)

    def add_user(self) -> None:
        """A user with a password, which is root's too."""
        self.append("/etc/passwd", f"{USER}:x:{UID}:{UID}:test:/home/{USER}:/bin/sh\n")
        self.append("/etc/group", f"{USER}:x:{UID}:\n")
        self.append("/etc/shadow", f"{USER}:{PASSWORD_HASH}:19000:0:99999:7:::\n")
        shadow = self.path("/etc/shadow").read_text()
        self.write(
            "/etc/shadow", re.sub("^root:[^:]*", f"root:{PASSWORD_HASH}", shadow, flags=re.M)
        )
        home = self.path(f"/home/{USER}")
        home.mkdir()
        os.chown(home, UID, UID)

    def command(self, *args: str | Path) -> list[str]:
        fresh = " ".join(FRESH)
        enter = ENTER.format(fresh=fresh)
        return [
            *(need("unshare"), *self._namespaces, "sh", "-c", enter, "sh", str(self._root)),
            *(str(arg) for arg in args),
        ]

    def run(self, *args: str | Path, env: Mapping[str, str] | None = None, **run: Any) -> Result:
        """Runs a command in a system of its own to its end."""
        extra = {"PATH": PATH, **(env or {})}
        return self.lab.run(*self.command(*args), preload=False, env=extra, cwd="/", **run)

    def join(self, pid: int, *args: str | Path, **run: Any) -> Result:
        """Runs a command in the system that a process of it lives in."""
        enter = (need("nsenter"), "--mount", "--pid", "--target", str(pid))
        return self.lab.run(*enter, *args, preload=False, env={"PATH": PATH}, cwd="/", **run)

    @contextlib.contextmanager
    def start(
        self, *args: str | Path, env: Mapping[str, str] | None = None, **popen: Any
    ) -> Iterator[subprocess.Popen[str]]:
        """Starts a command; at the end of the block everything that it started is killed."""
        extra = {"PATH": PATH, **(env or {})}
        command = self.command(*args)
        with self.lab.start(*command, preload=False, env=extra, cwd="/", **popen) as process:
            yield process

    def processes(self, process: subprocess.Popen[str], name: str) -> list[int]:
        """The pids of the programs of that name below a started command, as the test sees them."""
        found = []
        for pid in _below(process.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                    found.append(pid)
        return found

    def daemon(self, process: subprocess.Popen[str], name: str) -> int:
        """The first of them, which has to be there, on the library."""
        pid = self.processes(process, name)[0]
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert self.lab.library is None or LIBRARY in maps, f"{name}: {maps or 'gone'}"
        return pid


# crypt(3) of "secret", SHA-512.
PASSWORD = "secret"
PASSWORD_HASH = (
    "$6$strata$uJ2u.0daGn3X3dCR07qBcaFXM9pLEKCXZ92rUOmAviUHMgJiSM3gWxbOTB4itya0"
    "9PW4pjnMohai/TJZPl/D3."
)


def _left_out(folder: str, names: list[str]) -> list[str]:
    """Sockets and the like have no place in a copy; what is large and used by none takes time."""
    paths = (Path(folder) / name for name in names)
    odd = [p.name for p in paths if not (p.is_symlink() or p.is_dir() or p.is_file())]
    return odd + [name for name in names if folder == "/etc" and name in UNUSED]


def _below(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_below(int(child))]
    return found
