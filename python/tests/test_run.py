"""`strata run` from outside: what reaches the command, what comes back, what is said."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import compile_c

Runner = Callable[..., subprocess.CompletedProcess[str]]
STRATA = [sys.executable, "-m", "strata"]
PRINT_PRELOAD = 'echo "$LD_PRELOAD"'


@pytest.fixture
def strata(library: Path) -> Runner:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("STRATA_") and name != "LD_PRELOAD"
    }

    def invoke(
        *arguments: str,
        given: str = "",
        extra: dict[str, str] | None = None,
        named: bool = True,
        folder: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        location = {"STRATA_LIB": str(library)} if named else {}
        return subprocess.run(
            [*STRATA, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=folder,
            env={**environment, **location, **(extra or {})},
        )

    return invoke


def one_line(text: str) -> str:
    """The text, once it is known to be a single line of ours."""
    assert text.count("\n") == 1
    assert text.startswith("strata: ")
    return text


def test_preloads_and_prints_nothing_of_its_own(strata: Runner, library: Path) -> None:
    result = strata("run", "--", "sh", "-c", PRINT_PRELOAD)
    assert result.stdout.strip() == str(library)
    assert (result.stderr, result.returncode) == ("", 0)


def test_keeps_an_existing_preload_behind(strata: Runner, library: Path) -> None:
    other = "libc.so.6"
    result = strata("run", "--", "sh", "-c", PRINT_PRELOAD, extra={"LD_PRELOAD": other})
    assert result.stdout.strip() == f"{library}:{other}"
    twice = {"LD_PRELOAD": f"{library} {other}"}
    result = strata("run", "--", "sh", "-c", PRINT_PRELOAD, extra=twice)
    assert result.stdout.strip() == f"{library}:{other}"


def test_option_beats_environment(strata: Runner, library: Path, tmp_path: Path) -> None:
    copy = shutil.copy(library, tmp_path / "other.so")
    result = strata("run", "--lib", str(copy), "sh", "-c", PRINT_PRELOAD)
    assert result.stdout.strip() == str(copy)


def test_options_become_environment(strata: Runner) -> None:
    script = "env | grep ^STRATA_ | grep -v STRATA_LIB | sort"
    result = strata(
        *("run", "--cache", "thread", "--release", "off"),
        *("--set", "HEAP_LIMIT=2G", "--set", "STRATA_VERBOSE="),
        *("--", "sh", "-c", script),
    )
    expected = ["STRATA_CACHE=thread", "STRATA_HEAP_LIMIT=2G", "STRATA_RELEASE=off"]
    assert result.stdout.split() == [*expected, "STRATA_VERBOSE="]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("SAMPEL=0", "--set: unknown option STRATA_SAMPEL\n"),
        ("SAMPLE=x", "--set: STRATA_SAMPLE=x makes no sense; it takes bytes\n"),
    ],
)
def test_a_setting_that_the_library_would_ignore(strata: Runner, setting: str, says: str) -> None:
    result = strata("run", "--set", setting, "--", "echo", "ran")
    assert result.returncode == 2
    assert result.stdout == ""
    assert one_line(result.stderr).endswith(says)


def test_asking_the_library_about_settings_leaves_no_files(strata: Runner, tmp_path: Path) -> None:
    """What STATS=FILE writes at the end of a process is the command's alone."""
    path = tmp_path / "stats.json"
    script = f"import os; print(os.path.exists({str(path)!r}))"
    result = strata("run", "--set", f"STATS={path}", "--", sys.executable, "-c", script)
    assert (result.stdout, result.returncode) == ("False\n", 0)
    assert path.exists()


def test_input_arguments_and_output_pass_through(strata: Runner) -> None:
    result = strata("run", "sh", "-c", 'cat; echo "$1" >&2', "x", "--stats", given="a\nb\n")
    assert (result.stdout, result.stderr) == ("a\nb\n", "--stats\n")


@pytest.mark.parametrize("status", [0, 1, 77, 255])
def test_exit_status_passes_through(strata: Runner, status: int) -> None:
    assert strata("run", "--", "sh", "-c", f"exit {status}").returncode == status


@pytest.mark.parametrize("name", ["KILL", "TERM", "SEGV", "INT"])
def test_death_by_signal_is_128_plus_n(strata: Runner, name: str) -> None:
    result = strata("run", "--", "sh", "-c", f"kill -{name} $$")
    assert result.returncode == 128 + signal.Signals[f"SIG{name}"]
    assert result.stderr == ""


def start(library: Path, script: str) -> subprocess.Popen[str]:
    """Starts a script under `strata run` and waits for its first line."""
    process = subprocess.Popen(
        [*STRATA, "run", "--lib", str(library), "--", "sh", "-c", script],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_command(library: Path, number: signal.Signals) -> None:
    script = f"trap 'exit 42' {number.value}; echo ready; while :; do sleep 0.05; done"
    process = start(library, script)
    process.send_signal(number)
    assert process.wait(timeout=20) == 42


def test_command_dies_with_a_killed_launcher(library: Path) -> None:
    process = start(library, "echo ready; echo $$; exec sleep 60")
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


def test_launcher_stops_with_the_command_and_goes_on(library: Path) -> None:
    process = start(library, "echo ready; kill -STOP $$; exit 5")

    def state() -> str:
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    deadline = time.monotonic() + 20
    while state() != "T":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=20) == 5


def test_terminal_interrupt_arrives_once(library: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    script = f"trap 'echo got >> {record}' INT; echo ready; n=0; " + (
        f"while [ $n -lt 40 ]; do sleep 0.05; n=$((n+1)); [ -s {record} ] && n=$((n+5)); done"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(STRATA[0], [*STRATA, "run", "--lib", str(library), "--", "sh", "-c", script])
    seen = b""
    while b"ready" not in seen:
        seen += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert record.read_text() == "got\n"


def test_child_signal_settings_are_the_callers(strata: Runner) -> None:
    script = "grep -E 'Sig(Blk|Ign)' /proc/self/status"
    direct = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert strata("run", "--", "sh", "-c", script).stdout == direct.stdout


def test_command_not_found_and_not_executable(strata: Runner, tmp_path: Path) -> None:
    result = strata("run", "--", "no-such-command-here")
    assert result.returncode == 127
    assert "no-such-command-here: command not found" in one_line(result.stderr)
    assert strata("run", "--", str(tmp_path / "nothing")).returncode == 127
    assert strata("run", "--", str(tmp_path)).returncode == 126
    plain = tmp_path / "plain"
    plain.write_text("data")
    result = strata("run", "--", str(plain))
    assert result.returncode == 126
    assert "permission denied" in one_line(result.stderr)
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    result = strata("run", "--", str(broken))
    assert result.returncode == 127
    one_line(result.stderr)


def test_script_without_interpreter_line_runs(strata: Runner, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('echo "ran $1"\n')
    script.chmod(0o755)
    assert strata("run", "--", str(script), "it").stdout == "ran it\n"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["run"], "COMMAND"),
        (["run", "--cache", "gpu", "--", "true"], "gpu"),
        (["run", "--release", "maybe", "--", "true"], "maybe"),
        (["run", "--set", "NOVALUE", "--", "true"], "NOVALUE"),
        (["run", "--set", "=1", "--", "true"], "NAME=VALUE"),
        (["run", "--stats", "--set", "STATS=/tmp/x", "--", "true"], "used together"),
        (["run", "--unknown", "--", "true"], "--unknown"),
        (["run", "--guard", "1/0", "--", "true"], "1/N"),
        (["run", "--guard", "often", "--", "true"], "1/N"),
        (["run", "--guard", "1/9", "--set", "GUARD=off", "--", "true"], "together"),
        (["run", "--check", "--set", "CHECK=off", "--", "true"], "together"),
        (["run", "--heap", "glibc", "--check", "--", "true"], "--check"),
        (["run", "--lib", "/no/such/lib.so", "--", "true"], "/no/such/lib.so"),
        (["run", "--lib", "/etc/passwd", "--", "true"], "not a shared library"),
        (["walk"], "walk"),
    ],
)
def test_bad_input_is_one_line_and_2(strata: Runner, arguments: list[str], part: str) -> None:
    result = strata(*arguments)
    assert result.returncode == 2
    assert part in one_line(result.stderr)
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ([], "-"),
        (["--check"], "on-"),
        (["--guard", "1/7"], "-1/7"),
        (["--guard=off", "--check"], "on-off"),
    ],
)
def test_options_about_memory_errors_reach_the_command(
    strata: Runner, options: list[str], shown: str
) -> None:
    show = 'echo "$STRATA_CHECK-$STRATA_GUARD"'
    result = strata("run", *options, "--", "sh", "-c", show)
    assert (result.stdout, result.stderr) == (f"{shown}\n", "")


def test_refuses_a_library_that_is_not_ours(strata: Runner, tmp_path: Path) -> None:
    other = compile_c(tmp_path, "libother.so", "int other;", "-shared", "-fPIC")
    result = strata("run", "--lib", str(other), "--", "true")
    assert result.returncode == 2
    assert "not Strata's" in one_line(result.stderr)


def test_refuses_a_path_that_preload_cannot_hold(
    strata: Runner, library: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "my libs"
    folder.mkdir()
    copy = shutil.copy(library, folder / "libstrata.so")
    result = strata("run", "--lib", str(copy), "--", "true")
    assert result.returncode == 2
    assert "space or a colon" in one_line(result.stderr)


def test_static_program_runs_and_is_reported(strata: Runner, static_program: Path) -> None:
    for option in ([], ["--stats"]):
        result = strata("run", *option, "--", str(static_program))
        assert result.returncode == 3
        assert result.stdout == "still here\n"
        assert "statically linked; running it without Strata" in one_line(result.stderr)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_set_uid_program_is_reported(strata: Runner, tmp_path: Path) -> None:
    program = Path(shutil.copy(shutil.which("id") or "/usr/bin/id", tmp_path / "id"))
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    result = strata("run", "--", str(program), "-u")
    assert "gains privileges" in one_line(result.stderr)
    assert result.stdout == "65534\n"


def test_running_command_without_the_library_is_reported(strata: Runner) -> None:
    # the shell starts anew without the preload, as a wrapper that clears the environment would
    result = strata("run", "--", "env", "-u", "LD_PRELOAD", "sleep", "3")
    assert result.returncode == 0
    assert "it was not loaded" in one_line(result.stderr)


def test_stats_are_shown_at_the_end(strata: Runner) -> None:
    # not sh: dash ends by _exit, which runs no destructor
    result = strata("run", "--stats", "--", "grep", "-c", "absent", given="text")
    assert (result.stdout, result.returncode) == ("0\n", 1)
    # the library's own text, as `strata stats PID` prints it
    assert re.fullmatch(r"strata 0\.0\.test, pid \d+\n  live  1048576\n", result.stderr)


def test_stats_name_a_child_that_wrote_them(strata: Runner) -> None:
    result = strata("run", "--stats", "--", "sh", "-c", "true; kill -TERM $$")
    assert result.returncode == 143
    assert "no stats" in one_line(result.stderr) or "child process" in result.stderr
    result = strata("run", "--stats", "--", "sh", "-c", "/bin/true; kill -KILL $$")
    assert "child process" in result.stderr
    assert result.returncode == 137


def test_descriptors_pass_through(library: Path) -> None:
    reader, writer = os.pipe()
    subprocess.run(
        [
            *STRATA,
            "run",
            "--lib",
            str(library),
            "--",
            "sh",
            "-c",
            f"echo through >/proc/self/fd/{writer}",
        ],
        pass_fds=[writer],
        check=True,
    )
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "through\n"


def test_finds_the_library_of_the_checkout_it_sits_in(
    strata: Runner, library: Path, tmp_path: Path
) -> None:
    package = Path(__file__).parents[1] / "strata"
    shutil.copytree(package, tmp_path / "python" / "strata")
    (tmp_path / "include" / "strata").mkdir(parents=True)
    (tmp_path / "build" / "lib").mkdir(parents=True)
    built = Path(shutil.copy(library, tmp_path / "build" / "lib" / "libstrata.so"))
    environment = {"PYTHONPATH": str(tmp_path / "python")}
    result = strata(
        "run",
        "--",
        "sh",
        "-c",
        PRINT_PRELOAD,
        extra=environment,
        named=False,
        folder=tmp_path / "python",
    )
    assert result.stdout.strip() == str(built), result.stderr


def test_version_and_help(strata: Runner) -> None:
    assert strata("--version").stdout.startswith("strata 0.")
    shown = strata("run", "--help")
    assert shown.returncode == 0
    assert "--stats" in shown.stdout


def test_the_heap_glibc_is_no_preload(strata: Runner, library: Path) -> None:
    result = strata("run", "--heap", "glibc", "--", "sh", "-c", PRINT_PRELOAD)
    assert (result.returncode, result.stdout, result.stderr) == (0, "\n", "")
    both = {"LD_PRELOAD": f"{library}:libm.so.6"}
    result = strata("run", "--heap", "glibc", "--", "sh", "-c", PRINT_PRELOAD, extra=both)
    assert result.stdout == "libm.so.6\n"
    result = strata("run", "--heap", "glibc", "--set", "SAMPLE=0", "--", "true")
    assert result.returncode == 2
    assert "glibc has no options" in one_line(result.stderr)


def test_no_command_at_all_is_answered_with_the_help(strata: Runner) -> None:
    result = strata()
    assert result.returncode == 2
    assert "Usage: strata" in result.stdout
    assert result.stderr == ""
