"""Somewhere to put cold pages: the swap there is, or some of our own while it is needed."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ZRAM = Path("/sys/block/zram0")
DEVICE = Path("/dev/zram0")
SWAPS = Path("/proc/swaps")
KINDS = ("zram", "file")


@dataclass(frozen=True)
class Swap:
    """What is used; `why` says why there is none."""

    kind: str = ""
    why: str = ""

    def __bool__(self) -> bool:
        return bool(self.kind)


def active(text: str) -> bool:
    """Whether /proc/swaps lists any."""
    return len([line for line in text.splitlines() if line.strip()]) > 1


def _call(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError((done.stderr or done.stdout).strip().splitlines()[-1:] or words[0])


def _zram_on(mib: int) -> None:
    (ZRAM / "reset").write_text("1")
    with contextlib.suppress(OSError):  # another algorithm serves as well
        (ZRAM / "comp_algorithm").write_text("lz4")
    (ZRAM / "disksize").write_text(f"{mib}M")
    _call("mkswap", str(DEVICE))
    _call("swapon", "-p", "100", str(DEVICE))


def _zram_off() -> None:
    _call("swapoff", str(DEVICE))
    (ZRAM / "reset").write_text("1")


def _file_on(path: Path, mib: int) -> None:
    _call("fallocate", "-l", f"{mib}M", str(path))
    path.chmod(0o600)
    _call("mkswap", str(path))
    _call("swapon", str(path))


def _file_off(path: Path) -> None:
    with contextlib.suppress(OSError):
        _call("swapoff", str(path))
    path.unlink(missing_ok=True)


@contextlib.contextmanager
def swap(
    mib: int, kinds: tuple[str, ...] = KINDS, folder: Path = Path("/var/tmp")
) -> Iterator[Swap]:
    """Swap space while the block runs. What the machine has already is used and left alone."""
    if active(SWAPS.read_text()):
        yield Swap("the machine's")
        return
    if os.geteuid() != 0:
        yield Swap(why="the machine has no swap, and only root can add some")
        return
    why = "the kernel has no zram"
    file = folder / f"strata-swap-{os.getpid()}"
    for kind in kinds:
        try:
            if kind == "zram":
                if not ZRAM.is_dir():
                    continue
                _zram_on(mib)
            else:
                _file_on(file, mib)
        except OSError as error:
            why = f"swap on a {kind} failed: {error}"
            if kind == "file":
                _file_off(file)
            continue
        try:
            yield Swap(kind)
        finally:
            if kind == "zram":
                _zram_off()
            else:
                _file_off(file)
        return
    yield Swap(why=why)
