"""What is expected of nginx and Apache alike once their pools are on reaps: the answers that the
servers give without them, through restarts and under load, and memory that does not grow."""

from __future__ import annotations

import http.client
import random
import re
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from blackbox import need
from serving import (
    Answer,
    Asked,
    Site,
    anonymous_kib,
    ask_all,
    children,
    peak_kib,
    told,
    until,
)


def answers(site: Site) -> list[Answer]:
    """What the server answers with its own pools: statuses of all kinds."""
    with site.server(reaps=False) as (port, _, _):
        got = ask_all(port, site.requests())
    assert sum(answer.status == 200 for answer in got) > 40
    statuses = {answer.status for answer in got}
    assert {206, 304, 404, 413, 416} <= statuses, statuses
    return got


def expect_same_answers(site: Site, expected: list[Answer]) -> list[int]:
    """One after the other and in parallel. What the request pools held, from the access log."""
    with site.server(reaps=True) as (port, process, own):
        got = ask_all(port, site.requests())
        for asked, one, other in zip(site.requests(), got, expected, strict=True):
            assert one == other, f"{asked}: {told(one)} is not {told(other)}"
        in_parallel(port, site.requests(), expected, threads=6)
        site.stop(process, own)
        lines = (own / "access.log").read_text().splitlines()
        held = [int(line.split()[-1]) for line in lines if not line.endswith("-")]
        assert len(held) > 6 * len(expected) and min(held) > 0
        return held


def _compare(port: int, requests: list[Asked], expected: list[Answer], seed: int) -> str:
    """Asks in a random order; the first wrong answer, or nothing."""
    order = list(range(len(requests)))
    random.Random(seed).shuffle(order)
    got = ask_all(port, [requests[i] for i in order])
    for index, answer in zip(order, got, strict=True):
        if answer != expected[index]:
            return f"{requests[index].path}: {told(answer)} is not {told(expected[index])}"
    return ""


def in_parallel(
    port: int,
    requests: list[Asked],
    expected: list[Answer],
    threads: int,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """The same from several connections at once, again and again while something else is done."""
    wrong: list[str] = []
    done = threading.Event()

    def one(seed: int) -> None:
        while True:
            try:
                wrong.append(_compare(port, requests, expected, seed))
            except (OSError, http.client.HTTPException, AssertionError) as error:
                wrong.append(repr(error))
            seed += threads
            if done.is_set():
                return

    running = [threading.Thread(target=one, args=(seed,)) for seed in range(threads)]
    for thread in running:
        thread.start()
    try:
        meanwhile()
    finally:
        done.set()
        for thread in running:
            thread.join()
    assert not any(wrong), [w for w in wrong if w][:3]


def expect_restarts_under_load(site: Site, expected: list[Answer], restarts: int) -> None:
    """Workers go and come while they are asked; nobody gets a wrong answer, or none."""
    with site.server(reaps=True) as (port, process, own):

        def restart() -> None:
            for _ in range(restarts):
                before = set(children(process.pid))
                process.send_signal(site.restart_signal)
                until("old workers are gone", lambda b=before: not b & set(children(process.pid)))
                until("it serves", lambda: ask_all(port, [site.settled])[0].status < 500)

        both = zip(site.requests(), expected, strict=True)
        safe = [pair for pair in both if not pair[0].path.startswith(site.lost_in_restarts)]
        requests = [asked for asked, _ in safe]
        in_parallel(port, requests, [a for _, a in safe], threads=3, meanwhile=restart)
        site.stop(process, own)


LOADED = 1500  # requests of one run of ab
ROUNDS = 16
FLAT_KIB = 150  # a round's 6,000 requests, 50 bytes from each, are 293


def load(port: int, path: str, *options: str) -> None:
    """ab, Apache's own load generator: everything is answered, and answered alike."""
    command = [need("ab"), "-q", "-n", str(LOADED), "-c", "8", *options]
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{port}{path}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"^Complete requests: +{LOADED}$", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^Failed requests: +0$", done.stdout, re.MULTILINE), done.stdout
    assert "Non-2xx" not in done.stdout, done.stdout


def flat(growth: list[int]) -> bool:
    """Whether the last two rounds took no memory. What goes back in a round could hide a leak, so
    such a round does not count."""
    return len(growth) >= 2 and max(map(abs, growth[-2:])) < FLAT_KIB


def expect_memory_to_stay_under_load(site: Site) -> None:
    """Requests over kept and new connections, for files and from behind, until two rounds of 6,000
    in a row take no memory. A leak of 50 bytes a request takes twice the limit in every one."""
    paths = (f"/{site.names[3]}", f"/proxied/{site.names[1]}")
    with site.server(reaps=True) as (port, process, own):

        def round_of_requests() -> dict[int, int]:
            for path in paths:
                load(port, path)
                load(port, path, "-k")
            return anonymous_kib(process.pid)

        def grown(before: dict[int, int], after: dict[int, int]) -> int:
            known = before.keys() & after.keys()
            return sum(after[pid] - before[pid] for pid in known) if known else 1 << 30

        rounds = [round_of_requests()]
        growth: list[int] = []
        while len(growth) < ROUNDS and not flat(growth):
            rounds.append(round_of_requests())
            growth.append(grown(rounds[-2], rounds[-1]))
        assert flat(growth), (growth, rounds)
        site.stop(process, own)


def expect_a_loop_to_stay_small(site: Site) -> None:
    """The denial-of-service case. 300,000 objects of 400 bytes are 114 MiB."""
    loop = [Asked("/loop?n=300000&size=400&pace=0")]
    with site.server(reaps=False) as (port, process, _):
        (answer,) = ask_all(port, loop)
        assert answer.body == b"allocated 300000, freed 0\n"
        assert peak_kib(process.pid) > 110 << 10, "the server's own pool keeps all of it"
    with site.server(reaps=True) as (port, process, _):
        (answer,) = ask_all(port, loop)
        assert answer.body == b"allocated 300000, freed 300000\n"
        assert peak_kib(process.pid) < 40 << 10


def certificate(folder: Path) -> tuple[Path, Path]:
    """One for localhost, signed by itself, and its key."""
    made, key = folder / "localhost.pem", folder / "localhost.key"
    command = [need("openssl"), "req", "-x509", "-nodes", "-subj", "/CN=localhost"]
    command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-out", str(made), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


def expect_same_over_http2(site: Site, port: int, into: Path) -> None:
    """curl over one TLS connection, all files at once: many requests share a connection's pool."""
    command: list[str] = [need("curl"), "-sS", "-k", "--http2", "-Z", "--compressed"]
    command += ["-w", "%{http_version} %{http_code}\n"]
    expected = [(site.folder / "files" / name) for name in site.names] * 4
    for number, path in enumerate(expected):
        command += ["-o", str(into / f"{number}"), f"https://localhost:{port}/{path.name}"]
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["2 200"] * len(expected)
    for number, path in enumerate(expected):
        assert (into / f"{number}").read_bytes() == path.read_bytes(), path
