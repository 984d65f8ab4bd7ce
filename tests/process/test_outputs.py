"""What STRATA_STATS and its like may name: devices, pipes, links, the program's own streams; and
that writing there ends no program and harms no file."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path

import pytest
from blackbox import Lab, Result, missing
from strata.trace.command import find_tool

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "output_cases.c"
NOBODY = 65534
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7)}


@pytest.fixture
def program(lab: Lab) -> Path:
    lab.require_strata()
    return lab.build(SOURCE)


def option(kind: str, path: Path | str) -> dict[str, str]:
    """An environment that has the library write to the path at exit."""
    return {
        "stats": {"STRATA_STATS": str(path)},
        "prometheus": {"STRATA_PROMETHEUS": str(path)},
        "profile": {"STRATA_PROFILE": f"heap:{path}", "STRATA_SAMPLE": "1K"},
    }[kind]


KINDS = ("stats", "prometheus", "profile")


def device(path: Path, name: str) -> None:
    """A device of our own: the system's are not for a test to lose."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*DEVICES[name]))
        with path.open("wb"):
            pass
    except OSError:
        missing("no device can be made here")


def said(result: Result) -> str:
    """The one line on stderr, of a program that ended well."""
    assert result.returncode == 0, result.explain()
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines == result.strata_lines(), result.explain()
    return lines[0]


def report(text: str) -> bool:
    return "cache_mode" in json.loads(text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DEVICES)
def test_a_device_stays_one(lab: Lab, program: Path, tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    device(path, name)
    link = tmp_path / "link"
    link.symlink_to(name)
    for given in (path, link):
        result = lab.run(program, "small", env=option(kind, given))
        if name == "full":
            assert "No space left on device" in said(result)
        else:
            result.silent()
        assert path.is_char_device() and link.is_symlink()
    assert sorted(tmp_path.iterdir()) == sorted((path, link))


def test_a_device_gets_no_profile_beside_it(lab: Lab, program: Path, tmp_path: Path) -> None:
    device(tmp_path / "null", "null")
    env = option("profile", tmp_path / "null") | {"STRATA_PROFILE_SIGNAL": str(int(signal.SIGUSR2))}
    lab.run(program, "profile_on_a_signal", env=env).silent()
    assert list(tmp_path.iterdir()) == [tmp_path / "null"]
    assert (tmp_path / "null").is_char_device()


def test_a_pipe_is_written_into(lab: Lab, program: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with lab.start("cat", pipe, preload=False) as reader:
        # Not before the reader is there: a pipe that nobody reads is no place to write to.
        keep = os.open(pipe, os.O_WRONLY)
        lab.run(program, "small", env=option("stats", pipe)).silent()
        os.close(keep)
        out, _ = reader.communicate(timeout=30)
    assert report(out)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipe_without_a_reader_holds_nobody(
    lab: Lab, program: Path, tmp_path: Path, kind: str
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert str(pipe) in said(lab.run(program, "small", env=option(kind, pipe), timeout=30))
    assert list(tmp_path.iterdir()) == [pipe] and pipe.is_fifo()


def test_the_exit_waits_for_no_writer_before_it(lab: Lab, program: Path, tmp_path: Path) -> None:
    """The profile of an interval, which a full pipe holds up, comes to nothing."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while os.write(end, bytes(4096)):
            pass
    env = option("profile", pipe) | {"STRATA_PROFILE_INTERVAL": "1"}
    with lab.start(program, "works_a_while", env=env) as running:
        time.sleep(3.5)
        got = b""
        while running.poll() is None or select.select([end], [], [], 0)[0]:
            if select.select([end], [], [], 0.1)[0]:
                got += os.read(end, 1 << 16)
        assert running.returncode == 0
    os.close(end)
    assert got.count(b"\x1f\x8b\x08") == 1


@pytest.mark.parametrize("case", ["small", "closes_stdout"])
@pytest.mark.parametrize("name", ["/proc/self/fd/1", "/dev/fd/1", "link"])
def test_stdout_takes_it_behind_what_the_program_wrote(
    lab: Lab, program: Path, tmp_path: Path, case: str, name: str
) -> None:
    link = tmp_path / "link"
    link.symlink_to("/proc/self/fd/1")  # as /dev/stdout is one
    env = option("stats", link if name == "link" else name)
    assert report(lab.run(program, case, env=env).ok().stdout)
    path = tmp_path / "out"
    with path.open("w") as out:
        out.write("before\n")
        out.flush()
        lab.run(program, case, env=env, stdout=out)
        out.write("after\n")
    text = path.read_text()
    assert text.startswith("before\n{") and text.endswith("}\nafter\n")
    assert report(text.removeprefix("before\n").removesuffix("after\n"))
    assert link.is_symlink() and sorted(tmp_path.iterdir()) == sorted((link, path))


def test_a_socket_that_the_program_was_given(lab: Lab, program: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        env = option("stats", f"/dev/fd/{theirs.fileno()}")
        lab.run(program, "small", env=env, pass_fds=(theirs.fileno(),)).silent()
        theirs.close()
        with ours.makefile() as reader:
            assert report(reader.read())


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_to_a_file_stays_one(lab: Lab, program: Path, tmp_path: Path, kind: str) -> None:
    """Links are followed, whether their end is there yet or not, and the end replaced whole."""
    (tmp_path / "there").mkdir()
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to("there/end")
    for _ in range(2):
        lab.run(program, "small", env=option(kind, tmp_path / "first")).silent()
        assert (tmp_path / "first").is_symlink() and (tmp_path / "second").is_symlink()
        end = tmp_path / "there/end"
        assert end.is_file() and not end.is_symlink() and end.stat().st_size > 100
        assert list(end.parent.iterdir()) == [end]


def test_links_in_a_circle(lab: Lab, program: Path, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    line = said(lab.run(program, "small", env=option("stats", tmp_path / "a")))
    assert "Too many levels of symbolic links" in line


def test_another_users_link_leads_nowhere(lab: Lab, program: Path, tmp_path: Path) -> None:
    """In /tmp anybody may put one where a service of root's writes."""
    if os.geteuid() != 0:
        missing("not root")
    crowd = tmp_path / "tmp"
    crowd.mkdir()
    crowd.chmod(0o1777)
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    link = crowd / "link"
    link.symlink_to(victim)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    lab.run(program, "small", env=option("stats", link)).silent()
    assert victim.read_text() == "as it was"
    assert not link.is_symlink() and report(link.read_text())
    pipe = crowd / "pipe"
    os.mkfifo(pipe)
    os.chown(pipe, NOBODY, NOBODY)
    with lab.start("cat", pipe, preload=False):
        line = said(lab.run(program, "small", env=option("profile", pipe)))
    assert "Permission denied" in line and pipe.is_fifo()


def test_a_directory_is_an_error(lab: Lab, program: Path, tmp_path: Path) -> None:
    assert "Is a directory" in said(lab.run(program, "small", env=option("stats", tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_modes(lab: Lab, program: Path, tmp_path: Path) -> None:
    """A profile shows what a program does, a trace everything: both are their user's alone."""
    trace = {
        "LD_PRELOAD": str(find_tool("libstrata-trace.so")),
        "STRATATRACE_FILE": str(tmp_path / "trace"),
        "STRATATRACE_PARENT": str(os.getpid()),
    }
    for mask, stats in ((0, 0o644), (0o022, 0o644), (0o077, 0o600)):
        for kind in KINDS:
            lab.run(program, "small", env=option(kind, tmp_path / kind), umask=mask).silent()
        lab.run(program, "small", env=trace, umask=mask).silent()
        for name, mode in (("stats", stats), ("prometheus", stats), ("profile", 0o600)):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode, name
        assert stat.S_IMODE((tmp_path / "trace").stat().st_mode) == 0o600


# ---- signals


@pytest.mark.parametrize("case", ["stats_into_a_broken_pipe", "pending_signals_stay_as_they_are"])
def test_a_broken_pipe_raises_no_signal(lab: Lab, program: Path, case: str) -> None:
    lab.run(program, case).silent()


def test_a_double_free_with_a_broken_stderr_aborts(lab: Lab, program: Path) -> None:
    result = lab.run(program, "double_free_with_a_broken_stderr")
    assert result.returncode == -signal.SIGABRT, result.explain()


@pytest.mark.parametrize("env", [{"STRATA_STATS": "exit"}, {"STRATA_VERBOSE": "1"}], ids=str)
def test_stderr_that_nobody_reads(lab: Lab, program: Path, env: dict[str, str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert lab.run(program, "small", env=env, stderr=writer).returncode == 0
    finally:
        os.close(writer)


def no_growth() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_on_file_sizes_ends_no_program(
    lab: Lab, program: Path, tmp_path: Path, kind: str
) -> None:
    env = option(kind, tmp_path / "file")
    assert "File too large" in said(lab.run(program, "small", env=env, preexec_fn=no_growth))
    assert list(tmp_path.iterdir()) == []


def test_a_limit_on_file_sizes_where_stderr_is_a_file(
    lab: Lab, program: Path, tmp_path: Path
) -> None:
    lab.run(program, "no_file_may_grow", tmp_path / "file").silent()
    with (tmp_path / "err").open("w") as err:
        for env in ({"STRATA_STATS": "exit"}, {"STRATA_VERBOSE": "1"}):
            result = lab.run(program, "small", env=env, stderr=err, preexec_fn=no_growth)
            assert result.returncode == 0


# ---- traces


def trace_to(lab: Lab, program: Path, path: Path, *words: str | Path) -> Result:
    env = {
        "LD_PRELOAD": str(find_tool("libstrata-trace.so")),
        "STRATATRACE_FILE": str(path),
        "STRATATRACE_PARENT": str(os.getpid()),
    }
    return lab.run(program, *words, env=env, preload=False, timeout=30)


def test_a_trace_goes_into_a_device(lab: Lab, program: Path, tmp_path: Path) -> None:
    device(tmp_path / "null", "null")
    shell = Path(shutil.which("sh") or "/bin/sh")
    trace_to(lab, shell, tmp_path / "null", "-c", f"{program} small; {program} small").silent()
    assert list(tmp_path.iterdir()) == [tmp_path / "null"]


def test_a_trace_into_a_pipe(lab: Lab, program: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert str(pipe) in said(trace_to(lab, program, pipe, "small"))
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        keep = os.open(pipe, os.O_WRONLY)
        trace_to(lab, program, pipe, "small").silent()
        os.close(keep)
        out, _ = reader.communicate(timeout=30)
    assert out.startswith(b"STB1")


def test_a_trace_through_links(lab: Lab, program: Path, tmp_path: Path) -> None:
    (tmp_path / "file").symlink_to("end")
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    trace_to(lab, program, tmp_path / "file", "small").silent()
    assert (tmp_path / "file").is_symlink()
    assert (tmp_path / "end").read_bytes().startswith(b"STB1")
    assert trace_to(lab, program, tmp_path / "stdout", "small").ok().stdout.startswith("STB1")
    assert (tmp_path / "stdout").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["end", "file", "stdout"]


@pytest.mark.parametrize("kind", ["stats", "profile"])
def test_what_fails_at_every_interval_is_said_once(
    lab: Lab, program: Path, tmp_path: Path, kind: str
) -> None:
    """And not in a data file of the program's that has the number of stderr."""
    interval = {f"STRATA_{kind.upper()}_INTERVAL": "1"}
    env = option(kind, "/no/such/place") | interval
    assert "can't write" in said(lab.run(program, "works_a_while", env=env))
    data = tmp_path / "data"
    assert lab.run(program, "data_file_as_stderr", data, env=env).returncode == 0
    assert data.read_text() == ""
