#!/usr/bin/env python3
"""Writes cmake/start_up_order.txt: the functions of the library that small programs run, and idle
workers of servers.

The kernel maps file pages in pieces of 64 KiB around each one that is touched, so a small program
that runs 60 KiB of code here and there has the whole library in memory. The linker puts the listed
functions side by side (cmake/StrataOrder.cmake). A name that is gone, or not on the list, costs a
few pages and nothing else: run this once in a while, on a release build, as root, with nginx, Redis
and Apache there.

Each program runs with a breakpoint on every function of the library; the first call of each is
noted. Functions that most small programs run come first, then what most others do.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORDER = ROOT / "cmake" / "start_up_order.txt"
HEAD = (
    "# Written by scripts/start_up_order.py: what small programs and servers run of the library:"
    " what most small ones run first.\n"
)
# 20 MiB, and two rounds of the background thread.
GROWS = (
    "$h{$_} = 'x' x ($_ % 500) for 1..60000; select(undef, undef, undef, 2.5);"
    "delete $h{$_} for 1..30000; $h{$_} = 'x' x 9000 for 1..2000"
)
# Common programs of Debian, and one of a middling heap.
PROGRAMS = (
    ("true",),
    ("cat", "/etc/passwd"),
    ("ls", "-l", "/usr/bin"),
    ("sort", "/etc/services"),
    ("sed", "-n", "s/a/b/p", "/etc/services"),
    ("grep", "-r", "include", "/usr/include/stdio.h"),
    ("find", "/usr/share/doc", "-maxdepth", "1"),
    ("tar", "cf", "/dev/null", "/usr/include/linux"),
    ("bash", "-c", "for i in 1 2 3; do echo $i; done"),
    ("perl", "-e", "$h{$_} = 1 for 1..1000"),
    ("git", "--version"),
    ("openssl", "version"),
    ("python3", "-c", "a = [str(i) for i in range(200000)]"),
    ("perl", "-e", GROWS),
)


@dataclass(frozen=True)
class Server:
    """Forks its workers, which give up their rights, and is ended after some requests. {folder} is
    one of its own."""

    command: tuple[str, ...]
    load: str
    configuration: str = ""


SERVER_S = 8
SERVERS = (
    Server(
        ("/usr/sbin/nginx", "-c", "{folder}/configuration"),
        "ab -q -n 20000 -c 8 http://127.0.0.1:18080/",
        "daemon off; user www-data; worker_processes 2; pid {folder}/pid; error_log /dev/null;\n"
        "events {{}}\n"
        "http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;\n"
        "fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n"
        "server {{ listen 127.0.0.1:18080; root /usr/share/doc; autoindex on; }} }}\n",
    ),
    Server(
        ("/usr/sbin/apache2", "-DFOREGROUND", "-f", "{folder}/configuration"),
        "ab -q -n 20000 -c 8 http://127.0.0.1:18080/",
        "ServerRoot {folder}\nServerName x\nPidFile {folder}/pid\nListen 127.0.0.1:18080\n"
        "User www-data\nGroup www-data\nErrorLog {folder}/log\nDocumentRoot /usr/share/doc\n"
        "LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so\n"
        "LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n"
        "LoadModule autoindex_module /usr/lib/apache2/modules/mod_autoindex.so\n"
        "Mutex pthread\nStartServers 2\n",
    ),
    Server(
        ("/usr/bin/redis-server", "--port", "18080", "--dir", "{folder}"),
        "redis-benchmark -q -p 18080 -n 20000 -r 10000 -t set,get && redis-cli -p 18080 bgsave",
    ),
)

PTRACE_TRACEME, PTRACE_CONT, PTRACE_GETREGS, PTRACE_SETREGS = 0, 7, 12, 13
PTRACE_SYSCALL, PTRACE_SETOPTIONS = 24, 0x4200
TRACE_ALL = 0x2 | 0x4 | 0x8 | 0x100000  # forks, vforks, clones; none outlives this script
REGISTERS, RIP = 27, 16  # words of user_regs_struct, and where the program counter is
WALL, WNOTHREAD = 0x40000000, 0x20000000
BREAKPOINT = b"\xcc"

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request: int, pid: int, data: object = 0) -> bool:
    return bool(libc.ptrace(request, pid, None, data) == 0)


@dataclass
class Functions:
    """The library's functions by offset, and the first byte of each."""

    names: dict[int, list[str]]
    bytes: dict[int, bytes]

    @classmethod
    def of(cls, library: Path) -> Functions:
        listing = subprocess.run(
            ["nm", "-S", "--defined-only", str(library)], check=True, text=True, capture_output=True
        ).stdout
        names: dict[int, list[str]] = {}
        for line in listing.splitlines():
            words = line.split()
            if len(words) == 4 and words[2] in "tTwWi":
                names.setdefault(int(words[0], 16), []).append(words[3])
        # Code lies in the file at the offset that is its address: checked, not assumed.
        content = library.read_bytes()
        return cls(names, {at: content[at : at + 1] for at in names})


@dataclass
class Traced:
    functions: Functions
    library: Path
    base: dict[int, int] = field(default_factory=dict)  # of each process that has the breakpoints
    called: list[int] = field(default_factory=list)

    def arm(self, pid: int) -> None:
        """Puts the breakpoints in, once the library is mapped."""
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        mine = [line.split() for line in lines if line.endswith(str(self.library))]
        if not any("x" in words[1] for words in mine):
            return
        self.base[pid] = int(mine[0][0].split("-")[0], 16)
        for at, byte in self.functions.bytes.items():
            found = self.poke(pid, at, BREAKPOINT)
            if found != byte:
                sys.exit(f"{self.library}: the code in memory is not that of the file")

    def poke(self, pid: int, at: int, byte: bytes) -> bytes:
        with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
            memory.seek(self.base[pid] + at)
            before = memory.read(1)
            memory.seek(self.base[pid] + at)
            memory.write(byte)
        return before

    def hit(self, pid: int, owner: int) -> bool:
        """Whether the thread stopped at one of ours; it then goes on without it."""
        registers = (ctypes.c_ulong * REGISTERS)()
        ptrace(PTRACE_GETREGS, pid, ctypes.byref(registers))
        at = registers[RIP] - 1 - self.base.get(owner, 0)
        if at not in self.functions.bytes:
            return False
        self.poke(owner, at, self.functions.bytes[at])
        registers[RIP] -= 1
        ptrace(PTRACE_SETREGS, pid, ctypes.byref(registers))
        self.called.append(at)
        return True


def owner_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^Tgid:\s*(\d+)", status, re.MULTILINE)
    return int(found[1]) if found else pid


def start(command: tuple[str, ...], library: Path) -> int:
    pid = os.fork()
    if pid == 0:
        os.setsid()  # Apache ends its whole group
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        ptrace(PTRACE_TRACEME, 0)
        os.execvpe(command[0], command, {**os.environ, "LD_PRELOAD": str(library)})
    return pid


def use_and_end(server: int, load: str) -> int:
    """The status of the load."""
    try:
        time.sleep(SERVER_S / 2)
        done = subprocess.run(load, shell=True, check=False, stdout=subprocess.DEVNULL)
        time.sleep(SERVER_S / 2)  # some rounds of the background thread
        return done.returncode
    finally:
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGTERM)


def run_server(server: Server, library: Path, functions: Functions) -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        Path(folder, "configuration").write_text(server.configuration.format(folder=folder))
        command = tuple(word.format(folder=folder) for word in server.command)
        return run(command, library, functions, server.load)


def run(command: tuple[str, ...], library: Path, functions: Functions, load: str = "") -> list[int]:
    """Offsets of the functions that the command called, in order of their first call."""
    traced = Traced(functions, library)
    first = start(command, library)
    if not load:
        follow(first, traced)
        return traced.called
    with ThreadPoolExecutor(1) as beside:
        used = beside.submit(use_and_end, first, load)
        try:
            follow(first, traced)
        finally:
            with suppress(ProcessLookupError):  # it has ended, unless it could not be followed
                os.killpg(first, signal.SIGKILL)
        if used.result() != 0:
            sys.exit(f"{command[0]}: its load ended with status {used.result()}: {load}")
    return traced.called


def follow(first: int, traced: Traced) -> None:
    """Until the process and all that it started have ended."""
    os.waitpid(first, 0)
    ptrace(PTRACE_SETOPTIONS, first, TRACE_ALL)
    ptrace(PTRACE_SYSCALL, first)
    while True:
        try:
            pid, status = os.waitpid(-1, WALL | WNOTHREAD)  # the load is its own thread's child
        except ChildProcessError:
            return
        if not os.WIFSTOPPED(status):
            continue
        number, event = os.WSTOPSIG(status), status >> 16
        pass_on = 0
        owner = owner_of(pid)
        if pid == first and first not in traced.base:
            traced.arm(first)
        elif owner not in traced.base and owner != first and first in traced.base:
            traced.base[owner] = traced.base[first]  # a fork has them
        elif number != signal.SIGTRAP or (event == 0 and not traced.hit(pid, owner)):
            pass_on = 0 if number in (signal.SIGTRAP, signal.SIGSTOP) else number
        armed = owner in traced.base
        ptrace(PTRACE_CONT if armed else PTRACE_SYSCALL, pid, pass_on)


def section_of(name: str) -> str:
    """What the compiler names a function's section after."""
    name = re.sub(r"\.(constprop|isra|part|cold)\..*$", "", name)
    return re.sub(r"C1E", "C2E", name)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", type=Path, default=ROOT / "build/lib/libstrata.so")
    arguments = parser.parse_args()
    library = arguments.library.resolve(strict=True)
    needed = {word for s in SERVERS for word in (s.command[0], s.load.split()[0])}
    lacking = sorted(word for word in needed if shutil.which(word) is None)
    if lacking:
        sys.exit(f"not found (nginx, apache2, apache2-utils, redis): {', '.join(lacking)}")
    functions = Functions.of(library)
    small: Counter[str] = Counter()
    large: Counter[str] = Counter()
    first_seen: dict[str, int] = {}

    def note(program: str, called: list[int], users: Counter[str]) -> None:
        names = [name for at in called for name in functions.names[at]]
        for name in dict.fromkeys(map(section_of, names)):
            users[name] += 1
            first_seen.setdefault(name, len(first_seen))
        print(f"{program}: {len(names)} functions")

    for command in PROGRAMS:
        note(command[0], run(command, library, functions), large if GROWS in command else small)
    for server in SERVERS:
        note(server.command[0], run_server(server, library, functions), large)
    names = sorted(first_seen, key=lambda name: (-small[name], -large[name], first_seen[name]))
    ORDER.write_text(HEAD + "".join(f"{name}\n" for name in names))
    print(f"{ORDER.relative_to(ROOT)}: {len(names)} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
