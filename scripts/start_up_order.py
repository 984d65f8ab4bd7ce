#!/usr/bin/env python3
"""Writes cmake/start_up_order.txt: the functions of the library that small programs run, and idle
workers of servers.

The kernel maps file pages by windows of 64 KiB around each one that is touched, but none beyond its
segment, so a small program that runs 60 KiB of code here and there has the whole library in memory.
The linker puts the listed functions side by side, each part into a segment of its own
(cmake/StrataOrder.cmake): a small program has the first two parts in memory, an idle worker of a
server the second and the third, and the fourth once it served. A name that is gone, or not on the
list, costs a window: run this once in a while, on a release build, as root, with nginx, Redis and
Apache there. scripts/tests/test_start_up_order.py fails where it is time.

Each program runs with a breakpoint on every function of the library; the first call of each is
noted, in a forked process anew: a worker has none of its parent's code in memory.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORDER = ROOT / "cmake" / "start_up_order.txt"
HEAD = "# Written by scripts/start_up_order.py: what programs run, by part of the library.\n"
# 20 MiB, and two rounds of the background thread.
GROWS = (
    "$h{$_} = 'x' x ($_ % 500) for 1..60000; select(undef, undef, undef, 2.5);"
    "delete $h{$_} for 1..30000; $h{$_} = 'x' x 9000 for 1..2000"
)
# Common programs of Debian.
SMALL = (
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
    ("gzip", "-c", "/etc/services"),
    ("du", "-s", "/usr/include"),
    ("ps", "aux"),
    ("awk", "{n[$1]++} END {for (k in n) print k, n[k]}", "/etc/services"),
    ("python3", "-c", "pass"),
)
# Of a middling heap.
LARGE = (
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
    beside: tuple[Path, ...] = ()  # preloaded, too


SERVER_S = 8
WINDOW = 64 << 10  # bytes that one fault brings in
LITTLE = 4 << 10  # bytes that one program may add to what most run
NGINX_ON_REAPS = ROOT / "build/servers/ngx_strata_module.so"
APR_ON_REAPS = ROOT / "build/lib/libstrata-apr.so"


def nginx(first_line: str = "") -> Server:
    return Server(
        ("/usr/sbin/nginx", "-c", "{folder}/configuration"),
        "ab -q -k -n 20000 -c 8 http://127.0.0.1:18080/ && "
        "curl -s http://127.0.0.1:18080/bash/copyright",
        first_line + "daemon off; user www-data; worker_processes 2; pid {folder}/pid;\n"
        "error_log /dev/null; events {{}}\n"
        "http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;\n"
        "fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n"
        "server {{ listen 127.0.0.1:18080; root /usr/share/doc; autoindex on; }} }}\n",
    )


def apache(mpm: str, beside: tuple[Path, ...] = ()) -> Server:
    return Server(
        ("/usr/sbin/apache2", "-DFOREGROUND", "-f", "{folder}/configuration"),
        "ab -q -k -n 20000 -c 8 http://127.0.0.1:18080/",
        "ServerRoot {folder}\nServerName x\nPidFile {folder}/pid\nListen 127.0.0.1:18080\n"
        "User www-data\nGroup www-data\nErrorLog {folder}/log\nDocumentRoot /usr/share/doc\n"
        f"LoadModule mpm_{mpm}_module /usr/lib/apache2/modules/mod_mpm_{mpm}.so\n"
        "LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n"
        "LoadModule autoindex_module /usr/lib/apache2/modules/mod_autoindex.so\n"
        "Mutex pthread\nStartServers 2\n",
        beside,
    )


SERVERS = (
    nginx(),
    apache("prefork"),
    apache("event"),
    nginx(f"load_module {NGINX_ON_REAPS};\n"),
    apache("event", (APR_ON_REAPS,)),
    Server(
        ("/usr/bin/redis-server", "--port", "18080", "--dir", "{folder}"),
        "redis-benchmark -q -p 18080 -n 20000 -r 10000 -t set,get && redis-cli -p 18080 bgsave",
    ),
)

PTRACE_TRACEME, PTRACE_CONT, PTRACE_GETREGS, PTRACE_SETREGS = 0, 7, 12, 13
PTRACE_SYSCALL, PTRACE_SETOPTIONS = 24, 0x4200
TRACE_ALL = 0x2 | 0x4 | 0x8 | 0x100000  # forks, vforks, clones; none outlives this script
# Words of user_regs_struct, and where the program counter and the stack pointer are.
REGISTERS, RIP, RSP = 27, 16, 19
WALL, WNOTHREAD = 0x40000000, 0x20000000
PT_LOAD = 1
BREAKPOINT = b"\xcc"
LETS_GO = "LetGoOfStartCode"  # of pages with breakpoints
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request: int, pid: int, data: object = 0) -> bool:
    return bool(libc.ptrace(request, pid, None, data) == 0)


@dataclass
class Functions:
    """The library's functions by offset, and the first byte of each; the size of each section."""

    names: dict[int, list[str]]
    bytes: dict[int, bytes]
    sizes: dict[str, int]

    @classmethod
    def of(cls, library: Path) -> Functions:
        listing = subprocess.run(
            ["nm", "-S", "--defined-only", str(library)], check=True, text=True, capture_output=True
        ).stdout
        names: dict[int, list[str]] = {}
        sizes: Counter[str] = Counter()
        for line in listing.splitlines():
            words = line.split()
            if len(words) == 4 and words[2] in "tTwWi":
                aliases = names.setdefault(int(words[0], 16), [])
                aliases.append(words[3])
                if len(aliases) == 1:
                    sizes[section_of(words[3])] += int(words[1], 16)
        return cls(names, bytes_at(library, names), sizes)


def bytes_at(library: Path, addresses: Iterable[int]) -> dict[int, bytes]:
    """The byte of the file that is mapped at each address."""
    content = library.read_bytes()
    first, size, count = (
        *struct.unpack_from("<Q", content, 32),
        *struct.unpack_from("<HH", content, 54),
    )
    segments = [
        struct.unpack_from("<IIQQQQ", content, at)
        for at in range(first, first + size * count, size)
    ]
    loaded = [(at, end, offset) for kind, _, offset, at, _, end in segments if kind == PT_LOAD]
    found = {}
    for address in addresses:
        for at, length, offset in loaded:
            if at <= address < at + length:
                found[address] = content[offset + address - at :][:1]
    return found


@dataclass
class Traced:
    functions: Functions
    library: Path
    base: dict[int, int] = field(default_factory=dict)  # of each process that has the breakpoints
    called: list[int] = field(default_factory=list)
    forked: list[int] = field(default_factory=list)  # what was called after a fork
    idle: list[int] = field(default_factory=list)  # the same before there was any load

    def arm(self, pid: int) -> None:
        """Puts the breakpoints in, once the library is mapped."""
        base = self.mapped_at(pid)
        if base is None:
            return
        self.base[pid] = base
        for byte, found in zip(self.functions.bytes.values(), self.break_all(pid), strict=True):
            if found != byte:
                sys.exit(f"{self.library}: the code in memory is not that of the file")

    def mapped_at(self, pid: int) -> int | None:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        mine = [line.split() for line in lines if line.endswith(str(self.library))]
        if not any("w" in words[1] for words in mine):  # the last that the loader maps
            return None
        return int(mine[0][0].split("-")[0], 16)

    def arm_again(self, parent: int, pid: int) -> None:
        """A fork has what its parent had, less those that were hit."""
        self.base[pid] = self.base[parent]
        if self.mapped_at(pid) != self.base[pid]:
            return  # it runs another program by now
        self.break_all(pid)

    def break_all(self, pid: int) -> list[bytes]:
        """Puts a breakpoint on every function; what stood there."""
        before = []
        with self.memory_of(pid) as memory:
            for at in self.functions.bytes:
                before.append(os.pread(memory.fileno(), 1, self.base[pid] + at))
                os.pwrite(memory.fileno(), BREAKPOINT, self.base[pid] + at)
        return before

    def memory_of(self, pid: int) -> FileIO:
        return Path(f"/proc/{pid}/mem").open("r+b", buffering=0)

    def hit(self, pid: int, owner: int) -> bool:
        """Whether the thread stopped at one of ours; it then goes on without it."""
        registers = (ctypes.c_ulong * REGISTERS)()
        ptrace(PTRACE_GETREGS, pid, ctypes.byref(registers))
        at = registers[RIP] - 1 - self.base.get(owner, 0)
        if at not in self.functions.bytes:
            return False
        with self.memory_of(owner) as memory:
            if any(LETS_GO in name for name in self.functions.names[at]):
                # Returns at once, each time.
                top = os.pread(memory.fileno(), 8, registers[RSP])
                (registers[RIP],) = struct.unpack("<Q", top)
                registers[RSP] += 8
            else:
                os.pwrite(memory.fileno(), self.functions.bytes[at], registers[RIP] - 1)
                registers[RIP] -= 1
        ptrace(PTRACE_SETREGS, pid, ctypes.byref(registers))
        self.called.append(at)
        if owner != next(iter(self.base)):
            self.forked.append(at)
        return True


def owner_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^Tgid:\s*(\d+)", status, re.MULTILINE)
    return int(found[1]) if found else pid


def start(command: tuple[str, ...], libraries: Sequence[Path]) -> int:
    pid = os.fork()
    if pid == 0:
        os.setsid()  # Apache ends its whole group
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        ptrace(PTRACE_TRACEME, 0)
        os.execvpe(command[0], command, {**os.environ, "LD_PRELOAD": ":".join(map(str, libraries))})
    return pid


def use_and_end(server: int, load: str, traced: Traced) -> int:
    """The status of the load."""
    try:
        time.sleep(SERVER_S / 2)
        traced.idle = list(traced.forked)
        done = subprocess.run(load, shell=True, check=False, stdout=subprocess.DEVNULL)
        time.sleep(SERVER_S / 2)  # some rounds of the background thread
        return done.returncode
    finally:
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGTERM)


def run_server(server: Server, library: Path, functions: Functions) -> Traced:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        Path(folder, "configuration").write_text(server.configuration.format(folder=folder))
        command = tuple(word.format(folder=folder) for word in server.command)
        return run(command, library, functions, server.load, server.beside)


def run(
    command: tuple[str, ...],
    library: Path,
    functions: Functions,
    load: str = "",
    beside: tuple[Path, ...] = (),
) -> Traced:
    """What the command called."""
    traced = Traced(functions, library)
    first = start(command, (library, *beside))
    if not load:
        follow(first, traced)
        return traced
    with ThreadPoolExecutor(1) as executor:
        used = executor.submit(use_and_end, first, load, traced)
        try:
            follow(first, traced)
        finally:
            with suppress(ProcessLookupError):  # it has ended, unless it could not be followed
                os.killpg(first, signal.SIGKILL)
        if used.result() != 0:
            sys.exit(f"{command[0]}: its load ended with status {used.result()}: {load}")
    return traced


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
            traced.arm_again(first, owner)
        elif number != signal.SIGTRAP or (event == 0 and not traced.hit(pid, owner)):
            pass_on = 0 if number in (signal.SIGTRAP, signal.SIGSTOP) else number
        armed = owner in traced.base
        ptrace(PTRACE_CONT if armed else PTRACE_SYSCALL, pid, pass_on)


def section_of(name: str) -> str:
    """What the compiler names a function's section after."""
    name = re.sub(r"\.(constprop|isra|part|cold)\..*$", "", name)
    return re.sub(r"C1E", "C2E", name)


def patterns_of(names: list[str], all_names: Iterable[str]) -> list[str]:
    """The names, without their parameters where that fits no other section: parameters change
    more often than names."""
    sections = Counter(map(stem_of, all_names))
    stems = ((name, stem_of(name)) for name in names)
    return [f"{stem}*" if stem != name and sections[stem] == 1 else name for name, stem in stems]


def stem_of(name: str) -> str:
    return name[: end_of_nested_name(name)]


# What stands in a mangled name and is one piece: a constructor, a number, a substitution, a length
# and so many letters, and what E ends.
PIECE = re.compile(
    r"[CD]\d|L[a-z]n?\d+E|S(?:[0-9A-Z]*_|[a-z])|(?P<length>\d+)|(?P<start>[NIJX])|(?P<end>E)|."
)


def end_of_nested_name(name: str) -> int | None:
    """Where the parameters of _ZN...E begin; None for other names."""
    at, depth = 2, 0
    while name.startswith("_ZN") and at < len(name):
        piece = PIECE.match(name, at)
        assert piece is not None
        at = piece.end() + int(piece["length"] or 0)
        depth += bool(piece["start"]) - bool(piece["end"])
        if depth == 0:
            return at
    return None


@dataclass
class Uses:
    """What each program runs, and each server's workers before they serve, and in all."""

    small: list[list[str]] = field(default_factory=list)
    idle: list[list[str]] = field(default_factory=list)
    workers: list[list[str]] = field(default_factory=list)
    large: list[list[str]] = field(default_factory=list)
    later: set[str] = field(default_factory=set)  # what small ones call once the start is over

    def in_order(self, sizes: dict[str, int]) -> dict[str, list[str]]:
        """By part of the library: what most small programs run at the start alone and no idle
        worker; what most run later, or those run, too; what workers alone run before they serve,
        and then; what some small programs run; the rest. Each such that a program needs a short
        piece from the start: next comes what the one lacks that lacks least."""
        users = Counter(name for program in self.small for name in program)
        small = set(users)
        most = {name for name in small if 2 * users[name] > len(self.small)}
        idle = {name for worker in self.idle for name in worker}
        placed: set[str] = set()

        def size(names: list[str]) -> int:
            return sum(sizes.get(name, 0) for name in names)

        def place(
            programs: list[list[str]], names: set[str] | None = None, room: float = math.inf
        ) -> list[str]:
            order: dict[str, None] = {}
            left = programs
            while left:
                left = [
                    [n for n in program if n not in placed and (names is None or n in names)]
                    for program in left
                ]
                left.sort(key=size)
                if size(left[0]) > room:
                    break
                order.update(dict.fromkeys(left[0]))
                placed.update(left.pop(0))
            return list(order)

        return {
            "start_up": place(self.small, most - idle - self.later)
            + place(self.small, small - idle - self.later, LITTLE),
            "common": place([*self.idle, *self.small], (small & idle) | (most & self.later)),
            "idle": place(self.idle),
            "serving": place(self.workers, set().union(*self.workers) - small),
            "some": place(self.small),
            "large": place([*self.workers, *self.large]),
        }


def sections_of(traced: Traced, called: list[int]) -> list[str]:
    names = (name for at in called for name in traced.functions.names[at])
    return list(dict.fromkeys(map(section_of, names)))


def called_by(program: str, traced: Traced) -> list[str]:
    names = sections_of(traced, traced.called)
    print(f"{program}: {len(names)} functions", flush=True)
    return names


def after_the_start(names: list[str]) -> list[str]:
    """What is called first once the program lets go of the start's code, that call included."""
    lets_go = (at for at, name in enumerate(names) if LETS_GO in name)
    return names[next(lets_go, len(names)) :]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", type=Path, default=ROOT / "build/lib/libstrata.so")
    arguments = parser.parse_args()
    library = arguments.library.resolve(strict=True)
    needed = {word for s in SERVERS for word in (s.command[0], s.load.split()[0])}
    needed |= {str(NGINX_ON_REAPS), str(APR_ON_REAPS)}
    lacking = sorted(word for word in needed if shutil.which(word) is None)
    if lacking:
        sys.exit(f"not found (nginx, apache2, apache2-utils, redis): {', '.join(lacking)}")
    functions = Functions.of(library)
    uses = Uses()
    for command in (*SMALL, *LARGE):
        names = called_by(command[0], run(command, library, functions))
        (uses.small if command in SMALL else uses.large).append(names)
        uses.later.update(after_the_start(names))
    for server in SERVERS:
        traced = run_server(server, library, functions)
        uses.idle.append(sections_of(traced, traced.idle))
        uses.workers.append(sections_of(traced, traced.forked))
        uses.large.append(called_by(server.command[0], traced))
    text = HEAD
    for part, names in uses.in_order(functions.sizes).items():
        text += "".join(f"{name}\n" for name in [f"{part}:", *patterns_of(names, functions.sizes)])
        print(
            f"{part}: {len(names)} sections, {sum(functions.sizes.get(n, 0) for n in names)} bytes"
        )
    ORDER.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
