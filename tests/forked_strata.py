"""`strata ARGS` for tests that type many commands.

Each runs in a process of its own, forked from one that has loaded the package and the libraries
that its commands import: the start would be most of the time that these tests take.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from blackbox import ROOT

TIMEOUT_SECONDS = 180
LOADED = """
import importlib, json, os, sys, traceback
from strata.cli import MODULES, main

for name in (*(f"strata.{own}" for own in MODULES), *sys.argv[1:]):
    importlib.import_module(name)
for line in sys.stdin:
    arguments, folder, cwd = json.loads(line)
    child = os.fork()
    if child == 0:
        for fd, name in (1, "out"), (2, "err"):
            os.dup2(os.open(folder + "/" + name, os.O_WRONLY | os.O_CREAT, 0o600), fd)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.chdir(cwd)
        sys.argv = ["strata", *arguments]
        status = 1
        try:
            main()
        except SystemExit as end:
            status = end.code
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status or 0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@functools.cache
def _loaded(columns: str, modules: tuple[str, ...]) -> subprocess.Popen[str]:
    ours = ("STRATA_", "LD_PRELOAD", "LD_BIND_NOW")
    env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    env["PYTHONPATH"] = str(ROOT / "python")
    env["COLUMNS"] = columns
    env["TF_CPP_MIN_LOG_LEVEL"] = "3"  # as `strata train` does before it loads JAX
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", LOADED, *modules]
    server = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, env=env, cwd="/", start_new_session=True
    )
    atexit.register(server.communicate)  # it ends when its input does
    return server


def strata(
    *args: str | int | Path, columns: int = 200, modules: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Runs `strata ARGS`. `modules`: of others, which it imports."""
    texts = [str(arg) for arg in args]
    server = _loaded(str(columns), modules)
    assert server.stdin is not None and server.stdout is not None
    with tempfile.TemporaryDirectory(prefix="strata-command-") as folder:
        server.stdin.write(json.dumps([texts, folder, str(Path.cwd())]) + "\n")
        server.stdin.flush()
        ready, _, _ = select.select([server.stdout], [], [], TIMEOUT_SECONDS)
        if not ready:
            os.killpg(server.pid, signal.SIGKILL)
            _loaded.cache_clear()
        assert ready, f"still running after {TIMEOUT_SECONDS} s: {texts}"
        status = int(server.stdout.readline())
        out, err = (Path(folder, name).read_text() for name in ("out", "err"))
    return subprocess.CompletedProcess(texts, status, out, err)
