"""nginx and Apache with their request pools on reaps, beside the servers as Debian ships them: the
requests that they answer under wrk, what those cost, and the memory of a request that allocates and
frees in a loop."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from strata.procfs import cpu_times, spent_since

from strata_bench import server_configurations
from strata_bench.allocators import Allocator
from strata_bench.redis_load import kib_fields

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "build" / "servers"
POOLS = "POOLS"  # of a variant's environment: reaps, or nothing
LOOP = "loop?n=1000000&size=400&pace=1000"
SAMPLES_AFTER = 80  # 4 s, so that the picture shows whether memory goes back
PAGE = b"a page of a server\n" * 50

APACHE_MODULES = ("mpm_event", "authz_core", "dir", "mime", "alias", "rewrite", "setenvif")


class ServerError(Exception):
    """A server or its load did not do what it should."""


@dataclass(frozen=True)
class Kind:
    """How one of the servers is started."""

    program: str
    build: str  # the folder of servers/ that makes its modules
    arguments: tuple[str, ...]

    def configuration(self, folder: Path, port: int, reaps: bool) -> str:
        if self.program == "nginx":
            names = (["ngx_strata_module"] if reaps else []) + ["ngx_http_pool_loop_module"]
            return server_configurations.nginx(
                folder,
                port,
                load="\n".join(f"load_module {MODULES}/{name}.so;" for name in names),
                main="user root; worker_processes 1;",
                server="location /loop { pool_loop; }",
            )
        more = (
            "User www-data\nGroup www-data\nLogLevel crit\n"
            f"LoadModule pool_loop_module {MODULES}/mod_pool_loop.so\n"
            "<Location /loop>\n  SetHandler pool-loop\n</Location>"
        )
        return server_configurations.apache(folder, port, APACHE_MODULES, 25, more)


KINDS = {
    "nginx": Kind("nginx", "nginx", ("-c",)),
    "apache2": Kind("apache2", "apache", ("-DFOREGROUND", "-f")),
}


def build_modules() -> None:
    """servers/*/build.sh into build/servers."""
    for kind in KINDS.values():
        subprocess.run([str(ROOT / "servers" / kind.build / "build.sh"), str(MODULES)], check=True)


def environment(kind: Kind, allocator: Allocator) -> dict[str, str]:
    env = allocator.environment()
    reaps = env.pop(POOLS, "") == "reaps"
    if kind.program == "apache2" and reaps and allocator.library is not None:
        beside = allocator.library.with_name("libstrata-apr.so")
        if not beside.exists():
            raise ServerError(f"{beside} is not built")
        env["LD_PRELOAD"] += f":{beside}"
    return env


def _worker(parent: int) -> int:
    """The one process that answers."""
    for task in Path(f"/proc/{parent}/task").iterdir():
        for child in (task / "children").read_text().split():
            return int(child)
    raise ServerError("there is no worker")


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(500):
        with contextlib.suppress(OSError), urllib.request.urlopen(_url(port, "page.html")) as got:
            if got.read() == PAGE:
                return
        if process.poll() is not None:
            raise ServerError(f"the server ended with {process.returncode}")
        time.sleep(0.02)
    raise ServerError("the server does not answer")


def _on_cpu(number: int) -> list[str]:
    """A command before the command: server and load would otherwise chase each other."""
    cpus = sorted(os.sched_getaffinity(0))
    return ["taskset", "-c", str(cpus[number % len(cpus)])]


def _url(port: int, path: str) -> str:
    return f"http://127.0.0.1:{port}/{path}"


@contextlib.contextmanager
def server(name: str, allocator: Allocator) -> Iterator[tuple[int, int]]:
    """The process id of its worker, and its port."""
    kind = KINDS[name]
    program = shutil.which(kind.program)
    if program is None:
        raise ServerError(f"{kind.program} is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="strata-bench-"))
    folder.chmod(0o755)
    (folder / "page.html").write_bytes(PAGE)
    reaps = allocator.env.get(POOLS) == "reaps"
    path = folder / "server.conf"
    path.write_text(kind.configuration(folder, port, reaps))
    process = subprocess.Popen(
        [*_on_cpu(0), program, *kind.arguments, str(path)],
        env=environment(kind, allocator),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(port, process)
        yield _worker(process.pid), port
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wrk(port: int, seconds: float) -> float:
    """Requests that were answered; any that was not is an error."""
    program = shutil.which("wrk")
    if program is None:
        raise ServerError("wrk is not installed")
    text = subprocess.run(
        [*_on_cpu(1), program, "-t1", "-c16", f"-d{seconds:g}s", _url(port, "page.html")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise ServerError(f"wrk: {text.strip()}")
    found = re.search(r"^ +(\d+) requests in ", text, re.MULTILINE)
    if found is None:
        raise ServerError(f"wrk: {text.strip()}")
    return float(found[1])


def _warm_up(port: int) -> None:
    command = ["timeout", "0.4", "wrk", "-t1", "-c16", "-d9s", _url(port, "page.html")]
    subprocess.run([*_on_cpu(1), *command], check=False, stdout=subprocess.DEVNULL)


def measure(name: str, allocator: Allocator, seconds: float) -> dict[str, str]:
    """Starts a server, lets wrk ask it for a page, and reads what that took."""
    with server(name, allocator) as (worker, port):
        _warm_up(port)
        before = cpu_times(worker)
        started = time.monotonic()
        requests = _wrk(port, seconds)
        wall = time.monotonic() - started
        cpu = spent_since(before, worker)
        memory = kib_fields(Path(f"/proc/{worker}/smaps_rollup"))
    return {
        "program": name,
        "requests_per_s": f"{requests / wall:.1f}",
        "requests_per_cpu_s": f"{requests / cpu:.1f}",
        "rss_kib": str(memory["Rss"]),
        "pss_kib": str(memory["Pss"]),
        "private_kib": str(memory["Private_Dirty"]),
    }


def loop(name: str, allocator: Allocator) -> list[tuple[float, float]]:
    """RSS of the worker, in MiB over seconds, while one request allocates and frees in a loop."""
    series: list[tuple[float, float]] = []
    with server(name, allocator) as (worker, port):
        status = Path(f"/proc/{worker}/status")
        answer: list[bytes] = []

        def ask() -> None:
            with urllib.request.urlopen(_url(port, LOOP), timeout=120) as got:
                answer.append(got.read())

        asking = threading.Thread(target=ask)
        started = time.monotonic()
        asking.start()
        after = 0
        while after < SAMPLES_AFTER:
            after += not asking.is_alive()
            mib = kib_fields(status)["VmRSS"] / 1024
            series.append((time.monotonic() - started, mib))
            time.sleep(0.05)
        asking.join()
    if not answer or not answer[0].startswith(b"allocated 1000000, "):
        raise ServerError(f"the loop was not answered: {answer}")
    return series


def picture(allocators: Mapping[str, Allocator], path: Path) -> None:
    """A panel for each server, a line for each variant."""
    from strata_bench import plots  # matplotlib only where something is drawn

    panels = {
        name: {variant: loop(name, allocator) for variant, allocator in allocators.items()}
        for name in KINDS
    }
    plots.memory_of_loops(panels, path)
