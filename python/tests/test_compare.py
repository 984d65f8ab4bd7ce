"""`strata compare` as its users run it: commands and servers, failures, interruption."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from comparing import Compare, cell
from conftest import compile_c
from typer.testing import CliRunner

from strata import procfs
from strata.cli import app_for
from strata.compare import measure
from strata.compare.arms import find_arm
from strata.compare.plan import Plan
from strata.compare.process import Program
from strata.compare.record import RunDirectory, of_one_session

# Prints what it was given and holds memory, so that arms differ in a known way.
WORK = """
import os, time
size = int(os.environ.get("STRATA_HOLD", "8"))
block = bytearray(size << 20)
for i in range(0, len(block), 4096): block[i] = 1
time.sleep(0.08)
print(f"program=work ops_s={size * 100} threads=1")
"""
# Listens, answers every connection, ends on SIGTERM.
SERVER = """
import os, socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen()
burn = sum(range(int(os.environ.get("STRATA_BURN", "0"))))
while True:
    connection, _ = listener.accept()
    if connection.recv(10) == b"die": os.abort()
    sum(range(2_000_000))
    connection.close()
"""
LOAD = """
import socket, sys
for _ in range(4):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
        s.sendall(sys.argv[2].encode()); s.recv(1)
print("Requests/sec: 250.5")
"""


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    for name, text in (("work.py", WORK), ("server.py", SERVER), ("load.py", LOAD)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_finds_a_difference_and_the_lack_of_one(compare: Compare, scripts: Path) -> None:
    found = compare(
        *("--arm", "strata:HOLD=8", "--arm", "strata:HOLD=24", "--arm", "none:STRATA_HOLD=8"),
        *("--rounds", "6", "--margin", "0.1"),
        *("--", sys.executable, str(scripts / "work.py")),
    )
    larger = cell(found, "peak_rss", "strata:HOLD=24")
    assert larger["verdict"] == "worse"
    assert larger["low"] > 1.3
    base = cell(found, "peak_rss", "strata:HOLD=8")["median"]
    assert larger["median"] - base == pytest.approx(16 << 20, rel=0.15)
    assert cell(found, "peak_rss", "none:STRATA_HOLD=8")["verdict"] == "no difference"
    assert cell(found, "ops_s", "strata:HOLD=24")["ratio"] == pytest.approx(3)
    assert cell(found, "minor_faults", "strata:HOLD=24")["verdict"] == "worse"
    assert cell(found, "wall_s", "strata:HOLD=8")["median"] > 0.08
    assert not any(f["name"] == "threads" for f in found["figures"])
    run = scripts / "run"
    rows = pl.read_parquet(run / "records.parquet")
    assert rows.height == 3 * 7
    assert rows.filter(pl.col("round") == 0).height == 3
    series = rows["rss_series"][0].to_list()
    assert len(series) >= 3
    assert max(series) <= rows["peak_rss"][0]
    page = (run / "index.html").read_text()
    assert "worse" in page
    assert "<svg" in page
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page.replace("xlink:href", ""))
    assert not list(procfs.V1_MEMORY.rglob(f"strata-compare-{os.getpid()}*"))


def test_an_arm_with_a_mistyped_setting_is_not_measured(compare: Compare, tmp_path: Path) -> None:
    """The library would warn of it among the command's output, and both arms would be the same."""
    ran = tmp_path / "ran"
    arms = ["--arm", "strata", "--arm", "strata:SAMPEL=0", "--rounds", "1"]
    said = compare(*arms, "--", "touch", str(ran), status=2)
    assert said == "--arm 'strata:SAMPEL=0': unknown option STRATA_SAMPEL"
    assert not ran.exists()
    assert not (tmp_path / "run").exists()


def test_a_command_is_shown_as_it_is(library: Path, tmp_path: Path) -> None:
    """rich takes [/x] in a string for markup, and one that closes nothing for a mistake."""
    out = tmp_path / "[/run]"
    arms = ["--arm", "none", "--arm", "none:A=[/b]", "--rounds", "1", "--no-warm-up"]
    words = ["compare", "--lib", str(library), "--out", str(out), *arms, "--", "echo", "[/x]"]
    result = CliRunner().invoke(app_for(words), words, standalone_mode=False)
    assert result.exception is None, result.output
    for shown in ("echo '[/x]'", "none:A=[/b]", "[/run]"):
        assert shown in result.stdout


def test_what_the_result_needs_is_asked_for_first(
    compare: Compare, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    mark = tmp_path / "ran"
    said = compare("--arm", "none", "--arm", "glibc", "--", "touch", str(mark), status=2)
    assert said == "a comparison needs polars: pip install 'strata-malloc[compare]'"
    assert not mark.exists()


def test_measures_a_server_under_its_load(compare: Compare, scripts: Path) -> None:
    found = compare(
        *("--arm", "none", "--arm", "strata:BURN=100", "--rounds", "2", "--no-warm-up"),
        *("--server", f"{sys.executable} {scripts / 'server.py'} {{port}}"),
        *("--load", f"{sys.executable} {scripts / 'load.py'} {{port}} hello"),
    )
    assert cell(found, "throughput", "none")["median"] == 250.5
    # four answers of about 30 ms each; the client's own CPU time is not the server's
    assert 0.04 < cell(found, "cpu_s", "none")["median"] < 3
    assert found["missing_runs"] == 0
    assert cell(found, "cpu_s", "strata:BURN=100")["verdict"] == "too few rounds"


def test_a_dying_server_is_told(compare: Compare, scripts: Path) -> None:
    found = compare(
        *("--arm", "none", "--arm", "none:A=1", "--rounds", "1", "--no-warm-up"),
        *("--server", f"{sys.executable} {scripts / 'server.py'} {{port}}"),
        *("--load", f"{sys.executable} {scripts / 'load.py'} {{port}} die"),
        status=1,
    )
    for failure in found["failures"]:
        assert re.search("the server ended under the load: killed by SIGABRT", failure["reason"])


def test_a_load_that_fails_and_a_server_that_never_listens(
    compare: Compare, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(measure, "READY_SECONDS", 0.2)
    plan = Plan(["none", "glibc"], ["sleep", "60"], load=["true"], ready_port=1)
    assert "did not listen on port 1" in measure.run_once(plan, find_arm("none"), 1, "here").error
    said = compare("--arm", "none", "--arm", "glibc", "--server", "x", "--load", "y", status=2)
    assert "{port}" in said
    assert not (tmp_path / "run").exists()


def test_a_taken_port_gets_no_load(compare: Compare, tmp_path: Path) -> None:
    """Whoever listens there is not ours: production, perhaps."""
    mark = tmp_path / "load"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        plan = Plan(["none", "glibc"], ["sleep", "60"], load=["touch", str(mark)], ready_port=port)
        said = measure.run_once(plan, find_arm("none"), 1, "here").error
        assert f"port {port} was taken before the server started" in said
        server = ["--server", "sleep 60", "--ready-port", str(port), "--load", f"touch {mark}"]
        assert f"port {port} is taken" in compare(
            "--arm", "none", "--arm", "glibc", *server, status=2
        )
    assert not mark.exists()
    assert not (tmp_path / "run").exists()


OWN_GROUP = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from strata.procfs import MemoryGroup
Path(sys.argv[1], "cgroup.procs").write_text("0")
group = MemoryGroup.create("strata-test-inner")
print(group.path if group else None)
if group: group.remove()
"""


def test_the_group_of_a_program_lies_below_ours(tmp_path: Path) -> None:
    """Else a run under a memory limit would leave it, and measure the program without."""
    outer = procfs.MemoryGroup.create(f"strata-test-outer-{os.getpid()}")
    if outer is None:
        assert os.environ.get("CI") != "true", "no memory cgroup can be made here"
        pytest.skip("no memory cgroup can be made here")
    try:
        words = [sys.executable, "-c", OWN_GROUP, str(outer.path), str(Path(__file__).parents[1])]
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    finally:
        outer.remove()
    # version 2 lets no group that holds a process have one below it that counts memory
    first_version = procfs.V1_MEMORY in outer.path.parents
    expected = outer.path / "strata-test-inner" if first_version else None
    assert done.stdout.strip() == str(expected)


def test_failures_are_told_and_not_averaged_in(
    compare: Compare, library: Path, tmp_path: Path, static_program: Path
) -> None:
    script = 'if [ -n "$BAD" ]; then echo first >&2; echo "out of luck" >&2; kill -SEGV $$; fi'
    found = compare(
        *("--arm", "none", "--arm", "none:BAD=1", "--rounds", "2", "--", "sh", "-c", script),
        status=1,
    )
    (failure,) = found["failures"]
    assert (failure["arm"], failure["failed"], failure["of"]) == ("none:BAD=1", 3, 3)
    assert failure["reason"] == "killed by SIGSEGV: out of luck"
    assert cell(found, "wall_s", "none:BAD=1")["runs"] == 0
    plan = Plan(["none", "glibc"], [str(static_program)])
    said = measure.run_once(plan, find_arm("glibc"), 1, "here").error
    assert "was not loaded" in said
    assert "statically linked" in said
    # the linker complains about a version that it does not know, and goes on without the library
    broken = tmp_path / "libbroken.so"
    content = bytearray(library.read_bytes())
    content[20] = 7
    broken.write_bytes(content)
    arm = find_arm(f"path:{broken}")
    said = measure.run_once(Plan(["none", arm.name], ["true"]), arm, 1, "here").error
    assert said == "the library was not loaded: the dynamic linker refused it"
    # one whose own library is missing ends the program
    needed = compile_c(tmp_path, "libgone.so", "int gone(void) { return 1; }", "-shared", "-fPIC")
    code = "extern int gone(void); int f(void) { return gone(); }"
    links = ("-shared", "-fPIC", f"-L{tmp_path}", "-Wl,--no-as-needed", "-l:libgone.so")
    arm = find_arm(f"path:{compile_c(tmp_path, 'libneeds.so', code, *links)}")
    needed.unlink()
    said = measure.run_once(Plan(["none", arm.name], ["true"]), arm, 1, "here").error
    assert "error while loading shared libraries: libgone.so" in said


def test_a_hanging_command_is_ended_with_all_it_started(tmp_path: Path) -> None:
    one, two = tmp_path / "pid", tmp_path / "pid2"
    script = f"sleep 61 & echo $! > {one}; (setsid sleep 62 & echo $! > {two}); wait"
    plan = Plan(["none", "glibc"], ["sh", "-c", script], timeout=0.5)
    record = measure.run_once(plan, find_arm("none"), 1, "here")
    assert record.error == "no end within 0.5 s"
    assert not Path("/proc", one.read_text().strip(), "exe").exists()
    if os.access(procfs.V1_MEMORY, os.W_OK) or os.access(procfs.V2_ROOT, os.W_OK):
        pid2 = two.read_text().strip()
        assert not Path("/proc", pid2, "exe").exists()


def test_an_interrupt_while_starting_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ctrl-C between the program's start and the first look at it."""
    started: list[int] = []

    def interrupt(pid: int) -> int:
        started.append(pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "pidfd_open", interrupt)
    program = Program(["sleep", "60"], os.environ, tmp_path, "command", None)
    with pytest.raises(KeyboardInterrupt), program:
        pytest.fail("it was not interrupted")
    os.waitpid(started[0], 0)  # killed, so this ends at once
    assert not list(procfs.V1_MEMORY.rglob(f"strata-compare-{os.getpid()}*"))


@pytest.mark.parametrize("in_cgroup", [True, False])
def test_children_count(in_cgroup: bool, monkeypatch: pytest.MonkeyPatch, scripts: Path) -> None:
    """With a cgroup of their own or without: memory and CPU time of what the command starts."""
    if not in_cgroup:
        monkeypatch.setattr(procfs.MemoryGroup, "create", lambda _: None)
    work = f"STRATA_HOLD=40 {sys.executable} {scripts / 'work.py'}"
    plan = Plan(["none", "glibc"], ["sh", "-c", f"{work} >/dev/null & {work} >/dev/null & wait"])
    record = measure.run_once(plan, find_arm("none"), 1, "here")
    assert record.error == ""
    assert record.figures["peak_rss"] > 60 << 20
    assert record.figures["minor_faults"] > 2 * 40 * 256


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--arm", "none", "--", "true"], "two or more"),
        (["--arm", "none", "--arm", "glibc"], "nothing to run"),
        (["--arm", "none", "--arm", "glibc", "--load", "x", "--", "true"], "not both"),
        (["--arm", "none", "--arm", "glibc", "--server", "x{port}"], "belong together"),
        (["--arm", "none", "--arm", "glibc", "--metric", "x", "--", "true"], "--metric"),
        (["--arm", "none", "--arm", "path:/no.so", "--", "true"], "no such file"),
        (["--hosts", "/none", "--ray", "--arm", "none", "--", "true"], "used together"),
    ],
)
def test_mistakes_are_one_line(compare: Compare, arguments: list[str], said: str) -> None:
    assert said in compare(*arguments, status=2)
    assert "not found" in compare("--arm", "none", "--arm", "glibc", "--", "no-such", status=127)


def test_goes_on_after_an_interruption(compare: Compare, tmp_path: Path) -> None:
    """Ctrl-C in a run of its own: partial results, no process left; resuming runs the rest only,
    but the interrupted round as a whole."""
    log = tmp_path / "log"
    log.touch()
    command = ["sh", "-c", f"echo $$ >> {log}; exec sleep 0.1"]
    arms = ["--arm", "none", "--arm", "glibc"]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "strata", "compare", *arms, "--rounds", "8", "--json"),
            *("--out", str(tmp_path / "run"), "--", *command),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while len(log.read_text().split()) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "strata compare --resume" in errors
    started = [int(word) for word in log.read_text().split()]
    assert not Path(f"/proc/{started[-1]}/exe").exists()
    folder = RunDirectory.open(tmp_path / "run")
    records, done = folder.records, folder.done(os.uname().nodename)
    folder.close()
    assert len(done) % 2 == 0
    assert len(records) in (len(started) - 1, len(started))
    assert json.loads(output)["missing_runs"] == 18 - len(records)

    wrong = ["--resume", str(tmp_path / "run"), *arms, "--seed", "9", "--", *command]
    assert "another plan" in compare(*wrong, out=False, status=2)
    found = compare("--resume", str(tmp_path / "run"), "--rounds", "9", out=False)
    assert found["missing_runs"] == 0
    assert len(log.read_text().split()) == len(started) + 20 - len(done)
    records = RunDirectory.open(tmp_path / "run").records
    assert len({record.key for record in records}) == 20
    assert len({record.session for record in records}) == 2
    kept = of_one_session(records)
    assert len(kept) == 20
    for number in range(10):
        assert len({record.session for record in kept if record.round == number}) == 1


def test_a_changed_library_is_not_mixed_in(compare: Compare, library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "libcopy.so"
    copy.write_bytes(library.read_bytes())
    arms = ["--arm", "none", "--arm", f"path:{copy}", "--rounds", "1"]
    compare(*arms, "--", "true")
    copy.write_bytes(library.read_bytes() + b"\0")
    said = compare("--resume", str(tmp_path / "run"), "--rounds", "2", out=False, status=2)
    assert "is not the one that the first runs used" in said
