"""Other allocators on this machine, by short name: what `strata compare` and the
benchmarks preload, and the settings of the caller's shell that must not reach one side only."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

# Settings of the caller's shell must not reach only one side of a comparison.
PRIVATE_PREFIXES = ("STRATA_", "MALLOC_", "MIMALLOC_", "TCMALLOC_", "PEER_", "LD_", "GLIBC_")
GLIBC_NAME = "libc.so.6"
# name -> Debian's package and the file in it
DEBIAN_PEERS = {
    "jemalloc": ("libjemalloc2", "libjemalloc.so.2"),
    "mimalloc2": ("libmimalloc2.0", "libmimalloc.so.2.0"),
    "gperftools": ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
}

TCMALLOC_RELEASE_RATE = 256 << 20
# name -> member of bench/peers, which builds lib<member>-crate.so, and the environment it needs
CRATE_PEERS: dict[str, tuple[str, dict[str, str]]] = {
    "jemalloc-new": ("jemalloc", {}),
    "mimalloc3": ("mimalloc", {}),
    "snmalloc": ("snmalloc", {}),
    "tcmalloc": ("tcmalloc", {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}),
    "tcmalloc-releasing": (
        "tcmalloc",
        {
            "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
            "PEER_TCMALLOC_RELEASE_RATE": str(TCMALLOC_RELEASE_RATE),
        },
    ),
}


def public_environment(base: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would set up an allocator."""
    return {k: v for k, v in base.items() if not k.startswith(PRIVATE_PREFIXES)}


def system_folders(root: Path = Path("/")) -> Iterator[Path]:
    """Where Debian and others keep shared libraries."""
    multiarch = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
    for folder in (f"usr/lib/{multiarch}", f"lib/{multiarch}", "usr/lib64", "lib64", "usr/lib"):
        yield root / folder


def find_system_library(name: str, root: Path = Path("/")) -> Path | None:
    """A shared library of this system, or None."""
    return next((f / name for f in system_folders(root) if (f / name).is_file()), None)
