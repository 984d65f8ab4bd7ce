"""vsftpd on the library: sessions that it forks by raw clone into namespaces and a seccomp filter.

The filter is older than Debian's libc: whatever needs fstat is killed in it, on any allocator. In
the filter the sessions therefore log in, look around and make folders; files pass without it.
"""

from __future__ import annotations

import contextlib
import ftplib
import io
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from blackbox import Lab, connect, free_port
from private_system import PASSWORD, USER, PrivateSystem, program

SESSIONS = 6
SIDE_BY_SIDE = 3
CONFIGURATION = """
listen=YES
listen_ipv6=NO
listen_address=127.0.0.1
listen_port={port}
background=NO
anonymous_enable=YES
local_enable=YES
write_enable=YES
chroot_local_user=YES
allow_writeable_chroot=YES
secure_chroot_dir=/run/vsftpd/empty
anon_root=/home/ftp
pam_service_name=vsftpd
isolate=YES
isolate_network=YES
seccomp_sandbox={filtered}
xferlog_enable=YES
vsftpd_log_file=/var/log/vsftpd.log
"""


@contextlib.contextmanager
def session(port: int, user: str, password: str) -> Iterator[ftplib.FTP]:
    with ftplib.FTP() as ftp:
        ftp.connect("127.0.0.1", port, timeout=30)
        ftp.login(user, password)
        assert ftp.pwd() == "/"
        yield ftp
        assert ftp.quit().startswith("221")


def local_session(port: int, seed: int, *, filtered: bool) -> None:
    """Folders are made and left; files go up and come back."""
    draw = random.Random(seed)
    with session(port, USER, PASSWORD) as ftp:
        assert ftp.mkd(f"{seed}") == f"/{seed}"
        ftp.cwd(f"{seed}")
        assert ftp.pwd() == f"/{seed}"
        assert USER in ftp.sendcmd("STAT")
        for size in () if filtered else (0, 1, 5000, 300_000):
            data = draw.randbytes(size)
            ftp.storbinary(f"STOR {size}", io.BytesIO(data))
            got = io.BytesIO()
            ftp.retrbinary(f"RETR {size}", got.write)
            assert got.getvalue() == data, size
            assert f"{size}" in ftp.nlst()
            ftp.delete(f"{size}")
        ftp.cwd("/")
        ftp.rmd(f"{seed}")


def anonymous_session(port: int, expected: bytes, *, filtered: bool) -> None:
    with session(port, "anonymous", "anyone") as ftp:
        with pytest.raises(ftplib.error_perm):
            ftp.mkd("folder")
        if not filtered:
            got = io.BytesIO()
            ftp.retrbinary("RETR file", got.write)
            assert got.getvalue() == expected
            assert ftp.nlst() == ["file"]


def sessions_beside(port: int, *, filtered: bool) -> list[str]:
    """What went wrong in several local sessions at a time."""
    wrong: list[str] = []

    def one(seed: int) -> None:
        try:
            local_session(port, seed, filtered=filtered)
        except (ftplib.Error, OSError, EOFError, AssertionError) as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=one, args=(100 + n,)) for n in range(SIDE_BY_SIDE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


@pytest.mark.parametrize("filtered", [True, False], ids=["filter", "files"])
def test_sessions(lab: Lab, tmp_path: Path, filtered: bool) -> None:
    system = PrivateSystem(lab, tmp_path)
    port = free_port()
    data = random.Random(0).randbytes(1_000_000)
    switch = "YES" if filtered else "NO"
    system.write("/etc/vsftpd.conf", CONFIGURATION.format(port=port, filtered=switch))
    system.path("/home/ftp").mkdir()
    system.path("/home/ftp/file").write_bytes(data)
    system.path("/run/vsftpd/empty").mkdir(parents=True)
    console = tmp_path / "console"
    stream = console.open("w")
    server = system.start(program("vsftpd"), "/etc/vsftpd.conf", stdout=stream, stderr=stream)
    with stream, server as process:
        connect(port, process).close()
        system.daemon(process, "vsftpd")
        for number in range(SESSIONS):
            local_session(port, number, filtered=filtered)
            anonymous_session(port, data, filtered=filtered)
        assert sessions_beside(port, filtered=filtered) == []
    assert console.read_text() == ""
