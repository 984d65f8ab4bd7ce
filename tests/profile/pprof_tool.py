"""Where `go tool pprof` is. A Go that brings none built builds it, which takes longer than all
tests that need it: ctest runs this once before them."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys


@functools.cache
def pprof() -> str:
    """Asked for once: Go looks through its whole cache each time."""
    done = subprocess.run(
        ["go", "tool", "-n", "pprof"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "GOFLAGS": "", "GOTOOLCHAIN": "local"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(0 if shutil.which("go") is None or pprof() else 1)
