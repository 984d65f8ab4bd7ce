"""`strata doctor` on this machine and on processes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from strata.doctor import kernel, system

RULES = {rule.__name__.replace("_", "-") for rule in (*kernel.RULES, *system.RULES)}


def doctor(*arguments: str, library: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"STRATA_LIB": str(library)} if library else {})
    return subprocess.run(
        [sys.executable, "-m", "strata", "doctor", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )


def test_on_this_machine() -> None:
    done = doctor("--json")
    document = json.loads(done.stdout)
    assert done.returncode == document["status"] in (0, 1, 2)
    assert {f["rule"] for f in document["findings"]} == RULES
    states = {f["rule"]: f["state"] for f in document["findings"]}
    assert states["kernel-version"] != "unknown"
    assert states["cgroup-memory"] != "unknown"
    shown = doctor()
    assert shown.returncode == done.returncode
    assert "in order" in shown.stdout
    assert "Traceback" not in shown.stderr


def test_on_a_process(library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "waits"
    source = tmp_path / "waits.c"
    source.write_text("#include <unistd.h>\nint main(void) { pause(); }\n")
    subprocess.run(["cc", "-static", "-o", copy, source], check=True)
    for program, environment, says in (
        (["sleep", "60"], {}, "does not run on Strata"),
        (["sleep", "60"], {"LD_PRELOAD": str(library)}, "the process runs on"),
        ([str(copy)], {"LD_PRELOAD": str(library)}, "statically linked"),
    ):
        with subprocess.Popen(program, env=os.environ | environment) as running:
            maps = Path(f"/proc/{running.pid}/maps")
            deadline = time.monotonic() + 5
            while "libc.so" not in maps.read_text() and time.monotonic() < deadline:
                if program == [str(copy)]:
                    break
                time.sleep(0.02)
            try:
                done = doctor(str(running.pid), library=library)
            finally:
                running.kill()
        assert says in " ".join(done.stdout.split()), done.stdout
    gone = doctor("99999999")
    assert gone.returncode == 2
    assert gone.stderr == "strata: no process 99999999\n"
