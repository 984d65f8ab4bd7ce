#!/usr/bin/env python3
"""What sampled guards cost a Redis server of its CPU time, at several loads, by perf's samples.

    python3 bench/guard_cost.py [--seconds 24] [--lib build/lib/libstrata.so] [LOAD...]

LOAD is the share of a CPU that the server uses: 1 0.4 0.1 without any. Needs redis-server,
redis-benchmark, taskset, perf and two quiet CPUs. A sample counts as a guard's if its stack has one
of its functions, mprotect or madvise, which SETs of one size need for nothing else: with
STRATA_GUARD=off there is none.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STRATA = ROOT / ".venv/bin/strata"
GUARDS = re.compile(r"GuardNow|FreeGuarded|GuardPool|GuardPace|sys_mprotect|sys_madvise")
BATCH = 16  # commands that are sent at once
PAUSE_S = 0.002
TOOLS = ("redis-server", "redis-benchmark", "taskset", "perf")


def cpu_seconds(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def batches(n: int) -> list[bytes]:
    chosen = random.Random(1)

    def command() -> str:
        key = f"key:{chosen.randrange(50_000):012d}"
        return f"*3\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n$100\r\n{'x' * 100}\r\n"

    return ["".join(command() for _ in range(BATCH)).encode() for _ in range(n)]


def load_the_server(port: int, pid: int, load: float) -> None:
    """For ever: SETs with pauses, so many between two that the server uses `load` of a CPU."""
    if load >= 1:
        command = f"taskset -c 1 redis-benchmark -p {port} -P {BATCH} -q -r 50000 -d 100"
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.execvp("taskset", [*command.split(), "-n", "1000000000", "-t", "set"])
    os.sched_setaffinity(0, {1})
    texts = batches(4000)
    each, sent = 1.0, 0
    began, used = time.monotonic(), cpu_seconds(pid)
    with socket.create_connection(("127.0.0.1", port)) as server:
        while True:
            for _ in range(max(1, int(each + random.random()))):
                server.sendall(texts[sent % len(texts)])
                sent += 1
                answered = 0
                while answered < BATCH * len(b"+OK\r\n"):
                    got = server.recv(4096)
                    if not got:
                        return
                    answered += len(got)
            time.sleep(PAUSE_S)
            now = time.monotonic()
            if now - began > 0.3:
                share = (cpu_seconds(pid) - used) / (now - began)
                each = min(200, max(0.3, each * (0.5 + 0.5 * load / max(share, 0.01))))
                began, used = now, cpu_seconds(pid)


def wait_until_it_listens(server: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit("guard_cost: redis-server does not listen")


def guarded_blocks(pid: int) -> int:
    command = [str(STRATA), "stats", "--format", "json", str(pid)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(json.loads(text)["guard"]["taken"])


def samples(pid: int, seconds: float) -> tuple[int, int]:
    """All of the server's, and those of guards."""
    with tempfile.NamedTemporaryFile(suffix=".data") as file:
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "4000", "-g", "-p", str(pid)]
        sleep = ["--", "sleep", str(seconds)]
        subprocess.run([*record, "-o", file.name, *sleep], check=True, stderr=subprocess.DEVNULL)
        script = ["perf", "script", "-i", file.name, "-F", "comm,ip,sym"]
        done = subprocess.run(script, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    stacks = [one for one in done.stdout.decode(errors="replace").split("\n\n") if one.strip()]
    return len(stacks), sum(GUARDS.search(one) is not None for one in stacks)


def measure(library: Path, load: float, seconds: float, guard: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    env = os.environ | {"LD_PRELOAD": str(library), "STRATA_CONTROL": "always"}
    server = subprocess.Popen(
        ["taskset", "-c", "0", "redis-server", "--port", str(port), "--save", ""],
        env=env | {"STRATA_GUARD": guard},
        stdout=subprocess.DEVNULL,
    )
    client = 0
    try:
        wait_until_it_listens(server, port)
        client = os.fork()
        if client == 0:
            try:
                load_the_server(port, server.pid, load)
            finally:
                os._exit(1)
        time.sleep(2.5)  # until the load is as it should be
        began, used, guarded = time.monotonic(), cpu_seconds(server.pid), guarded_blocks(server.pid)
        seen, of_guards = samples(server.pid, seconds)
        used = cpu_seconds(server.pid) - used
        share = used / (time.monotonic() - began)
        guarded = guarded_blocks(server.pid) - guarded
        if os.waitpid(client, os.WNOHANG)[0] != 0:
            client = 0
            sys.exit("guard_cost: the client ended early")
    finally:
        if client != 0:
            os.kill(client, signal.SIGKILL)
            os.waitpid(client, 0)
        server.kill()
        server.wait()
    print(
        f"STRATA_GUARD={guard}, {share:.2f} of a CPU: {guarded / used:.0f} blocks a CPU second,"
        f" {100 * of_guards / seen:.2f} % of {seen:,} samples",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n\n")[0],
        epilog=f"Needs {', '.join(TOOLS)} and two quiet CPUs.",
    )
    parser.add_argument("loads", nargs="*", type=float, default=[1.0, 0.4, 0.1], metavar="LOAD")
    parser.add_argument("--seconds", type=float, default=24)
    parser.add_argument("--lib", type=Path, default=ROOT / "build/lib/libstrata.so")
    args = parser.parse_args()
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        parser.error(f"needs {', '.join(lacking)}")
    for load in args.loads:
        measure(args.lib.absolute(), load, args.seconds, "on")
    measure(args.lib.absolute(), 0.4, min(args.seconds, 10), "off")


if __name__ == "__main__":
    main()
