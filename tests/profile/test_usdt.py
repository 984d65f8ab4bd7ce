"""The otel_memory probes: where the notes say they are, what they pass, and when they fire.

The kernel's own uprobes listen to a copy of the library, by perf_event_open: they count themselves
into the probes' semaphores and sample the registers that the notes name.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import mmap
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from blackbox import Lab, need

PROGRAM = Path(__file__).resolve().parent / "usdt_cases.c"
PMU = Path("/sys/bus/event_source/devices/uprobe/type")
ARGUMENTS = {"alloc": "8@%rdi 8@%rsi 8@%rdx", "free": "8@%rdi"}
NOTE = re.compile(
    r"Provider: (\S+)\s+Name: (\S+)\s+Location: (\S+), Base: (\S+), Semaphore: (\S+)\s+"
    r"Arguments: *([^\n]*)"
)
INTERVAL = 32 << 10
MIB = 1 << 20


@dataclass(frozen=True)
class Probe:
    """One note, in addresses of the file."""

    provider: str
    location: int
    base: int
    semaphore: int
    arguments: str


def readelf(*arguments: str | Path) -> str:
    command = [need("readelf"), *map(str, arguments)]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def probes(path: Path) -> dict[str, Probe]:
    """The notes of a file by name."""
    found = {}
    for provider, name, location, base, semaphore, arguments in NOTE.findall(readelf("-nW", path)):
        found[name] = Probe(
            provider, int(location, 16), int(base, 16), int(semaphore, 16), arguments.strip()
        )
    return found


def section(path: Path, name: str) -> tuple[int, int, str]:
    """Address, size and flags of a section."""
    pattern = rf" {re.escape(name)} +(\w+) +(\w+) +\w+ (\w+) +\w+ +([A-Z]*)"
    match = re.search(pattern, readelf("-SW", path))
    assert match is not None, f"{path} has no section {name}"
    assert match[1] == "PROGBITS", "what is in no file has no place that a tool could find"
    return int(match[2], 16), int(match[3], 16), match[4]


def offset_in_file(path: Path, address: int) -> int:
    for line in readelf("-lW", path).splitlines():
        fields = line.split()
        if fields[:1] == ["LOAD"]:
            offset, start, _, size = (int(text, 16) for text in fields[1:5])
            if start <= address < start + size:
                return offset + address - start
    raise AssertionError(f"nothing is loaded at {address:#x}")


def check_notes(path: Path) -> None:
    found = probes(path)
    base, _, _ = section(path, ".stapsdt.base")
    start, length, flags = section(path, ".probes")
    assert "W" in flags
    for name, arguments in ARGUMENTS.items():
        probe = found[name]
        assert (probe.provider, probe.arguments) == ("otel_memory", arguments)
        assert probe.base == base, "tools would take the difference off the location"
        assert start <= probe.semaphore < start + length and probe.semaphore % 2 == 0
        data = path.read_bytes()
        assert data[offset_in_file(path, probe.location)] == 0x90
        at = offset_in_file(path, probe.semaphore)
        assert data[at : at + 2] == b"\0\0"
    assert found["alloc"].semaphore != found["free"].semaphore


def test_notes_of_the_library(lab: Lab) -> None:
    check_notes(lab.require_strata())


def test_notes_of_the_archive_in_a_program_with_probes_of_its_own(lab: Lab, tmp_path: Path) -> None:
    lab.require_strata()
    archive = os.environ.get("STRATA_ARCHIVE")
    if archive is None:
        pytest.skip("STRATA_ARCHIVE names no archive")
    edge = PROGRAM.parent.parent / "edge"
    for order in ("first", "last"):
        program = tmp_path / order
        parts = [str(PROGRAM), "-Wl,--undefined=malloc", archive]
        if order == "last":
            parts.reverse()
        options = [f"-I{edge}", "-DWITH_OWN_PROBE", "-O1", "-Wl,--gc-sections"]
        subprocess.run([need("gcc"), *options, *parts, "-o", str(program)], check=True)
        check_notes(program)
        assert probes(program)["probe"].base == probes(program)["alloc"].base
        lab.run(program, "own_probe", preload=False).silent()


# ---- live


@dataclass(frozen=True)
class Hit:
    """A probe that fired: when, and its first three arguments."""

    time: int
    name: str
    pointer: int
    size: int
    weight: int


class Listener:
    """A uprobe on one CPU, with its ring of samples."""

    PAGES = 256
    OPEN = 298  # perf_event_open
    TIME, REGISTERS = 1 << 2, 1 << 12
    RDX_RSI_RDI = 1 << 3 | 1 << 4 | 1 << 5  # sampled in the order of the bits

    def __init__(self, path: Path, probe: Probe, cpu: int) -> None:
        self._path = ctypes.create_string_buffer(os.fsencode(path))
        attributes = struct.pack(
            "=IIQQQQQIIQQQQIiQIHH",
            *(int(PMU.read_text()), 112, offset_in_file(path, probe.semaphore) << 32, 1),
            *(self.TIME | self.REGISTERS, 0, 0, 0, 0),
            *(ctypes.addressof(self._path), offset_in_file(path, probe.location)),
            *(0, self.RDX_RSI_RDI, 0, 0, 0, 0, 0, 0),
        )
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.syscall(self.OPEN, attributes, -1, cpu, -1, 8)
        if fd < 0 and ctypes.get_errno() in (errno.EPERM, errno.EACCES):
            pytest.skip("a sandbox refuses uprobes")
        assert fd >= 0, f"the kernel gives no uprobe: {os.strerror(ctypes.get_errno())}"
        self.fd = fd
        self.ring = mmap.mmap(fd, (1 + self.PAGES) * mmap.PAGESIZE)

    def hits(self, name: str) -> Iterator[Hit]:
        head, tail = struct.unpack_from("=QQ", self.ring, 1024)
        data = self.ring[mmap.PAGESIZE :]
        assert head - tail < len(data), "the ring was too small"
        while tail < head:
            kind, _, size = struct.unpack_from("=IHH", data, tail)
            assert kind == 9, f"record {kind}: samples were lost"
            time, abi, rdx, rsi, rdi = struct.unpack_from("=QQQQQ", data, tail + 8)
            assert abi == 2
            yield Hit(time, name, rdi, rsi, rdx)
            tail += size

    def close(self) -> None:
        self.ring.close()
        os.close(self.fd)


def watch(lab: Lab, library: Path, names: tuple[str, ...]) -> list[Hit]:
    """What the probes fire while a program runs on the library."""
    if not PMU.exists() or os.geteuid() != 0:
        pytest.skip("needs root and a kernel with uprobes")
    cpu = min(os.sched_getaffinity(0))
    found = probes(library)
    program = lab.build(PROGRAM)
    with contextlib.ExitStack() as stack:
        listeners = {name: Listener(library, found[name], cpu) for name in names}
        for listener in listeners.values():
            stack.callback(listener.close)
        env = {"LD_PRELOAD": str(library), "STRATA_SAMPLE": str(INTERVAL)}
        lab.run(program, "mix", env=env, preexec_fn=lambda: os.sched_setaffinity(0, {cpu})).silent()
        return sorted(
            (hit for name, listener in listeners.items() for hit in listener.hits(name)),
            key=lambda hit: hit.time,
        )


@pytest.fixture
def library(lab: Lab, tmp_path: Path) -> Path:
    """A copy, because uprobes go by file: those of the tests beside this one stay out."""
    return Path(shutil.copy(lab.require_strata(), tmp_path / "libstrata.so"))


def test_samples_and_their_frees_fire(lab: Lab, library: Path) -> None:
    live: dict[int, Hit] = {}
    allocated = 0
    for hit in watch(lab, library, ("alloc", "free")):
        if hit.name == "free":
            assert live.pop(hit.pointer, None) is not None, "freed, but never allocated"
            continue
        assert hit.pointer not in live, "allocated twice"
        expected = hit.size / INTERVAL
        assert hit.weight == pytest.approx(hit.size / -math.expm1(-expected), rel=1e-4)
        live[hit.pointer] = hit
        allocated += hit.weight
    assert live
    # 64 MiB by malloc, and 32 by realloc, which counts as an allocation of all its bytes. Thousands
    # of samples stand behind each figure.
    assert allocated == pytest.approx(96 * MIB, rel=0.15)
    small = sum(hit.weight for hit in live.values() if hit.size == 8 << 10)
    grown = sum(hit.weight for hit in live.values() if hit.size == 16 << 10)
    assert small == pytest.approx(16 * MIB, rel=0.25)
    assert grown == pytest.approx(32 * MIB, rel=0.25)


def test_probes_have_listeners_of_their_own(lab: Lab, library: Path) -> None:
    hits = watch(lab, library, ("free",))
    assert {hit.name for hit in hits} == {"free"} and len(hits) > 100
