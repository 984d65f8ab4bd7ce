"""vsftpd on the library: sessions that it forks by raw clone into namespaces and a seccomp filter."""

from __future__ import annotations

import ftplib
import io
import random
import threading
from pathlib import Path

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
seccomp_sandbox=YES
xferlog_enable=YES
vsftpd_log_file=/var/log/vsftpd.log
"""


def transfer(port: int, seed: int) -> None:
    """One session of the local user: files go up and come back, a listing names them."""
    draw = random.Random(seed)
    with ftplib.FTP() as ftp:
        ftp.connect("127.0.0.1", port, timeout=30)
        ftp.login(USER, PASSWORD)
        for size in (0, 1, 5000, 300_000):
            name = f"{seed}-{size}"
            data = draw.randbytes(size)
            ftp.storbinary(f"STOR {name}", io.BytesIO(data))
            got = io.BytesIO()
            ftp.retrbinary(f"RETR {name}", got.write)
            assert got.getvalue() == data, name
            assert name in ftp.nlst()
        ftp.quit()


def read_anonymously(port: int, expected: bytes) -> None:
    with ftplib.FTP() as ftp:
        ftp.connect("127.0.0.1", port, timeout=30)
        ftp.login()
        got = io.BytesIO()
        ftp.retrbinary("RETR file", got.write)
        assert got.getvalue() == expected
        assert ftp.nlst() == ["file"]
        ftp.quit()


def test_sessions(lab: Lab, tmp_path: Path) -> None:
    system = PrivateSystem(lab, tmp_path)
    port = free_port()
    data = random.Random(0).randbytes(1_000_000)
    system.write("/etc/vsftpd.conf", CONFIGURATION.format(port=port))
    system.write("/home/ftp/file", data.hex())
    system.path("/run/vsftpd/empty").mkdir(parents=True)
    console = tmp_path / "console"
    server = system.start(
        program("vsftpd"), "/etc/vsftpd.conf", stdout=console.open("w"), stderr=console.open("a")
    )
    with server as process:
        connect(port, process).close()
        assert all(system.is_loaded(pid) for pid in system.processes(process, "vsftpd"))
        for session in range(SESSIONS):
            transfer(port, session)
            read_anonymously(port, data.hex().encode())
        wrong: list[str] = []

        def session_beside(seed: int) -> None:
            try:
                transfer(port, seed)
            except (*ftplib.all_errors, AssertionError) as error:
                wrong.append(repr(error))

        threads = [
            threading.Thread(target=session_beside, args=(100 + n,)) for n in range(SIDE_BY_SIDE)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong
    assert console.read_text() == ""
