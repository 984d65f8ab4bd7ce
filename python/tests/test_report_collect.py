"""Gathering a report from a process: a fake one, that answers, refuses, lies or dies."""

from __future__ import annotations

import json
import os
import threading
from functools import partial
from pathlib import Path

import pytest
from report_data import profiles, stats

from strata.errors import StrataError
from strata.pprof import Profile
from strata.pprof.encode import dumps
from strata.processes import Process
from strata.report import collect, document, model

OURS = Process(os.getpid())


class FakeProcess:
    """Answers as the library does, with a clock of its own that only sleeping moves."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.now = 0.0
        self.dies_after = 1000  # samples
        self.refused: dict[str, str] = {}
        self._steps = 0
        self._lock = threading.Lock()

    def ask(self, request: str, extra_seconds: float) -> bytes:
        assert (extra_seconds > 0) == (len(request.split()) == 3)
        with self._lock:
            self.asked.append(request)
            for begin, why in self.refused.items():
                if request.startswith(begin):
                    raise StrataError(why)
            if request == "stats json":
                self._steps += 1
                if self._steps > self.dies_after:
                    raise StrataError("the process is gone")
                return json.dumps(stats(self._steps)).encode()
            if request == "get sample":
                return b"sample=4096\n"
            word, kind, *_ = request.split()
            assert word == "profile"
            return dumps(profiles()["churn" if request.split()[2:] else kind])

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def cpu(self, process: Process, seconds: float) -> Profile:
        assert process == OURS
        assert seconds >= 1
        if "cpu" in self.refused:
            raise StrataError(self.refused["cpu"])
        return profiles()["cpu"]

    def collector(self, folder: Path) -> collect.Collector:
        return collect.Collector(
            OURS,
            self.ask,
            folder,
            sleep=self.sleep,
            clock=lambda: self.now,
            record_cpu=self.cpu,
        )


def test_everything_is_gathered_and_can_be_loaded(tmp_path: Path) -> None:
    process = FakeProcess()
    seen: list[float] = []
    collect.Collector(
        OURS,
        process.ask,
        tmp_path / "out",
        progress=seen.append,
        sleep=process.sleep,
        clock=lambda: process.now,
        record_cpu=process.cpu,
    ).run(5)
    assert sorted(process.asked) == sorted(
        ["stats json"] * 6
        + ["profile allocs 5", "profile heap", "profile allocs", "profile peak"]
        + ["profile lifetime", "profile fragmentation"]
    )
    assert seen[-1] == 5
    assert seen == sorted(seen)
    recording = model.load(tmp_path / "out")
    assert set(recording.profiles) == {*model.KINDS, model.CPU}
    assert [round(sample.at) for sample in recording.samples] == [0, 1, 2, 3, 4, 5]
    assert recording.samples[0].rss == pytest.approx(OURS.resident, rel=0.5)
    assert recording.meta.whole("sample_interval") == 2 << 20
    assert recording.meta.data["thp_allowed"] is True
    kept = ["hugepage_occupancy" in sample.stats.data for sample in recording.samples]
    assert kept == [False] * 5 + [True]


def test_long_watch_takes_a_bounded_number_of_samples(tmp_path: Path) -> None:
    process = FakeProcess()
    process.collector(tmp_path).run(600)
    recording = model.load(tmp_path)
    assert len(recording.samples) == 1 + collect.MOST_SAMPLES
    assert recording.seconds == pytest.approx(600)


def test_no_time_gives_one_sample_and_no_churn(tmp_path: Path) -> None:
    process = FakeProcess()
    process.collector(tmp_path).run(0)
    recording = model.load(tmp_path)
    assert len(recording.samples) == 1
    assert recording.missing == dict.fromkeys(("churn", "cpu"), "the time was too short")


def test_refused_profiles_are_noted(tmp_path: Path) -> None:
    process = FakeProcess()
    process.refused = {"profile": "sampling is off", "cpu": "perf is not installed"}
    process.collector(tmp_path).run(2)
    recording = model.load(tmp_path)
    assert recording.missing == {
        **dict.fromkeys(model.KINDS, "sampling is off"),
        "cpu": "perf is not installed",
    }
    assert len(recording.samples) == 3


def test_process_that_dies_leaves_what_it_gave(tmp_path: Path) -> None:
    process = FakeProcess()
    process.dies_after = 3
    process.collector(tmp_path).run(10)
    assert len(model.load(tmp_path).samples) == 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"{}", "stood down"), (b"[1]", "stood down"), (b"{,", "no JSON"), (b"[" * 10**6, "no JSON")],
    ids=["stood-down", "list", "broken", "deep"],
)
def test_lying_process_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, words: str
) -> None:
    process = FakeProcess()
    monkeypatch.setattr(process, "ask", lambda *_: answer)
    with pytest.raises(StrataError, match=words):
        process.collector(tmp_path / "out").run(1)
    assert not (tmp_path / "out").exists()


def test_second_report_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    FakeProcess().collector(tmp_path).run(1)
    (tmp_path / "notes.txt").write_text("mine")
    process = FakeProcess()
    process.refused = {"profile heap": "no room"}
    process.collector(tmp_path).run(1)
    recording = model.load(tmp_path)
    assert recording.missing == {"heap": "no room"}
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_profiles_of_somebody_else_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "heap.pb.gz").write_bytes(b"precious")
    with pytest.raises(StrataError, match="was not written by a report"):
        FakeProcess().collector(tmp_path).run(0)
    assert (tmp_path / "heap.pb.gz").read_bytes() == b"precious"


def test_page_of_somebody_else_is_not_taken_away(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<h1>mine</h1>")
    with pytest.raises(StrataError, match="was not written by a report"):
        collect.prepare(tmp_path)
    assert (tmp_path / "index.html").read_text() == "<h1>mine</h1>"


def test_folder_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StrataError, match="file"):
        FakeProcess().collector(tmp_path / "file").run(0)


def test_profile_that_cannot_be_read_is_kept_and_told(tmp_path: Path) -> None:
    process = FakeProcess()
    answer = process.ask
    told: list[str] = []

    def lie(request: str, extra_seconds: float) -> bytes:
        return b"no profile" if request == "profile heap" else answer(request, extra_seconds)

    collect.Collector(OURS, lie, tmp_path, warn=told.append, sleep=process.sleep,
                      clock=lambda: process.now).run(0)  # fmt: skip
    assert len(told) == 1
    assert told[0].startswith("heap: functions stay without names")
    assert (tmp_path / "heap.pb.gz").read_bytes() == b"no profile"
    assert "heap" in model.load(tmp_path).missing


def test_interval_is_asked_for_where_the_statistics_lack_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = FakeProcess()
    monkeypatch.setitem(globals(), "stats", partial(stats, old=True))
    process.collector(tmp_path).run(0)
    assert model.load(tmp_path).meta.whole("sample_interval") == 4096


@pytest.mark.parametrize(("flag", "allowed"), [("0", False), ("1", True)])
def test_what_keeps_hugepages_off_is_noted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flag: str, allowed: bool
) -> None:
    folder = tmp_path / "77"
    folder.mkdir()
    (folder / "environ").write_text("A=b\0STRATA_HUGEPAGES=OFF\0")
    (folder / "status").write_text(f"Name:\tserver\nTHP_enabled:\t{flag}\nThreads:\t1\n")
    monkeypatch.setattr("strata.processes.PROC", tmp_path)
    facts = collect.facts(Process(77), 1)
    assert facts["hugepages_option"] == "off"
    assert facts["thp_allowed"] is allowed


@pytest.mark.parametrize(
    ("held", "again"),
    [
        ([100, 20, 100, 20], 80),
        ([20, 100, 20, 60, 20], 40),  # it took 40 of it again
        ([100, 20, 20], 0),  # a job that is over
        ([20, 100, 100, 20], 0),
        ([20, 100, 20, 100], 0),  # in use now
        ([], 0),
    ],
)
def test_what_came_back_while_watched_will_come_back(held: list[int], again: int) -> None:
    taken = [
        model.Sample(float(at), None, document.Document({"bytes": {"live": live}}))
        for at, live in enumerate(held)
    ]
    assert model.Recording(samples=taken).swing == again
