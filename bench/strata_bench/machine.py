"""Facts about the machine and the tree that a reader needs to judge the figures."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else "unknown"


def _field(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(key):
            return line.split(":", 1)[1].strip()
    return "unknown"


def thp_mode() -> str:
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not path.exists():
        return "none"
    text = path.read_text()
    return text[text.index("[") + 1 : text.index("]")] if "[" in text else text.strip()


def facts(root: Path) -> dict[str, str]:
    total_gib = int(_field("/proc/meminfo", "MemTotal").split()[0]) / (1 << 20)
    dirty = _output("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")
    commit = _output("git", "-C", str(root), "rev-parse", "--short", "HEAD")
    return {
        "processor": f"{_field('/proc/cpuinfo', 'model name')}, {os.cpu_count()} cores",
        "memory": f"{total_gib:.0f} GiB",
        "kernel": platform.release(),
        "C library": " ".join(platform.libc_ver()),
        "compiler": _output("g++", "--version"),
        "THP mode": thp_mode(),
        "load before the start": f"{os.getloadavg()[0]:.2f}",
        "tree": commit + (" with changes" if dirty != "unknown" else ""),
    }
