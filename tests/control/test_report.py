"""`strata report` on a real server under load: what it gathers, draws, and draws again."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from pathlib import Path

import pytest
from blackbox import Lab, connect, free_port, need
from command import good, refused
from test_reach import wait_for_socket

KINDS = ("heap", "allocs", "churn", "peak", "lifetime", "fragmentation")


def test_a_redis_server_under_load(lab: Lab, tmp_path: Path) -> None:
    lab.require_strata()
    port = free_port()
    options = ("--port", str(port), "--save", "", "--dir", tmp_path)
    command = (need("redis-server"), *options, "--enable-debug-command", "yes")
    out = tmp_path / "out"
    stop = threading.Event()
    with (
        lab.start(*command, env={"STRATA_SAMPLE": "32K", "STRATA_CONTROL": "always"}) as server,
        connect(port, server) as link,
    ):

        def load() -> None:
            while not stop.is_set():
                link.sendall(b"DEBUG POPULATE 20000 key 700\r\nFLUSHALL\r\n")
                link.recv(1000)
                stop.wait(0.05)  # the page is drawn meanwhile, half a minute's work for one core

        link.sendall(b"DEBUG POPULATE 30000 first 100\r\n")
        assert link.recv(100)[:1] == b"+"
        wait_for_socket(server.pid)
        worker = threading.Thread(target=load)
        worker.start()
        try:
            text = good("report", server.pid, "-o", out, "--seconds", 2)
        finally:
            stop.set()
            worker.join()
        again = good("report", out, "-o", tmp_path / "again")
    assert text.startswith("Memory of redis-server\n")
    assert re.search(r"^RSS +\d", text, re.MULTILINE)
    assert text.endswith(f"The page: {out}/index.html\n")
    page = (out / "index.html").read_text()
    assert "<title>Memory of redis-server</title>" in page
    missing = json.loads((out / "report.json").read_text())["missing"]
    assert set(missing) <= {"cpu"}  # which takes perf, and leave to use it
    kinds = KINDS if missing else (*KINDS, "cpu")
    assert {path.name for path in out.glob("*.pb.gz")} == {f"{kind}.pb.gz" for kind in kinds}
    assert len((out / "samples.jsonl").read_text().splitlines()) == 3
    said = re.findall(r'class="missing">([^<]*)', page)
    assert [text[:36] for text in said] == ["No profile of CPU time was taken: per"] * len(missing)
    if not missing:
        assert re.search(r"[1-9]\d* of them in the allocator", page)
    assert "<li>main</li>" in page  # the stacks are whole, and named
    assert again.splitlines()[:-1] == text.splitlines()[:-1]
    assert (tmp_path / "again" / "index.html").read_text() == page


KEEPS = """
#include <stdlib.h>
void* kept[64];
__attribute__((noinline)) void* load_rows(void) { return malloc(1 << 20); }
int main(void) {
  for (int i = 0; i < 64; ++i) kept[i] = load_rows();
  return 0;
}
"""


def test_files_of_the_library_are_named_and_ask_nobody(lab: Lab, tmp_path: Path) -> None:
    """It wrote addresses alone; and the number may be another process's by now."""
    lab.require_strata()
    source, files = tmp_path / "keeps.c", tmp_path / "files"
    source.write_text(KEEPS)
    files.mkdir()
    env = {
        "STRATA_STATS": str(files / "stats.json"),
        "STRATA_PROFILE": f"heap:{files}/heap.pb.gz",
        "STRATA_SAMPLE": "64K",
    }
    lab.run(lab.build(source, "-O1", "-g"), env=env).ok()
    pid = json.loads((files / "stats.json").read_text())["pid"]
    text = good("report", files, "-o", tmp_path / "out")
    assert "load_rows" in text
    assert f"Process {pid} does not run on Strata here" in text
    assert f"report {pid} " not in text


def test_a_program_with_the_library_in_it_is_still_there(lab: Lab, tmp_path: Path) -> None:
    """It maps no libstrata.so, but listens."""
    source = tmp_path / "rests.c"
    source.write_text("#include <unistd.h>\nint main(void) { return (int)sleep(60); }\n")
    archive = lab.require_strata().parent / "libstrata.a"
    linked = ("-Wl,--undefined=malloc", str(archive), "-static")
    with lab.start(lab.build(source, *linked), env={"STRATA_CONTROL": "always"}) as process:
        wait_for_socket(process.pid)
        text = good("report", process.pid, "-o", tmp_path / "out", "--seconds", 0)
    assert "does not run on Strata here" not in text


def test_what_cannot_be_reported_is_one_line(tmp_path: Path) -> None:
    assert "no such folder" in refused("report", tmp_path / "absent")
    assert "no statistics and no profile" in refused("report", tmp_path)
    assert "no process is called" in refused("report", "absent")
    assert "does not run on Strata" in refused("report", os.getpid(), "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Objects of 1 KiB: all freed, or at random all but each fourth.
FREES = """
import random, sys, time
objects = [bytes(1000) for _ in range(120_000)]
random.seed(1)
kept = [one for one in objects if random.random() < float(sys.argv[1])]
del objects
print("ready", flush=True)
time.sleep(60)
"""


def rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(("kept", "gives_back"), [("0", True), ("0.25", False)])
def test_who_follows_the_first_advice_gets_what_it_says(
    lab: Lab, tmp_path: Path, kept: str, gives_back: bool
) -> None:
    """What is said to go back goes back; what lies between live objects is not said to."""
    lab.require_strata()
    command = (sys.executable, "-c", FREES, kept)
    env = {"PYTHONMALLOC": "malloc", "STRATA_RELEASE": "off", "STRATA_SAMPLE": "64K"}
    with lab.start(*command, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_for_socket(process.pid)
        text = good("report", process.pid, "-o", tmp_path / "out", "--seconds", 1)
        said = re.search(r"([\d.]+) MiB is free and still resident", text)
        before = rss(process.pid)
        good("release", process.pid)
        gone = before - rss(process.pid)
    if gives_back:
        assert said is not None, text
        assert gone >= 0.8 * float(said[1]) * 2**20, text
    else:
        assert said is None, text
        assert "otherwise free pages resident" in " ".join(text.split()), text
        assert gone < 0.5 * 120_000 * 1000, text
