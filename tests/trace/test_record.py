"""`strata trace` and `strata replay` on programs: what is called is recorded, and called again."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from blackbox import Lab, connect, free_port, missing, need
from strata.peers import find_system_library
from strata.trace.analyze import objects
from strata.trace.command import find_tool, others
from strata.trace.read import read_trace
from tracing import (
    STRATA,
    assert_replay_follows,
    curve_of,
    environment,
    of_size,
    record,
    replayed,
    strata,
)

HERE = Path(__file__).resolve().parent
BLOCKS = 5000  # as in recorded.cpp


@pytest.fixture(scope="module")
def program(lab: Lab) -> Path:
    return lab.build(HERE / "recorded.cpp", "-fsized-deallocation")


def test_threads_that_free_each_others_blocks(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    result = record(lab, path, program, "threads")
    assert result.returncode == 0, result.explain()
    trace = read_trace(path)
    assert trace.damage is None
    assert trace.totals is not None
    assert trace.totals.events == len(trace.events)
    assert trace.totals.lost == 0
    makers = set()
    for thread in range(4):
        blocks = of_size(trace, 10_000 + thread)
        assert len(blocks) == BLOCKS
        assert blocks["freed_by"].null_count() == 0
        assert (blocks["freed_by"] != blocks["thread"]).all()
        makers.add(blocks["thread"].unique().item())
    assert len(makers) == 4
    # every number once, and none missing
    assert (trace.events["sequence"].diff().drop_nulls() == 1).all()
    assert_replay_follows(path)
    assert_replay_follows(path, lab.library)


def test_short_threads_lose_nothing(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert record(lab, path, program, "short-threads").returncode == 0
    trace = read_trace(path)
    blocks = of_size(trace, 10_100)
    assert len(blocks) == 300
    assert blocks["died"].null_count() == 0
    assert blocks["thread"].n_unique() == 300
    assert_replay_follows(path)


def test_fork(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    result = record(lab, path, program, "fork")
    assert result.returncode == 0, result.explain()
    parent = read_trace(path)
    assert len(of_size(parent, 10_200)) == 5
    assert len(of_size(parent, 10_201)) == 0
    children = [read_trace(p) for p in others(path)]
    assert len(children) == 2
    by_parent = {trace.header.parent: trace for trace in children}
    child = by_parent[parent.header.pid]
    assert len(of_size(child, 10_200)) == 0
    assert len(of_size(child, 10_201)) == 7
    assert of_size(child, 10_201)["died"].null_count() == 0
    assert child.totals is not None
    assert child.totals.unknown_frees >= 5
    assert len(of_size(by_parent[child.header.pid], 10_202)) == 3
    for trace_path in others(path):
        assert_replay_follows(trace_path)


def test_fork_while_threads_allocate(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    result = record(lab, path, program, "fork-storm")
    assert result.returncode == 0, result.explain()
    children = [read_trace(p) for p in others(path)]
    assert len(children) == 60
    for child in children:
        assert child.damage is None
        assert len(of_size(child, 10_250)) == 10


def test_vfork_leaves_the_recording_alone(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert record(lab, path, program, "vfork").returncode == 0
    trace = read_trace(path)
    assert len(of_size(trace, 10_300)) == BLOCKS
    assert trace.totals is not None
    assert list(others(path)) == []


def test_a_killed_program_leaves_what_was_written(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    result = record(lab, path, program, "kill")
    assert result.returncode == 128 + signal.SIGKILL
    trace = read_trace(path)
    assert trace.damage is None
    assert trace.totals is None
    # all but what one buffer holds
    assert BLOCKS - 2048 <= len(of_size(trace, 10_400)) <= BLOCKS
    assert_replay_follows(path)


def test_a_handler_that_ends_the_program_waits_for_nobody(
    lab: Lab, program: Path, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    result = record(lab, path, program, "handlers-exit", options=("--stacks",))
    assert result.returncode == 0, result.explain()
    for child in others(path):
        assert read_trace(child).damage is None


def test_exec_keeps_both_recordings(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    result = record(lab, path, program, "exec")
    assert result.returncode == 0, result.explain()
    assert len(of_size(read_trace(path), 10_300)) == BLOCKS
    (before,) = others(path)
    assert len(of_size(read_trace(before), 10_500)) >= BLOCKS - 2048


def test_a_program_that_closes_everything(lab: Lab, program: Path, tmp_path: Path) -> None:
    path, innocent = tmp_path / "t", tmp_path / "innocent"
    result = record(lab, path, program, "close", innocent)
    assert result.returncode == 0, result.explain()
    assert innocent.read_bytes() == b""
    trace = read_trace(path)
    assert trace.damage is None
    assert len(of_size(trace, 10_600)) == BLOCKS
    assert of_size(trace, 10_600)["died"].null_count() == 0


@pytest.mark.parametrize("below", ["glibc", "strata", "jemalloc"])
def test_all_functions_on_any_allocator(
    lab: Lab, program: Path, tmp_path: Path, below: str
) -> None:
    """Also where operator new does not pass through malloc, which is so with the other two."""
    libraries = {"glibc": None, "strata": lab.library}
    library = libraries[below] if below in libraries else find_system_library("libjemalloc.so.2")
    if below != "glibc" and library is None:
        missing("libjemalloc2 is not installed")
    path = tmp_path / "t"
    env = {"STRATATRACE_FILE": str(path)}
    preloads = [str(find_tool("libstrata-trace.so")), *([str(library)] if library else [])]
    env["LD_PRELOAD"] = ":".join(preloads)
    lab.run(program, "api", env=env, preload=False).silent()
    trace = read_trace(next(others(path)))
    found = objects(trace)
    for size in (10_700, 10_701, 10_702, 10_703, 10_704, 10_705, 10_706, 10_707, 10_708):
        rows = found.filter(pl.col("size") == size)
        assert len(rows) == 1, f"{size}: {rows}"
        assert rows["died"].null_count() == 0, f"{size} was not freed"
    assert len(found.filter(pl.col("size") == 10_752)) == 2
    aligned = trace.events.filter(pl.col("alignment") != 0)
    assert {128, 256, 4096} <= set(aligned["alignment"].to_list())
    assert found.filter(pl.col("size") > 1 << 60).is_empty()
    assert trace.totals is not None
    assert trace.totals.unknown_frees == 0


def test_the_clock_of_the_program_is_left_alone(lab: Lab, tmp_path: Path) -> None:
    clock = lab.build(HERE.parent / "preload" / "program_clock.c", "-rdynamic")
    result = record(lab, tmp_path / "t", clock)
    assert result.returncode == 0, result.explain()


def test_stacks(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert record(lab, path, program, "threads", options=("--stacks",)).returncode == 0
    trace = read_trace(path)
    assert trace.header.has_stacks
    assert program.name in trace.mappings

    def file_of(frame: int) -> str:
        for line in trace.mappings.splitlines():
            low, high = line.split()[0].split("-")
            if int(low, 16) <= frame < int(high, 16):
                return line.rsplit("/")[-1]
        return "nowhere"

    for thread in range(4):
        stacks = of_size(trace, 10_000 + thread)["stack"].unique().to_list()
        assert 1 <= len(stacks) <= 4  # the compiler may have unrolled the loop
        for stack in stacks:
            frames = trace.stacks[stack]
            assert len(frames) >= 3
            assert file_of(frames[0]) == program.name
            assert file_of(frames[-1]) == "libc.so.6"  # where each thread begins
    assert set(trace.events["stack"].unique().to_list()) - {0} <= set(trace.stacks)


def test_a_full_disk_gives_one_message(lab: Lab, program: Path) -> None:
    if not os.access("/dev/full", os.W_OK):
        missing("no /dev/full")
    env = {"STRATATRACE_FILE": "/dev/full", "STRATATRACE_PARENT": str(os.getpid())}
    env["LD_PRELOAD"] = str(find_tool("libstrata-trace.so"))
    result = lab.run(program, "threads", env=env, preload=False)
    assert result.returncode == 0
    assert result.stdout == ""
    line = "strata: the recording ends early: /dev/full: No space left on device\n"
    assert result.stderr == line


def test_a_path_that_cannot_be_gives_one_message(lab: Lab, program: Path, tmp_path: Path) -> None:
    env = {"STRATATRACE_FILE": str(tmp_path / "missing" / "t")}
    env["LD_PRELOAD"] = str(find_tool("libstrata-trace.so"))
    result = lab.run(program, "vfork", env=env, preload=False)
    assert result.returncode == 0
    assert len(result.stderr.splitlines()) == 1
    assert "No such file or directory" in result.stderr


def test_the_sqlite_of_python(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "t"
    code = """
import sqlite3
c = sqlite3.connect(":memory:")
c.execute("create table t (a integer primary key, b text)")
c.executemany("insert into t values (?, ?)", ((i, "x" * (i % 500)) for i in range(5000)))
print(c.execute("select count(*), sum(length(b)) from t").fetchone())
"""
    result = record(lab, path, sys.executable, "-c", code)
    assert result.returncode == 0, result.explain()
    assert result.stdout == f"(5000, {sum(i % 500 for i in range(5000))})\n"
    assert sqlite3.sqlite_version
    trace = read_trace(path)
    assert len(trace.events) > 5000
    assert trace.header.command[-1] == code
    assert_replay_follows(path)


def test_redis(lab: Lab, tmp_path: Path) -> None:
    server, path, port = need("redis-server"), tmp_path / "t", free_port()
    words = ("trace", "-o", str(path), "--", server, "--port", str(port), "--save", "")
    with lab.start(
        *STRATA, *words, env=environment(), preload=False, cwd=tmp_path, stdout=subprocess.DEVNULL
    ) as process:
        with connect(port, process) as link, link.makefile("rb") as answers:
            for first in range(0, 3000, 100):
                keys = range(first, first + 100)
                link.sendall(
                    b"".join(b"SET key:%d %s\r\n" % (k, b"v" * (1 + k % 700)) for k in keys)
                )
                for _ in keys:
                    assert answers.readline() == b"+OK\r\n"
            link.sendall(b"SHUTDOWN NOSAVE\r\n")
        assert process.wait(timeout=60) == 0
    trace = read_trace(path)
    assert trace.damage is None
    assert trace.totals is not None
    assert len(trace.events) > 6000
    assert_replay_follows(path)
    answer = replayed(path, "--samples", "50", touch="pages", preload=lab.library)
    peak = answer["peak_resident"]
    assert isinstance(peak, int)
    assert peak >= max(live for _, live in curve_of(answer)) // 2


def test_an_earlier_recording_makes_room_and_nothing_else(
    lab: Lab, program: Path, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    assert record(lab, path, program, "fork").returncode == 0
    (tmp_path / "t.notes").write_text("mine")
    (tmp_path / "t.12").write_text("mine, too")
    assert record(lab, path, program, "vfork").returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t", "t.12", "t.notes"]
    (tmp_path / "u").write_text("a letter")
    result = record(lab, tmp_path / "u", program, "vfork")
    assert result.returncode == 2
    assert result.stderr == f"strata: {tmp_path / 'u'}: exists, and is not a trace\n"
    assert (tmp_path / "u").read_text() == "a letter"
    (tmp_path / "link").symlink_to("end")
    for _ in range(2):  # the second has an earlier one to remove
        assert record(lab, tmp_path / "link", program, "vfork").returncode == 0
        assert (tmp_path / "link").is_symlink() and not (tmp_path / "end").is_symlink()


def test_mistakes_are_one_line(lab: Lab, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"not a trace")
    for words, part in (
        (("trace", "-o", path), "expected -o FILE"),
        (("trace", "--", program), "expected -o FILE"),
        (("trace", "-o", tmp_path / "no" / "t", "--", program), "no such directory"),
        (("trace", "-o", tmp_path / "t2", "--", "no-such-command"), "command not found"),
        (("trace", "--info", path), "not a trace"),
        (("trace", "--info", tmp_path / "none"), "no such file"),
        (("replay", path), "not a trace"),
        (("replay", tmp_path / "none"), "no such file"),
        (("replay", path, "--heap", "no-such"), "no libstrata-no-such.so in"),
        (("replay", path, "--heap", "trace"), "but not Strata's"),
        (("replay", path, "--preload", path), "not a shared library"),
        (("replay", path, "--allocator", "no-such"), "--allocator 'no-such': unknown"),
    ):
        result = strata(lab, *words)
        assert result.returncode != 0, result.explain()
        assert result.stdout == "", result.explain()
        assert len(result.stderr.splitlines()) == 1, result.explain()
        assert part in result.stderr, result.explain()


def test_files_may_not_grow_as_large(lab: Lab, program: Path, tmp_path: Path) -> None:
    """A limit on the size of files ends the recording, and not the program."""
    path = tmp_path / "t"
    env = {"STRATATRACE_FILE": str(path), "LD_PRELOAD": str(find_tool("libstrata-trace.so"))}

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    result = lab.run(program, "threads", env=env, preload=False, preexec_fn=limit)
    assert result.returncode == 0, result.explain()
    assert len(result.stderr.splitlines()) == 1
    assert "File too large" in result.stderr
    assert len(read_trace(next(others(path))).events) > 0
