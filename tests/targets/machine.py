"""A machine with a kernel of Debian's in qemu-system: boots, runs commands, says how they end.

The files it sees are an archive that this writes: an init of ours, the C library, and what the
caller adds.
"""

from __future__ import annotations

import lzma
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from blackbox import ROOT, need

LIBRARIES = ("libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6")
INIT = Path(__file__).resolve().parent / "system_init.c"
END = re.compile(r"^== begin (\d+) .*?$(.*?)^== end \1 (\d+)\r?$", re.MULTILINE | re.DOTALL)


def entry(name: str, mode: int, content: bytes, number: int) -> bytes:
    """One file of a cpio archive, in the kernel's format (newc)."""
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08x" % value for value in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)


@dataclass(frozen=True)
class Kind:
    """An architecture and a release of Debian, whose kernel it runs."""

    architecture: str
    suite: str
    compiler: str
    libraries: Path
    loader: str
    emulator: tuple[str, ...]
    console: str


ARM = Kind(
    "arm64",
    "bookworm",
    "aarch64-linux-gnu-gcc",
    Path("/usr/aarch64-linux-gnu/lib"),
    "lib/ld-linux-aarch64.so.1",
    ("qemu-system-aarch64", "-M", "virt", "-cpu", "max"),
    "ttyAMA0",
)
# Linux 6.12, with DAMON, which bookworm's leaves out.
NEWER = Kind(
    "amd64",
    "trixie",
    "gcc",
    Path("/lib/x86_64-linux-gnu"),
    "lib64/ld-linux-x86-64.so.2",
    ("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max"),
    "ttyS0",
)


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it wrote."""

    status: int
    output: str


@dataclass
class Machine:
    """What the machine will hold; `run` starts it."""

    kind: Kind
    folder: Path
    files: dict[str, Path] = field(default_factory=dict)

    def add(self, path: Path) -> str:
        """Takes a file along; its name in the machine."""
        self.files[path.name] = path
        return f"/{path.name}"

    def kernel(self) -> Path:
        """Where its image lies; it is fetched once."""
        script = [str(ROOT / "scripts/debian-kernel.sh"), self.kind.architecture, self.kind.suite]
        return Path(
            subprocess.run(script, check=True, capture_output=True, text=True).stdout.strip()
        )

    def add_module(self, name: str) -> str:
        """Takes a module of the kernel along."""
        modules = self.kernel().parent.parent / "modules"
        (packed,) = modules.rglob(f"{name}.ko*")
        module = self.folder / f"{name}.ko"
        module.write_bytes(
            lzma.decompress(packed.read_bytes()) if packed.suffix == ".xz" else packed.read_bytes()
        )
        return self.add(module)

    def _archive(self, commands: list[str]) -> bytes:
        init = self.folder / "init"
        subprocess.run(
            [need(self.kind.compiler), "-O1", "-static", str(INIT), "-o", str(init)],
            check=True,
        )
        parts = [
            ("lib", 0o040755, b""),
            ("lib64", 0o040755, b""),
            ("dev", 0o040755, b""),
            ("init", 0o100755, init.read_bytes()),
        ]
        parts.append(("commands", 0o100644, "".join(f"{line}\n" for line in commands).encode()))
        loader = self.kind.loader
        libraries = {loader: Path(loader).name} | {f"lib/{name}": name for name in LIBRARIES}
        parts += [
            (name, 0o100755, (self.kind.libraries / file).read_bytes())
            for name, file in libraries.items()
        ]
        parts += [(name, 0o100755, path.read_bytes()) for name, path in self.files.items()]
        whole = b"".join(entry(*part, number) for number, part in enumerate(parts, 1))
        return whole + entry("TRAILER!!!", 0, b"", 0)

    def run(self, commands: list[str], cpus: int = 4, timeout: float = 600) -> list[Ended]:
        """Boots, runs the commands one after the other and gives how each ended."""
        image = self.folder / "initramfs"
        image.write_bytes(self._archive(commands))
        emulator, *options = self.kind.emulator
        command = [need(emulator), *options, "-m", "2048", "-smp", str(cpus)]
        command += ["-kernel", str(self.kernel()), "-initrd", str(image), "-nographic"]
        command += ["-nic", "none", "-no-reboot"]
        command += ["-append", f"console={self.kind.console} panic=-1 quiet"]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        (self.folder / "console").write_text(done.stdout)
        found = [Ended(int(status), text) for _, text, status in END.findall(done.stdout)]
        assert "== all done" in done.stdout, done.stdout[-4000:]
        assert len(found) == len(commands), done.stdout[-4000:]
        return found
