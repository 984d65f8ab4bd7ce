"""The commands by module: only the module of the command that is typed is loaded."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from strata.cli import MODULES, app_for, main
from strata.control import _why_unreachable
from strata.errors import StrataError
from strata.launch import resolve
from strata.processes import NoSuchProcessError, Process, find_process
from strata.report.command import report

ROOT = Path(__file__).resolve().parent.parent.parent
NOWHERE = "/no/such/place"


def names(app: typer.Typer) -> set[str]:
    commands = {str(command.name) for command in app.registered_commands}
    return commands | {str(group.name) for group in app.registered_groups}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_the_commands_that_the_table_says(module: str) -> None:
    app = typer.Typer()
    import_module(f"strata.{module}").add_to(app)
    assert names(app) == set(MODULES[module].split())
    assert all(names(app_for([name])) == names(app) for name in names(app))


def test_what_names_no_command_gets_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    every = {name for listed in MODULES.values() for name in listed.split()}
    for arguments in ([], ["--help"], ["tpo"]):
        assert names(app_for(arguments)) == every
    monkeypatch.setenv("_STRATA_COMPLETE", "complete_bash")
    assert names(app_for(["top"])) == every


EACH_ALONE = """
import os
from strata.cli import MODULES, app_for

for name in (name for listed in MODULES.values() for name in listed.split()):
    child = os.fork()
    if child == 0:
        app_for([name])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""


def test_no_command_needs_another_s_module_to_be_loaded() -> None:
    subprocess.run([sys.executable, "-c", EACH_ALONE], check=True, timeout=120)


def run(typed: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "strata", *typed.split()]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("get", "Missing argument 'PID|NAME'"),
        ("top --nosuch", "No such option: --nosuch"),
        ("tpo", "No such command 'tpo'"),
        ("report 1 --seconds many", "Invalid value for '--seconds'"),
    ],
)
def test_a_mistake_is_one_line(typed: str, says: str) -> None:
    found = run(typed)
    assert (found.returncode, found.stdout) == (2, ""), found
    assert says in found.stderr
    assert found.stderr.startswith("strata: ")
    assert found.stderr.count("\n") == 1


def status_of(monkeypatch: pytest.MonkeyPatch, typed: str) -> object:
    """Without a process of its own, which takes half a second."""
    monkeypatch.setattr(sys, "argv", ["strata", *typed.split()])
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # main() puts another in its place
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


NOT_DONE = [
    *(f"{name} --nosuch" for listed in MODULES.values() for name in listed.split()),
    *(f"{name} {NOWHERE}" for name in ("stats", "release", "get", "top", "flame", "doctor")),
    *(f"{name} {NOWHERE}" for name in ("replay", "symbolize", "lifetimes", "train")),
    *(f"{name} {NOWHERE}" for name in ("trace --info", "report", "model test", "lint", "explain")),
    f"profile {NOWHERE} -o p.gz",
    f"set {NOWHERE} release=off",
    f"diff {NOWHERE} {NOWHERE}",
    f"compare --arm none --arm none:A=1 --resume {NOWHERE}",
    f"run --lib {NOWHERE} -- true",
    "compare --arm none -- true",
    "release 0",
]


@pytest.mark.parametrize("typed", NOT_DONE)
def test_what_is_not_done_has_one_status(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the mistake is in an option, or a file or process is not there; 1 says that doctor,
    lint or compare found something."""
    assert status_of(monkeypatch, typed) == 2


def test_no_mistake_has_a_status_of_its_own() -> None:
    for path in (ROOT / "python/strata").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="StrataError"), args=[_, status]):
                    assert ast.unparse(status) in ("126", "127", "status", "error.status"), path


def test_help_is_wrapped_once() -> None:
    """Docstrings have line ends of their own, at other places than a terminal of 80 columns."""
    assert " the exit status stay its own (128+n if signal n ended it)." in run("run --help").stdout


@pytest.mark.parametrize("typed", ["", "--help", "run --help", "model", "model --help"])
def test_help_has_no_padding_in_a_pipe(typed: str) -> None:
    found = run(typed)
    assert found.returncode == (0 if "--help" in typed else 2)
    assert "Usage: strata" in found.stdout
    lines = (found.stdout + found.stderr).splitlines()
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("closed", [1, 2])
@pytest.mark.parametrize("typed", ["--help", "ps", "release 1"])
def test_closed_stream_is_no_mistake(typed: str, closed: int) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", sys.executable, "-m", "strata"]
    done = subprocess.run([*command, *typed.split()], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if typed == "release 1" else 0)


LONG = "n" * 300
REFUSED = [
    *(f"{name} {LONG}" for name in ("top", "flame", "report", "doctor", "replay", "symbolize")),
    *(f"{name} {LONG}" for name in ("lint", "simulate", "stats", "trace --info", "price")),
    f"diff {LONG} {LONG}",
    f"top ./{LONG}",
    f"symbolize {LONG} -o p.pb.gz",
    f"trace -o {LONG} -- true",
    f"trace -o {LONG}/t.stb -- true",
    f"replay {LONG} --allocator glibc",
    f"compare --arm none --arm none:A=1 -o {LONG} -- true",
    f"lifetimes {LONG} -o l.parquet",
    f"lifetimes heap.pb.gz -o {LONG}.parquet",
    f"model show {LONG}",
]


@pytest.mark.parametrize("typed", REFUSED)
def test_what_the_system_refuses_is_one_line(
    typed: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A name that is too long is refused to root, too; one without permission takes the same way.
    pathlib's `exists` and the like raise such errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("strata.trace.command.find_tool", lambda _: Path("/bin/true"))
    assert status_of(monkeypatch, typed) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.startswith("strata: ")
    assert said.err.count("\n") == 1, said.err


@pytest.mark.parametrize(
    ("command", "status"),
    [(f"/{LONG}", 126), ("/etc/passwd/x", 126), ("/etc/passwd", 126), (f"{NOWHERE}", 127)],
)
def test_a_command_that_cannot_be_started_has_env_s_status(command: str, status: int) -> None:
    with pytest.raises(StrataError) as refused:
        resolve(command, {})
    assert refused.value.status == status
    assert str(refused.value).startswith(f"{command}: ")


def test_a_full_disk_is_one_line() -> None:
    for typed, stream in (("explain overflow", 1), ("ps", 1), ("release 0", 2)):
        command = ["sh", "-c", f'exec "$@" {stream}>/dev/full', "sh", sys.executable, "-m"]
        done = subprocess.run(
            [*command, "strata", *typed.split()], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2, typed
        assert done.stderr == ("strata: no space left on device\n" if stream == 1 else "")


def test_a_process_is_named_by_plain_digits() -> None:
    """isdecimal takes those of other scripts, and int() refuses more than 4300."""
    for name in ("٣", "9" * 5000, "１"):
        with pytest.raises(NoSuchProcessError, match="no process is called"):
            find_process(name)


def test_an_empty_name_names_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StrataError, match="an empty name"):
        report("")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StrataError, match="an empty name"):
        find_process("")


@pytest.mark.parametrize("option", ["always", "on", ""])
def test_the_hint_is_left_out_where_it_was_followed(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Process, "maps_library", lambda _: True)
    monkeypatch.setattr(Process, "library_thread", lambda _: None)
    monkeypatch.setattr(Process, "option", lambda _, name: option if name == "CONTROL" else "")
    said = str(_why_unreachable(Process(os.getpid())))
    assert "has not started its background thread yet" in said
    assert ("STRATA_CONTROL=always" in said) == (option != "always")
