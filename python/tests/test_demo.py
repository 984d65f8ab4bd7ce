"""The demo on a tiny load: what it measures, what it writes, and what it leaves behind."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from strata import procfs
from strata.demo import memory, report
from strata.demo.__main__ import run_all, write_page
from strata.demo.measure import Arm, Run, Sample, Snapshot, Spent
from strata.demo.plan import Phase, Plan, Requests, draw
from strata.demo.server import Allocator, Server, find_libc, find_redis
from strata.errors import NOT_DONE, StrataError
from strata.plot import spread
from strata.procfs import CpuTime
from strata.redis import Client, Measured

# Enough data for the library's background thread, which answers, to start.
TINY = Plan(keys=20_000, reads=2000, rounds=2, idle_seconds=0.6)
ROOT = Path(__file__).resolve().parents[2]
needs_redis = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="redis-server is not installed"
)


def ignore(_: int) -> None:
    """Progress that nobody sees."""


@pytest.fixture
def built_library() -> Path:
    """The allocator itself, which answers over its control socket."""
    path = Path(os.environ.get("STRATA_LIB", ROOT / "build/lib/libstrata.so"))
    if not path.is_file():
        pytest.skip("libstrata.so is not built")
    return path


def children(pid: int) -> list[int]:
    """Processes that `pid` started."""
    return [
        int(word)
        for task in Path(f"/proc/{pid}/task").glob("*/children")
        for word in task.read_text().split()
    ]


def gone(pid: int) -> bool:
    """Whether the process ends within a few seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_load_is_drawn_as_promised() -> None:
    load = draw(TINY)
    fill, delete, refill, read = (load.phases[n] for n in ("fill", "delete", "refill", "read"))
    assert len(fill.keys) == 20_000
    assert len(delete.keys) == len(set(delete.keys.tolist())) == 14_000
    assert sorted(refill.keys.tolist()) == sorted(delete.keys.tolist())
    for phase in (fill, refill, read):
        assert phase.sizes.min() >= 64
        assert phase.sizes.max() <= 4096
    assert refill.sizes.mean() > 1.5 * fill.sizes.mean()
    counts = np.sort(np.unique(read.keys, return_counts=True)[1])[::-1]
    assert counts[0] > 0.05 * len(read.keys)  # Zipf: the favourite is read over and over
    last = dict(zip(fill.keys.tolist(), fill.sizes.tolist(), strict=True))
    last.update(zip(refill.keys.tolist(), refill.sizes.tolist(), strict=True))
    assert [last[key] for key in read.keys.tolist()] == read.sizes.tolist()
    assert load.live_bytes["refill"] == sum(last.values()) + 20_000 * 11


@needs_redis
def test_demo_from_start_to_page(built_library: Path, tmp_path: Path) -> None:
    allocators = [
        Allocator("glibc", find_libc()),
        Allocator("jemalloc", None),
        Allocator("Strata", built_library),
    ]
    arms, load = run_all(allocators, TINY, Console(quiet=True))
    assert children(os.getpid()) == []
    assert not list(procfs.V1_MEMORY.rglob(f"strata-demo-{os.getpid()}*"))
    data = load.live_bytes["refill"]
    assert [arm.name for arm in arms] == ["glibc", "jemalloc", "Strata"]
    began = [[arm.runs[number].spans["fill"][0] for arm in arms] for number in range(2)]
    assert began[0] == sorted(began[0])
    assert min(began[1]) == began[1][1] > max(began[0])  # the second round begins with the second
    for run in (run for arm in arms for run in arm.runs):
        assert run.phases["read"].requests == TINY.reads
        assert run.phases["fill"].seconds > 0
        assert data < run.peak_rss < 20 * data
        assert (
            sum(run.snapshots["filled"].occupancy.values()) * memory.PAGE
            > (load.live_bytes["fill"])
        )
        assert run.snapshots["end"].minor_faults > run.snapshots["start"].minor_faults
        assert len(run.samples) >= 5
        assert list(run.spans) == list(run.spent) == ["fill", "delete", "idle", "refill", "read"]
        fill = run.spent["fill"].serving
        assert 0 < fill.seconds <= run.phases["fill"].seconds * 1.1
        assert fill.user + fill.system == pytest.approx(fill.seconds, abs=0.03)
        assert run.spent["idle"].serving.seconds < 0.3
    assert {run.cache_mode for run in arms[2].runs} == {"per-cpu (mm_cid)"}
    (tmp_path / "out").mkdir()
    page = write_page(arms, load, TINY, tmp_path / "out").read_text()
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {
        "rss.png",
        "rate.png",
        "heap.png",
    }
    for path in (tmp_path / "out").glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    sources = re.findall(r'(?:src|srcset|href|url)\s*[=(]\s*"?([^"\s>)]{1,30})', page)
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert "http" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)
    assert "width=device-width" in page
    for row in report.table(arms):
        assert f">{row.label}<" in page


def test_servers_differ_by_the_preload_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_STATS_INTERVAL", "1")  # of the caller's shell
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    script = tmp_path / "redis-server"
    script.write_text(f"#!/bin/sh\nenv >{tmp_path / 'env'}\nexit 3\n")
    script.chmod(0o755)
    seen = []
    for preload in (None, find_libc()):
        with (
            pytest.raises(StrataError, match="did not start"),
            Server(script, Allocator("Strata", preload)),
        ):
            pass
        seen.append(set((tmp_path / "env").read_text().splitlines()))
    assert seen[1] - seen[0] == {f"LD_PRELOAD={find_libc()}"}
    assert seen[0] <= seen[1]
    prefixes = ("STRATA_STATS", "LD_", "GLIBC_", "MALLOC_")
    assert not [word for word in seen[0] if word.startswith(prefixes)]


@needs_redis
def test_library_that_takes_no_effect_is_an_error(library: Path) -> None:
    # it can be preloaded, but malloc stays jemalloc's
    with pytest.raises(StrataError, match="Strata did not take effect"):
        run_all([Allocator("Strata", library)], TINY, Console(quiet=True))
    assert children(os.getpid()) == []


@needs_redis
def test_missing_preload_is_an_error(tmp_path: Path) -> None:
    missing = Allocator("glibc", tmp_path / "libmissing.so")
    with pytest.raises(StrataError, match="glibc did not take effect"):
        run_all([missing], TINY, Console(quiet=True))


@needs_redis
def test_server_that_dies_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(*_: object) -> Measured:
        victim = children(os.getpid())[0]
        os.kill(victim, signal.SIGKILL)
        os.waitid(os.P_PID, victim, os.WEXITED | os.WNOWAIT)  # it may take a while to die
        raise StrataError("the connection to redis-server broke")

    monkeypatch.setattr(Client, "run", dying)
    with pytest.raises(StrataError, match="ended with SIGKILL"):
        run_all([Allocator("jemalloc", None)], TINY, Console(quiet=True))
    assert children(os.getpid()) == []


@needs_redis
def test_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "redis-server"
    broken.write_text("#!/bin/sh\necho cannot go on >&2\nexit 3\n")
    broken.chmod(0o755)
    with (
        pytest.raises(StrataError, match="did not start: cannot go on"),
        Server(broken, Allocator("jemalloc", None)),
    ):
        pass


@needs_redis
def test_client_notices_wrong_data_and_errors() -> None:
    load = draw(TINY)
    requests = Requests(TINY)
    one = Phase("read", "GET", np.array([7]), load.phases["fill"].sizes[7:8])
    with (
        Server(find_redis(), Allocator("jemalloc", None)) as server,
        Client(server.port, 2) as client,
    ):
        seen: list[int] = []
        filled = client.run(requests.of(load.phases["fill"]), seen.append)
        assert filled.requests == sum(seen) == TINY.keys
        assert len(filled.latencies) == TINY.keys // TINY.pipeline
        assert 0 < filled.percentile(50) <= filled.percentile(99) <= filled.seconds
        assert client.run(requests.of(one)).requests == 1  # fewer pipelines than connections
        server.command("SET", "key:0000007", "x" * int(one.sizes[0]))
        with pytest.raises(StrataError, match="other data"):
            client.run(requests.of(one))
        server.command("DEL", "key:0000007")
        server.command("LPUSH", "key:0000007", "x")
        with Client(server.port, 1) as again, pytest.raises(StrataError, match="WRONGTYPE"):
            again.run(requests.of(one))
        with pytest.raises(StrataError, match="unknown command"):
            server.command("NO-SUCH")


@needs_redis
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_interrupted_demo_leaves_no_server(
    built_library: Path, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    command = [sys.executable, "-m", "strata.demo", "--quick", "--lib", str(built_library)]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    deadline = time.monotonic() + 30
    server = None
    while server is None:
        assert time.monotonic() < deadline
        for child in children(process.pid):
            if "redis" in Path(f"/proc/{child}/comm").read_text():
                server = child
        time.sleep(0.02)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == status
    assert gone(server)
    assert said.count("\n") == (1 if number == signal.SIGINT else 0)
    # SIGKILL leaves the empty group, which nobody else would remove; pages of the dead server may
    # still be charged to it for a moment.
    deadline = time.monotonic() + 10
    while folders := list(procfs.V1_MEMORY.rglob(f"strata-demo-{process.pid}")):
        try:
            folders[0].rmdir()
        except OSError:
            assert time.monotonic() < deadline, f"{folders[0]} cannot be removed"
            time.sleep(0.05)


@needs_redis
def test_output_that_cannot_be_written_is_one_line(built_library: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "strata.demo", "--quick", "--lib", str(built_library)]
    result = subprocess.run(
        [*command, "--out", str(tmp_path / "file" / "demo")],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (NOT_DONE, "", 1)


def test_missing_redis_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(StrataError, match="make demo"):
        find_redis()


def test_occupancy_counts_resident_pages() -> None:
    size = 8 * memory.HUGEPAGE
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        area.madvise(15)  # MADV_NOHUGEPAGE: a touch brings one page
        before = memory.occupancy(os.getpid())
        for page in range(100):
            area[page * memory.PAGE] = 1
        area[size - 1] = 1
        after = memory.occupancy(os.getpid())
        assert 101 <= sum(after.values()) - sum(before.values()) < 400
        area.madvise(mmap.MADV_DONTNEED)
        emptied = memory.occupancy(os.getpid())
        assert sum(emptied.values()) <= sum(after.values()) - 101 + 50


def fake_run(name: str, rate: float, peak: float, idle: int, huge: float) -> Run:
    """A run with the given figures in every phase."""
    phase = Measured(1000, 1000 / rate, (1 / rate,) * 10)
    spent = Spent(CpuTime(500 / rate, 300 / rate, 200 / rate), CpuTime(0.1, 0.1, 0.0))
    shot = Snapshot(100 << 20, 100 << 20, 1000, int(1000 * huge), 50, {1: 512, 2: 512}, None)
    snapshots = {
        "start": replace(shot, minor_faults=10),
        "filled": shot,
        "idle": replace(shot, rss=idle << 20, physical=idle << 20, occupancy={1: 512, 2: 10}),
        "end": shot,
    }
    return Run(
        name,
        True,
        None,
        dict.fromkeys(report.PHASES, phase),
        {},
        dict.fromkeys(("fill", "delete", "idle", "refill", "read"), spent),
        [Sample(0.0, 1, 1, None, 0)],
        snapshots,
        int(peak * (1 << 20)),
    )


def fake_arm(name: str, rate: float, peak: float, idle: int = 30, huge: float = 0.0) -> Arm:
    """Five rounds, at most 5 % off in speed and in size."""
    sway = (0.95, 0.99, 1.0, 1.02, 1.05)
    return Arm(name, [fake_run(name, rate * s, peak * s, idle, huge) for s in sway])


@pytest.mark.parametrize("best", ["glibc", "jemalloc", "Strata"])
def test_sentences_follow_the_figures(best: str) -> None:
    names = ["glibc", "jemalloc", "Strata"]
    arms = [
        fake_arm(n, 2000 if n == best else 1000, 100 if n == best else 200, 30, 0.9 * (n == best))
        for n in names
    ]
    others = [name for name in names if name != best]
    assert f"Fill: {best} was fastest, {others[0]} at 0.50×" in report.speed_sentence(arms)
    assert report.peak_sentence(arms).startswith(f"{best} has the lowest peak of RSS, 100 MiB")
    assert f"{best} 90.0 % after the fill" in report.coverage_sentence(arms)
    assert f"{others[0]} none" in report.coverage_sentence(arms)
    assert report.work_sentence(arms).startswith(f"{best} is ahead")
    rows = {(row.section, row.label): row for row in report.table(arms)}
    fill = rows["Fill (1k SETs)", "thousand / s"]
    assert fill.best == names.index(best)
    assert fill.cells[fill.best] == "2.00 (1.90–2.10)"
    assert rows["Fill (1k SETs)", "thousand / CPU s"].cells[fill.best] == "4.00 (3.80–4.20)"
    assert rows["Memory, MiB", "peak RSS"].best == names.index(best)
    assert rows["Memory, MiB", "RSS after idle"].best is None
    assert rows["CPU seconds, fill", "other threads, user"].best is None
    assert rows["CPU seconds, idle", "other threads, user"].cells == ["0.10"] * 3
    assert rows["CPU seconds, idle", "other threads, system"].cells == ["0"] * 3
    assert ("CPU seconds, idle", "serving thread, user") not in rows


def test_even_figures_are_called_even() -> None:
    arms = [fake_arm(n, 1000 + 10 * i, 100 + i, 100) for i, n in enumerate("abc")]
    assert "Fill: even" in report.speed_sentence(arms)
    assert report.peak_sentence(arms).startswith("The peaks of RSS are even")
    assert "a still holds all of its 100 MiB" in report.return_sentence(arms, draw(TINY))
    assert report.work_sentence(arms).startswith("They are even")
    assert "b had 2 ranges in memory, of which 0 went back in full and 1 fell below half" in (
        report.heap_sentence(arms)
    )


def test_ranges_that_overlap_name_nobody() -> None:
    def leaders(*arms: Arm) -> list[str]:
        return report.leaders(report.ranges(list(arms), lambda run: run.phases["fill"].rate), False)

    # 5 % to either side of 1,000 and of 1,090 meet; of 1,000 and 1,120 they do not.
    assert leaders(fake_arm("a", 1000, 1), fake_arm("b", 1090, 1)) == ["b", "a"]
    assert leaders(fake_arm("a", 1000, 1), fake_arm("b", 1120, 1)) == ["b"]

    # With two rounds that says little: they must be further apart than either is wide.
    def twice(name: str, *rates: float) -> Arm:
        return Arm(name, [fake_run(name, rate, 1, 1, 0.0) for rate in rates])

    assert leaders(twice("a", 950, 1050), twice("b", 1060, 1160)) == ["b", "a"]
    assert leaders(twice("a", 950, 1050), twice("b", 1160, 1260)) == ["b"]
    assert leaders(twice("a", 1000), twice("b", 2000)) == ["b", "a"]  # and with one, nothing
    # Apart, but by less than anybody cares about.
    still = [Arm(n, [fake_run(n, rate, 1, 1, 0.0)] * 3) for n, rate in (("a", 1000), ("b", 1009))]
    assert leaders(*still) == ["b", "a"]


def test_labels_at_the_ends_of_lines_do_not_collide() -> None:
    assert spread([10, 40], 5, 100) == [10, 40]
    assert spread([40, 10, 11], 5, 100) == [40, 10, 15]
    assert spread([99, 98, 100], 5, 100) == [95, 90, 100]
    assert spread([1, 1, 1], 5, 8) == [0, 5, 10]  # no room: beyond the top
