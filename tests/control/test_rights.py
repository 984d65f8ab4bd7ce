"""Who may ask a process, and who may answer for it: what the kernel says of rights, and not a
number of a user or a name of a socket."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from blackbox import ROOT, Lab, missing, need, wait_until
from command import good, refused, strata
from reaching import ask_raw, body_of, connect, crowd, key_of, started

PACKAGE = {"PYTHONPATH": str(ROOT / "python")}
REFUSED = "error only the user of this process, or root, may ask"
NO_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--")
CONTAINER = (
    *("unshare", "--pid", "--mount", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"),
    "--",
)

# Everything that somebody may try who has nothing but the name of the socket.
ASKS = r"""
import glob, os, re, socket, sys
name = "\0strata-control/" + sys.argv[1]
users = [int(user) for user in sys.argv[2:3]]
for user in users:
    os.setgroups([]); os.setgid(user); os.setuid(user)
keys = {"", "key " + 32 * "0" + " "}
for maps in glob.glob("/proc/[0-9]*/maps"):
    try:
        keys |= {f"key {k} " for k in re.findall("strata-key:([0-9a-f]{32})", open(maps).read())}
    except OSError:
        pass
for key in sorted(keys):
    for request in ("stats json", "profile heap", "set heap_limit=1", "release"):
        link = socket.socket(socket.AF_UNIX)
        link.connect(name)
        try:
            link.sendall(f"{key}{request}\n".encode())
        except BrokenPipeError:
            pass
        print(link.recv(300).decode(errors="replace").splitlines()[0])
"""


def need_root() -> None:
    if os.geteuid() != 0:
        missing("needs root to become somebody else")
    need("setpriv")
    need("unshare")


def asks(pid: int, *prefix: str, user: int | None = None) -> list[str]:
    """The first lines of the answers that somebody gets."""
    command = [*prefix, sys.executable, "-c", ASKS, str(pid)]
    if user is not None:
        command.append(str(user))
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def assert_refused(answers: list[str], most: int) -> None:
    assert 8 <= len(answers) <= most
    assert all(line.startswith(REFUSED) for line in answers), answers


# ---- who may ask


@pytest.mark.parametrize("where", [(), CONTAINER], ids=["host", "container"])
def test_root_without_capabilities_is_refused(lab: Lab, where: tuple[str, ...]) -> None:
    """As in CVE-2020-15257: a container that shares the network reaches the names of the host."""
    need_root()
    with started(lab, "grow_and_sleep") as (process, _):
        connect(process.pid).close()
        assert_refused(asks(process.pid, *where, *NO_CAPABILITIES), 8)
        assert body_of(ask_raw(process.pid, b"get heap_limit")) == b"heap_limit=0\n"


def test_container_with_capabilities_of_its_own_is_refused(lab: Lab) -> None:
    """It may do what it likes in its user namespace, and its root has our number."""
    need_root()
    user = ("unshare", "--user", "--map-root-user", "--")
    with started(lab, "grow_and_sleep") as (process, _):
        connect(process.pid).close()
        assert_refused(asks(process.pid, *user), 8)


def test_user_of_a_process_may_ask(lab: Lab) -> None:
    need_root()
    with started(lab, "set_user_and_show") as (process, _):
        assert any(line.startswith("ok ") for line in asks(process.pid, user=65534))


def test_process_that_shows_itself_to_root_only_tells_root_only(lab: Lab) -> None:
    """One that changed its user, or said so: the kernel keeps its mappings from its own user."""
    need_root()
    with started(lab, "set_user") as (process, _):
        assert_refused(asks(process.pid, user=65534), 8)
        assert json.loads(good("stats", process.pid, "--format", "json"))["pid"] == process.pid


def test_worker_that_gave_up_its_user_gets_its_thread_again(lab: Lab) -> None:
    """An allocation within the change was taken for a thread that could not be made, and held the
    next try back for 10,000 misses of the caches: hours of a small worker's life."""
    need_root()
    env = {"STRATA_CONTROL": "always", "STRATA_SAMPLE": "64K"}
    with started(lab, "fork_and_become_a_worker", env=env) as (_, lines):
        child = int(lines[0])
        try:
            connect(child).close()
        finally:
            os.kill(child, signal.SIGKILL)


def test_command_says_whose_mappings_are_hidden(lab: Lab) -> None:
    need_root()
    program = (
        "import os, sys, strata.control as c\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: c.ask(c.Process(int(sys.argv[1])), 'version')\n"
        "except c.StrataError as error: print(error)"
    )
    with started(lab, "set_user") as (process, _):
        connect(process.pid).close()
        command = (sys.executable, "-c", program, str(process.pid))
        done = lab.run(*command, env=PACKAGE, preload=False).ok()
    assert "does not show you its mappings (permission denied)" in done.stdout


def test_each_process_has_a_key_of_its_own(lab: Lab) -> None:
    with started(lab, "fork_and_grow") as (process, lines):
        child = int(lines[0])
        connect(child).close()
        assert key_of(child) != key_of(process.pid)


def test_nothing_of_the_key_can_be_opened(lab: Lab) -> None:
    """The page that shows it leads to an empty file, and no descriptor is left."""
    with started(lab, "grow_and_sleep") as (process, _):
        connect(process.pid).close()
        folder = Path(f"/proc/{process.pid}")
        lines = (folder / "maps").read_text().splitlines()
        shown = [line for line in lines if "strata-key" in line]
        assert len(shown) == 1 and shown[0].split()[1] == "---p"
        links = [link for link in folder.glob("task/*/fd/*") if link.is_symlink()]
        assert links and not any("strata-key" in str(link.readlink()) for link in links)


# ---- user namespaces

INSIDE = ("unshare", "--user", "--map-user=65534", "--")


def test_root_outside_asks_into_a_user_namespace(lab: Lab) -> None:
    """There it has no number, and looks as all strangers do."""
    need_root()
    with started(lab, "grow_and_sleep", prefix=INSIDE) as (process, _):
        connect(process.pid).close()
        assert json.loads(good("stats", process.pid, "--format", "json"))["pid"] == process.pid
        assert good("set", process.pid, "release=off") == ""
        assert_refused(asks(process.pid, user=1234), 8)


def test_strangers_do_not_keep_root_out_of_a_user_namespace(lab: Lab) -> None:
    need_root()
    with started(lab, "grow_and_sleep", prefix=INSIDE) as (process, _):
        connect(process.pid).close()
        other = crowd(process.pid, 1234)
        with lab.start(*other, preload=False) as silent:
            assert silent.stdout is not None and silent.stdout.readline() == "up\n"
            begin = time.monotonic()
            assert good("get", process.pid, "release") == "on\n"
            assert time.monotonic() - begin < 9


# ---- who answers


@contextlib.contextmanager
def impostor(lab: Lab, user: int, kept: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A process with Strata in it whose number another one listens under."""
    with started(lab, "impostor_then_exec", str(user), kept) as (process, _):
        wanted = f"@strata-control/{process.pid}."
        sockets = Path("/proc/net/unix")
        assert wait_until(lambda: wanted in sockets.read_text()), "the library found no other name"
        yield process.pid, process


@pytest.mark.parametrize(("user", "kept"), [(0, "left"), (65534, "left"), (65534, "kept")])
def test_other_holder_of_the_socket_is_not_asked(lab: Lab, user: int, kept: str) -> None:
    """The kernel names the process that listened first: one of the same number. Neither that nor
    its user's name is enough."""
    need_root()
    with impostor(lab, user, kept) as (pid, process):
        report = json.loads(good("stats", pid, "--format", "json"))
        assert report["pid"] == pid
        assert good("get", pid, "heap_limit") == "0\n"
        assert process.stderr is not None
        assert not select.select([process.stderr], [], [], 0)[0], "the other one was asked"


HOLDS_ANOTHERS_NAME = r"""
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind("\0strata-control/" + str(os.getpid()))
s.listen()
if os.fork() == 0:
    time.sleep(60)
os.execv("/bin/sleep", ["sleep", "60"])
"""


def test_process_that_does_not_hold_its_socket_has_none(lab: Lab) -> None:
    with lab.start(sys.executable, "-c", HOLDS_ANOTHERS_NAME, preload=False) as process:
        comm = Path(f"/proc/{process.pid}/comm")
        assert wait_until(lambda: comm.read_text() == "sleep\n")
        assert "does not hold has its name: not asking it" in refused("stats", process.pid)


def test_forged_line_of_the_list_of_sockets_is_not_believed(lab: Lab) -> None:
    """Names stand there as they are: one may hold a line end, and a line after it."""
    forge = r"""
import os, socket, sys
pid, inode = sys.argv[1:]
s = socket.socket(socket.AF_UNIX)
s.bind(f"\0x\n0: 00000002 00000000 00010000 0001 01 {inode} @strata-control/{pid}")
s.listen()
print("up", flush=True)
sys.stdin.read()
"""
    with started(lab, "grow_and_sleep") as (process, _):
        connect(process.pid).close()
        command = (sys.executable, "-c", forge, str(process.pid), "12345")
        with lab.start(*command, preload=False, stdin=subprocess.PIPE) as other:
            assert other.stdout is not None and other.stdout.readline() == "up\n"
            done = strata("get", process.pid, "release")
            assert done.returncode == 2 and "not asking it" in done.stderr
        assert good("get", process.pid, "release") == "on\n"


def test_name_of_a_process_is_not_taken_for_its_user(lab: Lab) -> None:
    """Some letters end a line for Python and not for the kernel."""
    named = "open('/proc/self/comm', 'w').write('\\x0cUid:\\t7\\t7'); input()"
    command = (sys.executable, "-c", named)
    with lab.start(*command, preload=False, stdin=subprocess.PIPE) as process:
        comm = Path(f"/proc/{process.pid}/comm")
        assert wait_until(lambda: "Uid" in comm.read_text())
        code = f"from strata.processes import Process; print(Process({process.pid}).uid)"
        done = lab.run(sys.executable, "-c", code, env=PACKAGE, preload=False).ok()
    assert done.stdout == f"{os.geteuid()}\n"
