"""A machine with Debian's arm64 kernel in qemu-system: boots, runs commands, says how they end.

The files it sees are an archive that this writes: an init of ours, the cross C library, and what
the caller adds.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from blackbox import ROOT, need

SYSROOT = Path("/usr/aarch64-linux-gnu/lib")
LIBRARIES = ("ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6")
INIT = Path(__file__).resolve().parent / "system_init.c"
END = re.compile(r"^== begin (\d+) .*?$(.*?)^== end \1 (\d+)\r?$", re.MULTILINE | re.DOTALL)


def entry(name: str, mode: int, content: bytes, number: int) -> bytes:
    """One file of a cpio archive, in the kernel's format (newc)."""
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08x" % value for value in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it wrote."""

    status: int
    output: str


@dataclass
class ArmMachine:
    """What the machine will hold; `run` starts it."""

    folder: Path
    files: dict[str, Path] = field(default_factory=dict)

    def add(self, path: Path) -> str:
        """Takes a file along; its name in the machine."""
        self.files[path.name] = path
        return f"/{path.name}"

    def _archive(self, commands: list[str]) -> bytes:
        init = self.folder / "init"
        subprocess.run(
            [need("aarch64-linux-gnu-gcc"), "-O1", "-static", str(INIT), "-o", str(init)],
            check=True,
        )
        parts = [
            ("lib", 0o040755, b""),
            ("dev", 0o040755, b""),
            ("init", 0o100755, init.read_bytes()),
        ]
        parts.append(("commands", 0o100644, "".join(f"{line}\n" for line in commands).encode()))
        parts += [(f"lib/{name}", 0o100755, (SYSROOT / name).read_bytes()) for name in LIBRARIES]
        parts += [(name, 0o100755, path.read_bytes()) for name, path in self.files.items()]
        whole = b"".join(entry(*part, number) for number, part in enumerate(parts, 1))
        return whole + entry("TRAILER!!!", 0, b"", 0)

    def run(self, commands: list[str], cpus: int = 4, timeout: float = 600) -> list[Ended]:
        """Boots, runs the commands one after the other and gives how each ended."""
        kernel = subprocess.run(
            [str(ROOT / "scripts/arm-kernel.sh")], check=True, capture_output=True, text=True
        ).stdout.strip()
        image = self.folder / "initramfs"
        image.write_bytes(self._archive(commands))
        command = [need("qemu-system-aarch64"), "-M", "virt", "-cpu", "max", "-m", "2048"]
        command += ["-smp", str(cpus), "-kernel", kernel, "-initrd", str(image), "-nographic"]
        command += ["-nic", "none", "-no-reboot", "-append", "console=ttyAMA0 panic=-1 quiet"]
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
