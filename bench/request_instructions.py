#!/usr/bin/env python3
"""Instructions of one request to Apache and to nginx, by valgrind: with their own pools on glibc,
on Strata's malloc, and with pools on reaps. A busy machine changes nothing about them.

    python3 bench/request_instructions.py        a minute; needs both servers, valgrind,
                                                 `make lib`, `make servers`

One connection is kept open; what 100 requests take is subtracted from what 1,100 take. Strata
stands down under valgrind, so a copy of the library runs here that does not notice it. There are no
restartable sequences either: the caches are a thread's, which cost more than a CPU's.
KEEP=FOLDER in the environment keeps the counts of each function there, for callgrind_annotate.
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

from strata_bench import server_configurations

ROOT = Path(__file__).resolve().parent.parent
LIB = ROOT / "build/lib"
PAGE = b"x" * 950
FEW, MANY = 100, 1100
REAPS = "reaps"
VARIANTS = ("stock", "strata", REAPS)
NGINX_MODULE = ROOT / "build/servers/ngx_strata_module.so"
# The preamble of a client request (valgrind.h, "__SPECIAL_INSTRUCTION_PREAMBLE"), and the same
# rotations in an order that means nothing to valgrind.
ASKS = bytes.fromhex("48c1c703 48c1c70d 48c1c73d 48c1c733")
ASKS_NOT = bytes.fromhex("48c1c70d 48c1c703 48c1c73d 48c1c733")
APACHE_MODULES = ("mpm_event", "authz_core", "mime")
ARGUMENTS = {"apache2": ["-X", "-f"], "nginx": ["-c"]}


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


def unnoticing(library: Path, folder: Path) -> Path:
    """A copy that does not notice valgrind."""
    copy = folder / library.name
    copy.write_bytes(library.read_bytes().replace(ASKS, ASKS_NOT))
    return copy


def preloads(server: str, variant: str) -> list[Path]:
    if variant == VARIANTS[0]:
        return []
    apr = variant == REAPS and server == "apache2"
    return [LIB / "libstrata.so"] + ([LIB / "libstrata-apr.so"] if apr else [])


def configuration(server: str, variant: str, folder: Path, port: int) -> str:
    if server == "apache2":
        return server_configurations.apache(folder, port, APACHE_MODULES, threads=4)
    load = f"load_module {NGINX_MODULE};" if variant == REAPS else ""
    return server_configurations.nginx(folder, port, load, main="master_process off;")


def instructions(server: str, variant: str, requests: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        folder.chmod(0o777)
        (folder / "page").write_bytes(PAGE)
        (folder / "conf").write_text(configuration(server, variant, folder, port))
        copies = [str(unnoticing(library, folder)) for library in preloads(server, variant)]
        env = os.environ | {"STRATA_BACKGROUND": "off", "LD_PRELOAD": " ".join(copies)}
        out = folder / "counts"
        # Not as root, which Apache would give up before valgrind writes.
        command = ["setpriv", "--reuid=www-data", "--clear-groups"] if os.getuid() == 0 else []
        command += ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", server]
        process = subprocess.Popen(
            [*command, *ARGUMENTS[server], folder / "conf"], env=env, stderr=subprocess.DEVNULL
        )
        try:
            ask(port, requests)
        finally:
            process.terminate()
            process.wait()
        counts = out.read_text()
        assert ("strata::ThreadCache" in counts) == bool(copies), "whose malloc was this?"
        if keep := os.environ.get("KEEP"):
            Path(keep, f"{server}.{variant}.{requests}").write_text(counts)
        found = re.search(r"^summary: (\d+)", counts, re.M)
        assert found is not None
        return int(found[1])


def main() -> int:
    for server in ARGUMENTS:
        stock = 0.0
        for variant in VARIANTS:
            few, many = (instructions(server, variant, n) for n in (FEW, MANY))
            each = (many - few) / (MANY - FEW)
            stock = stock or each
            print(
                f"{server:8} {variant:7} {each:9,.0f} instructions a request,"
                f" {each / stock:.3f} x stock",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
