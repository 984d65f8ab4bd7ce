#!/usr/bin/env python3
"""Instructions of one request to Apache, by valgrind: with its own pools on glibc, on Strata's
malloc, and with pools on reaps. A busy machine changes nothing about them.

    python3 bench/request_instructions.py        half a minute; needs apache2, valgrind, `make lib`

One connection is kept open; what 100 requests take is subtracted from what 1,100 take. Under
valgrind Strata's caches are a thread's, which cost more than a CPU's.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIB = ROOT / "build/lib"
PAGE = b"x" * 950
FEW, MANY = 100, 1100
VARIANTS = {
    "stock": [],
    "strata": [LIB / "libstrata.so"],
    "reaps": [LIB / "libstrata.so", LIB / "libstrata-apr.so"],
}
CONFIGURATION = """
ServerRoot {folder}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {folder}/pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/error
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule mime_module /usr/lib/apache2/modules/mod_mime.so
TypesConfig /etc/mime.types
DocumentRoot {folder}
EnableMMAP Off
MaxKeepAliveRequests 0
ThreadsPerChild 4
MaxRequestWorkers 4
ServerLimit 1
StartServers 1
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def ask(port: int, requests: int) -> None:
    """The same page again and again, on one connection."""
    for _ in range(300):
        try:
            s = socket.create_connection(("127.0.0.1", port), timeout=60)
            break
        except OSError:
            time.sleep(0.1)
    with s:
        for _ in range(requests):
            s.sendall(b"GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(PAGE):
                more = s.recv(65536)
                assert more, "the server went away"
                answer += more


def instructions(preload: list[Path], requests: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        folder.chmod(0o777)
        (folder / "page").write_bytes(PAGE)
        (folder / "conf").write_text(CONFIGURATION.format(folder=folder, port=port))
        env = os.environ | {"STRATA_BACKGROUND": "off", "LD_PRELOAD": " ".join(map(str, preload))}
        out = folder / "counts"
        # Not as root, which Apache would give up before valgrind writes.
        command = ["setpriv", "--reuid=www-data", "--clear-groups"] if os.getuid() == 0 else []
        command += ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "apache2", "-X"]
        server = subprocess.Popen(
            [*command, "-f", folder / "conf"], env=env, stderr=subprocess.DEVNULL
        )
        try:
            ask(port, requests)
        finally:
            server.terminate()
            server.wait()
        found = re.search(r"^summary: (\d+)", out.read_text(), re.M)
        assert found is not None
        return int(found[1])


def main() -> int:
    stock = 0.0
    for name, preload in VARIANTS.items():
        each = (instructions(preload, MANY) - instructions(preload, FEW)) / (MANY - FEW)
        stock = stock or each
        print(f"{name:8} {each:9,.0f} instructions a request, {each / stock:.3f} x stock")
    return 0


if __name__ == "__main__":
    sys.exit(main())
