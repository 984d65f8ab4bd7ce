"""The pieces of `make learn`: its server, its visitors, and what the page says of two runs."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from strata.demo.learn import load, page
from strata.demo.learn.load import Load, Run
from strata.errors import StrataError
from strata.stats import Stats

ROOT = Path(__file__).resolve().parents[2]
# Enough data for the library's background thread, which answers, to start.
TINY = Load(peaks=2, visitors=4, requests=4, rows=8000, pause_seconds=0.2, idle_seconds=0.3)
MIB = 1 << 20


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("visits") / "server"
    source = ROOT / "bench/visits/server.cpp"
    flags = ["-std=c++20", "-O1", "-g", f"-I{ROOT / 'bench/programs'}", "-pthread"]
    subprocess.run(["c++", *flags, source, "-o", program], check=True)
    return program


@pytest.fixture
def built_library() -> Path:
    path = Path(os.environ.get("STRATA_LIB", ROOT / "build/lib/libstrata.so"))
    if not path.is_file():
        pytest.skip("libstrata.so is not built")
    return path


def asked(port: int, request: bytes) -> bytes:
    """Everything that the server says to a visitor until it closes."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_server_answers_each_request(server: Path, tmp_path: Path) -> None:
    with load.served([server], tmp_path / "log") as place:
        both = asked(place.port, b"1 200\n2 200\n")
        assert [len(line) for line in both.split(b"\n")] == [16, 16, 0]
        assert len(set(both.split())) == 2
        assert asked(place.port, b"1 200\n2 200\n") == both
        assert asked(place.port, b"1 0\n").count(b"\n") == 1


@pytest.mark.parametrize("request_", [b"one 2\n", b"1\n", b"1 2 3\n", b"1 99999999\n", b"7" * 600])
def test_no_request_ends_the_connection_and_not_the_server(
    server: Path, tmp_path: Path, request_: bytes
) -> None:
    with load.served([server], tmp_path / "log") as place:
        try:
            said = asked(place.port, request_ + b"1 2\n")
        except OSError:  # closed with something unread
            said = b""
        assert said == b""
        assert asked(place.port, b"1 2\n") != b""


def test_server_ends_with_its_input(server: Path, tmp_path: Path) -> None:
    with load.served([server], tmp_path / "log") as place:
        assert Path(f"/proc/{place.pid}").exists()
    assert not Path(f"/proc/{place.pid}").exists()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys; sys.exit('no port is free')", "did not start: no port is free"),
        ("print('hello')", "did not start: it said nothing"),
        (
            "print('1 1', flush=True); input_ = open(0).read(); raise SystemExit(3)",
            "the server failed",
        ),
    ],
)
def test_bad_server_is_one_error(tmp_path: Path, script: str, words: str) -> None:
    with (
        pytest.raises(StrataError, match=words),
        load.served([sys.executable, "-c", script], tmp_path / "log"),
    ):
        pass


def test_visitors_that_are_turned_away_are_one_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StrataError, match="a visitor failed"):
        load.Visitors(port, TINY, 0).come_and_go()


def test_run_measures_the_server(server: Path, built_library: Path, tmp_path: Path) -> None:
    looked: list[int] = []
    strata = [sys.executable, "-m", "strata", "run"]
    command: list[str | Path] = [*strata, "--lib", built_library, "--", server]
    run = load.serve("plain", command, TINY, tmp_path / "log", looked.append)
    assert len(looked) == 1
    assert run.requests == TINY.peaks * TINY.visitors * TINY.requests
    assert len(run.live) == TINY.peaks + 1
    # 80 entries of 192 bytes on average stay of each of 16 requests, of as many users
    assert 0.5 < (run.live[0][1] - 50_000) / (16 * 80 * 192) < 3
    assert max(run.rss) > 16 * 8000 * 192
    assert run.held > run.live[-1][1] > 0
    assert run.busy_seconds > 0
    assert run.stood_still > 0
    assert run.last is not None
    assert run.last.pid == looked[0]


def run_of(name: str, held: int, live: int) -> Run:
    sizes = {"resident": held * MIB, "live": live * MIB}
    stats = Stats("0.1.0", 1, "", sizes, 0, 0, [])
    return Run(
        name,
        [0.0, 1.0, 2.0, 3.0],
        [MIB, 300 * MIB, 290 * MIB, held * MIB],
        [(1.5, live * MIB), (3.0, live * MIB)],
        1000,
        2.0,
        4.0,
        stats,
    )


def done(with_model: int, estimate: float | None = None) -> page.Done:
    plain, model = run_of("without <a>", 240, 20), run_of("with", with_model, 20)
    return page.Done(plain, model, ["strata run -- 'x<y'"], ["a note"], estimate)


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (64, "With the model 64 MiB are held instead of 240; .* fell by 80 %"),
        (230, "The model saved little: 230 MiB are held with it, 240 without"),
        (240, "The model saved little"),
        (280, "The model made it worse: 280 MiB"),
    ],
)
def test_verdict_says_what_came_out(held: int, words: str) -> None:
    assert re.match(words, page.verdict(done(held)))


@pytest.mark.parametrize("name", ["without <a>", "with"])
def test_there_is_no_verdict_on_runs_that_stood_still(name: str) -> None:
    both = done(280)
    (run,) = (run for run in both.runs if run.name == name)
    run.times[2:] = [at + 120 for at in run.times[2:]]
    said = page.verdict(both)
    assert said.startswith(f"The machine stood still for 121 s in the run {name}, ")
    assert said.endswith("run it again.")
    assert "worse" not in page.render(both)


def test_figures_of_a_run() -> None:
    run = run_of("one", 60, 20)
    assert (run.held, run.rate, run.cpu_rate) == (60 * MIB, 500.0, 250.0)
    assert run.mean_rss == pytest.approx((290 + 60) / 2 * MIB)


def test_estimate_is_set_against_the_other_run() -> None:
    said = page.estimate_sentence(done(64, 252.0 * MIB))
    assert "252 MiB without it" in said
    assert "5 % above" in said
    assert page.estimate_sentence(done(64)) == ""


def test_page_is_whole(tmp_path: Path) -> None:
    path = page.write(done(64, 250.0 * MIB), tmp_path)
    text = path.read_text()
    assert "without &lt;a&gt;" in text
    assert "x&lt;y" in text
    assert "report/index.html" in text
    assert text.count("data:image/png;base64,") == 2
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
    data = (tmp_path / "data.json").read_text()
    assert '"held": 67108864' in data
    bare = page.render(done(64))
    assert "report/index.html" not in bare
