"""Memory cgroups for tests, version 1 or 2: each lives for one test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blackbox import Lab, Result, missing, wait_until

MIB = 1 << 20
VERSIONS = (
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ("/sys/fs/cgroup", "memory.max", "memory.current"),
)
KILLED = {137, -9}
# /bin/sh joins the cgroup, then becomes the program.
JOIN = 'echo $$ >"$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True)
class Cgroup:
    """A memory cgroup that lives for one test."""

    path: Path
    limit_file: str
    usage_file: str

    def limit(self, mib: int) -> None:
        (self.path / self.limit_file).write_text(str(mib * MIB))

    def usage_mib(self) -> float:
        return int((self.path / self.usage_file).read_text()) / MIB

    def in_use_mib(self) -> float:
        """Without the file cache that the kernel would drop first."""
        stat = dict(line.split() for line in (self.path / "memory.stat").read_text().splitlines())
        idle = stat.get("total_inactive_file", stat["inactive_file"])
        return self.usage_mib() - int(idle) / MIB

    def falls_below(self, mib: float) -> bool:
        return wait_until(lambda: self.usage_mib() < mib)

    def run(
        self, lab: Lab, *args: str | Path, env: dict[str, str] | None = None, preload: bool = True
    ) -> Result:
        return lab.run("/bin/sh", "-c", JOIN, self.path, *args, env=env, preload=preload)


def remove(group: Path) -> None:
    def gone() -> bool:
        with contextlib.suppress(OSError):  # busy until its last process is gone
            group.rmdir()
        return not group.exists()

    wait_until(gone)


@contextlib.contextmanager
def made(name: str) -> Iterator[Cgroup]:
    for parent, limit, usage in VERSIONS:
        group = Cgroup(Path(parent) / name, limit, usage)
        with contextlib.suppress(OSError):
            group.path.mkdir()
            if (group.path / limit).exists():
                break
            group.path.rmdir()
    else:
        missing("no memory cgroup can be made here")
    try:
        yield group
    finally:
        remove(group.path)
