"""`strata ARGS` for tests that type many commands.

Each runs in a process of its own, forked from one that has loaded the package: the interpreter's
start would be most of the time that these tests take.
"""

from __future__ import annotations

import functools
import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path

from blackbox import ROOT

TIMEOUT_SECONDS = 180
LOADED = """
import json, os, sys, traceback
from strata.cli import main

for line in sys.stdin:
    arguments, folder = json.loads(line)
    child = os.fork()
    if child == 0:
        for fd, name in (1, "out"), (2, "err"):
            os.dup2(os.open(folder + "/" + name, os.O_WRONLY | os.O_CREAT, 0o600), fd)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        sys.argv = ["strata", *arguments]
        status = 1
        try:
            main()
        except SystemExit as end:
            status = end.code
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@functools.cache
def _loaded() -> subprocess.Popen[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("STRATA_")}
    env["PYTHONPATH"] = str(ROOT / "python")
    env["COLUMNS"] = "200"
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", LOADED]
    # It ends when its input does, which is when the tests do.
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env, cwd="/")


def strata(*args: str | int | Path) -> subprocess.CompletedProcess[str]:
    """Runs `strata ARGS`."""
    texts = [str(arg) for arg in args]
    server = _loaded()
    assert server.stdin is not None and server.stdout is not None
    with tempfile.TemporaryDirectory(prefix="strata-command-") as folder:
        server.stdin.write(json.dumps([texts, folder]) + "\n")
        server.stdin.flush()
        ready, _, _ = select.select([server.stdout], [], [], TIMEOUT_SECONDS)
        assert ready, f"still running after {TIMEOUT_SECONDS} s: {texts}"
        status = int(server.stdout.readline())
        out, err = (Path(folder, name).read_text() for name in ("out", "err"))
    return subprocess.CompletedProcess(texts, status, out, err)


def good(*args: str | int | Path) -> str:
    """What a command writes that has nothing to complain about."""
    done = strata(*args)
    assert done.returncode == 0 and done.stderr == "", f"{args}: {done.stdout}{done.stderr}"
    return done.stdout


def refused(*args: str | int | Path) -> str:
    """The one line that a command which cannot do its work writes."""
    done = strata(*args)
    assert done.returncode in (1, 2), done.stdout
    assert done.stdout == ""
    assert done.stderr.startswith("strata: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr
