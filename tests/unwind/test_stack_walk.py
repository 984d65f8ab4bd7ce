"""The stack walk against glibc's backtrace: helper programs in C, C++ and Rust, and real servers.

The helpers link probe.cpp, the walk's sources as a library of its own; they compare frame by frame
and say nothing when all is well. The servers have it preloaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, Lab, connect, free_port, need, wait_until

HERE = Path(__file__).resolve().parent
ARCHITECTURE = os.environ.get("STRATA_TARGET") or platform.machine()
SOURCES = [
    *sorted((ROOT / "src/profile/unwind").glob("*.cpp")),
    *sorted((ROOT / "src/profile/unwind" / ARCHITECTURE).glob("*.cpp")),
    ROOT / "src/os/glibc/libc_symbol.cpp",
    ROOT / "src/os" / ARCHITECTURE / "switch_stack.cpp",
    *(
        ROOT / "src" / name
        for name in (
            "profile/stack_walk.cpp",
            "profile/script_frames.cpp",
            "profile/python/python_frames.cpp",
            "profile/mappings.cpp",
            "os/confinement.cpp",
            "os/readable.cpp",
            "os/side_stack.cpp",
            "base/lock.cpp",
            "base/check.cpp",
            "base/message.cpp",
            "base/moment.cpp",
        )
    ),
]
FLAGS = (
    "-O2 -DNDEBUG -fPIC -fno-exceptions -fno-rtti -fno-threadsafe-statics "
    "-fvisibility=hidden -ftls-model=initial-exec"
).split()


def build_probe(lab: Lab, *flags: str) -> Path:
    """The walk as a library; rebuilt when any source of it changes."""
    key = hashlib.sha256()
    for path in [*SOURCES, *sorted((ROOT / "src").glob("*/**/*.h"))]:
        key.update(path.read_bytes())
    common = (
        *FLAGS,
        f"-DPROBE_KEY={key.hexdigest()[:16]}",
        f"-I{ROOT / 'src'}",
        f"-I{ROOT / 'include'}",
    )
    first, *others = SOURCES
    walk = lab.build(first, *common, "-r", "-nostdlib", *map(str, others), name="walk")
    name = "libprobe-malloc" if flags else "libprobe"
    return lab.build(HERE / "probe.cpp", *common, "-shared", *flags, str(walk), name=name)


def link_to(library: Path) -> list[str]:
    """Flags that work in front of the source."""
    return ["-Wl,--no-as-needed", str(library)]


@pytest.fixture(scope="module")
def probe(lab: Lab) -> Path:
    return build_probe(lab)


@pytest.mark.parametrize(
    "flags",
    [
        "-O0",
        "-O2 -fomit-frame-pointer",
        "-O3 -mavx2 -fomit-frame-pointer",
        "-Os -fno-asynchronous-unwind-tables -funwind-tables",
        "-O2 -fno-omit-frame-pointer",
        "-O2 -fomit-frame-pointer -s",
    ],
)
def test_random_chains_in_c(lab: Lab, probe: Path, flags: str) -> None:
    """Functions with all kinds of frames, also without symbols."""
    program = lab.build(HERE / "chains.c", *flags.split(), *link_to(probe))
    for seed in range(4):
        lab.run(program, str(seed)).silent()
        lab.run(program, str(seed), env={"PROBE_UNPREPARED": "1"}).silent()
    lab.run(program, "9", preload=False).silent()


@pytest.mark.parametrize("flags", ["-O0", "-O2 -fomit-frame-pointer", "-O3 -s"])
def test_cxx(lab: Lab, probe: Path, flags: str) -> None:
    program = lab.build(HERE / "chains.cpp", *flags.split(), *link_to(probe))
    lab.run(program).silent()
    lab.run(program, env={"PROBE_UNPREPARED": "1"}).silent()


def test_rust(lab: Lab, probe: Path) -> None:
    program = lab.build(HERE / "chains.rs", "-C", f"link-arg={probe}")
    lab.run(program).silent()


@pytest.mark.parametrize(
    "case",
    ["unprepared", "refused", "signal", "altstack", "fault", "timer", "fiber", "fork", "jit"],
)
def test_contexts(lab: Lab, probe: Path, case: str) -> None:
    """Signal handlers, fibers, forked children, code without tables, no tables at all,
    and no memory for any."""
    program = lab.build(HERE / "contexts.c", "-O2", "-fomit-frame-pointer", *link_to(probe))
    lab.run(program, case, preload=False).silent()


def test_dlopen_storm(lab: Lab, probe: Path) -> None:
    """Files come and go under the walkers; the tables follow and do not pile up."""
    plugins = [
        lab.build(
            HERE / "plugin.c", "-O2", "-shared", "-fPIC", f"-DSHAPE={shape}", name=f"plug{shape}"
        )
        for shape in (1, 9)
    ]
    program = lab.build(HERE / "storm.c", "-O2", *link_to(probe))
    for _ in range(3):
        lab.run(program, *plugins).silent()


def test_another_file_in_the_same_place(lab: Lab, probe: Path) -> None:
    """No walk finds unknown code there; the background thread's round has to see the change."""
    plugins = [
        lab.build(
            HERE / "plugin.c", "-O2", "-shared", "-fPIC", f"-DSHAPE={shape}", name=f"plug{shape}"
        )
        for shape in (1, 9)
    ]
    program = lab.build(HERE / "reopen.c", "-O2", *link_to(probe))
    lab.run(program, *plugins).silent()


def read_walks(path: Path) -> tuple[int, float]:
    """Walks, and frames a walk; none of the walks may differ from backtrace's."""
    whole = lambda: path.exists() and path.read_text().endswith("\n")  # noqa: E731
    assert wait_until(whole), "the server wrote no result"
    walks, frames, differ, _cut, table_bytes = map(int, path.read_text().split())
    assert differ == 0, f"{differ} of {walks} walks differ from backtrace"
    assert table_bytes < 4 << 20
    return walks, frames / max(walks, 1)


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(60)


@pytest.mark.parametrize("tables", [True, False])
def test_redis_server(lab: Lab, tmp_path: Path, tables: bool) -> None:
    """Debian's build, which has no frame pointers: every stack reaches its thread's first frame,
    by tables or, where there are none yet, by the files themselves."""
    library = build_probe(lab, "-DPROBE_MALLOC")
    port = free_port()
    out = tmp_path / "walks"
    options = f"--port {port} --bind 127.0.0.1 --appendonly no --io-threads 2 --save"
    env = {"LD_PRELOAD": str(library), "PROBE_OUT": str(out), "PROBE_EVERY": "3"}
    if not tables:
        env["PROBE_UNPREPARED"] = "1"
    with lab.start(
        need("redis-server"),
        *options.split(),
        "",
        env=env,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    ) as process:
        link = connect(port, process)
        script = "for i=1,200 do redis.call('HSET','h'..i,'f',string.rep('x',i)) end return 1"
        for i in range(300):
            say(link, "SET", f"k{i}", "v" * i)
            say(link, "RPUSH", "list", f"{i}")
        say(link, "EVAL", script, "0")
        link.close()
        stop(process)
    walks, depth = read_walks(out)
    assert walks > 500
    assert depth >= 8


def say(link: socket.socket, *words: str) -> None:
    """One command, and whatever it answers."""
    parts = [f"*{len(words)}\r\n", *(f"${len(word)}\r\n{word}\r\n" for word in words)]
    link.sendall("".join(parts).encode())
    assert link.recv(65536)


def test_memcached(lab: Lab, tmp_path: Path) -> None:
    library = build_probe(lab, "-DPROBE_MALLOC")
    port = free_port()
    out = tmp_path / "walks"
    env = {"LD_PRELOAD": str(library), "PROBE_OUT": str(out), "PROBE_EVERY": "1"}
    user = ["-u", "root"] if os.geteuid() == 0 else []
    command = [need("memcached"), *user, "-p", str(port), "-l", "127.0.0.1", "-t", "4"]
    with lab.start(*command, env=env) as process:
        links = [connect(port, process) for _ in range(40)]
        for link in links:
            link.sendall(b"set k 0 0 3\r\nabc\r\nget k\r\nstats\r\n")
            assert link.recv(65536)
        for link in links:
            with contextlib.suppress(OSError):
                link.close()
        stop(process)
    walks, depth = read_walks(out)
    assert walks > 100
    assert depth >= 8
