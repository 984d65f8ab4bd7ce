"""Gathers a report from a live process, through its control socket, into a folder.

The statistics are asked for about once a second. Meanwhile one profile is running that counts what
is allocated in this time; the other profiles are asked for at the end. What the process cannot give
is noted in report.json, so that the page can say what is missing and why.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from strata.errors import StrataError, why_refused
from strata.files import make_folder, read_file, write_file
from strata.pprof import Profile, dump, load, parse
from strata.processes import Process
from strata.report import cpu_profile
from strata.report.document import Document, as_number
from strata.report.model import CPU, KINDS, META, SAMPLES
from strata.report.predictions import live_by_class
from strata.report.profiles import as_rows
from strata.symbolize import symbolize

PAGE_FILE = "index.html"
PAGE_SAYS = "Written by strata report"  # at its foot: how it is known from somebody else's
MOST_SAMPLES = 60
THP = Path("/sys/kernel/mm/transparent_hugepage")


# Sends a request of the control protocol that takes so many seconds by design; StrataError with the
# process's own words if it refuses or is gone.
Ask = Callable[[str, float], bytes]
# Where the process spends its CPU time for so many seconds; StrataError if that cannot be seen.
RecordCpu = Callable[[Process, float], Profile]


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace").strip()
    except OSError:
        return ""


def _age(process: Process) -> float | None:
    """For how many seconds it runs."""
    try:
        ticks = int(process.read("stat").rpartition(")")[2].split()[19])
        up = float(_text(Path("/proc/uptime")).split()[0])
    except (ValueError, IndexError):
        return None
    return round(max(0.0, up - ticks / os.sysconf("SC_CLK_TCK")), 1)


def facts(process: Process, seconds: float) -> dict[str, Any]:
    """What the system says about the process and itself."""
    return {
        "format": 1,
        "pid": process.pid,
        "name": process.name,
        "command": process.read("cmdline").replace("\0", " ").strip()[:300],
        "taken": f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S %Z}",
        "seconds": seconds,
        "age": _age(process),
        "kernel": os.uname().release,
        "thp_enabled": _text(THP / "enabled"),
        "max_ptes_none": _text(THP / "khugepaged/max_ptes_none"),
        "hugepages_option": process.option("HUGEPAGES").lower(),
        "thp_allowed": "\nTHP_enabled:\t0\n" not in process.read("status"),
        "missing": {},
    }


class Collector:
    """One gathering. `progress` is told how many seconds of the sampling are over."""

    def __init__(
        self,
        process: Process,
        ask: Ask,
        folder: Path,
        progress: Callable[[float], None] = lambda _: None,
        warn: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        record_cpu: RecordCpu = cpu_profile.record,
    ) -> None:
        self._process = process
        self._ask = ask
        self._folder = folder
        self._progress = progress
        self._warn = warn
        self._sleep = sleep
        self._clock = clock
        self._record_cpu = record_cpu

    def run(self, seconds: float) -> None:
        """Gathers everything. StrataError if the process cannot even give its statistics."""
        meta = facts(self._process, seconds)
        first = self._sample(0.0)
        meta["sample_interval"] = self._interval(first)
        prepare(self._folder)
        with ThreadPoolExecutor(max_workers=2) as pool:
            windows = {
                kind: pool.submit(work, kind, seconds)
                for kind, work in (("churn", self._profile), (CPU, self._cpu))
                if seconds >= 1
            }
            samples = [first, *self._watch(seconds)]
            missing = self._finish(windows)
        meta["missing"] = missing
        self._name_functions()
        for sample in samples[:-1]:  # the map of hugepages is drawn from the last one only
            sample["stats"].pop("hugepage_occupancy", None)
        write_file(self._folder / SAMPLES, "".join(json.dumps(row) + "\n" for row in samples))
        write_file(self._folder / META, json.dumps(meta, indent=1))

    def _interval(self, sample: dict[str, Any]) -> int | None:
        sampler = sample["stats"].get("sampler")
        value = as_number(sampler.get("interval")) if isinstance(sampler, dict) else None
        if value is not None:
            return int(value)
        try:
            text = self._ask("get sample", 0).decode(errors="replace").partition("=")[2].strip()
        except StrataError:  # an older library
            return None
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None

    def _sample(self, at: float) -> dict[str, Any]:
        answer = self._ask("stats json", 0)
        try:
            stats = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise StrataError(f"process {self._process.pid} sent no JSON: {error}") from error
        if not isinstance(stats, dict) or not stats:
            raise StrataError(
                f"process {self._process.pid} has no statistics: the library stood down in it"
            )
        sample = {"at": round(at, 3), "rss": self._process.resident or None, "stats": stats}
        if by_class := self._by_class(stats):
            sample["by_class"] = by_class
        return sample

    def _by_class(self, stats: dict[str, Any]) -> dict[str, int]:
        """Live bytes by what is predicted of them, where a model predicts."""
        if not Document(stats).number("predictions", "model_asked"):
            return {}
        try:
            answer = parse(self._ask("profile lifetime", 0))
            sums = live_by_class(as_rows("lifetime", answer, "lifetime"))
        except StrataError:  # asked for again at the end, and told of then
            return {}
        return {str(number): value for number, value in sorted(sums.items())}

    def _watch(self, seconds: float) -> list[dict[str, Any]]:
        """The later samples, evenly spread. One that is refused ends it: the process is gone."""
        count = max(1, min(MOST_SAMPLES, round(seconds))) if seconds > 0 else 0
        start = self._clock()
        samples: list[dict[str, Any]] = []
        for number in range(1, count + 1):
            due = start + seconds * number / count
            while (left := due - self._clock()) > 0:
                self._sleep(min(left, 0.25))
                self._progress(min(seconds, self._clock() - start))
            try:
                samples.append(self._sample(self._clock() - start))
            except StrataError:
                break
        self._progress(seconds)
        return samples

    def _profile(self, kind: str, seconds: float) -> None:
        request = f"profile {kind}"
        if kind == "churn":
            request = f"profile allocs {max(1, round(seconds))}"
        answer = self._ask(request, seconds)
        if not answer:
            raise StrataError("the answer was empty")
        write_file(self._folder / f"{kind}.pb.gz", answer)

    def _cpu(self, kind: str, seconds: float) -> None:
        dump(self._record_cpu(self._process, seconds), self._folder / f"{kind}.pb.gz")

    def _finish(self, windows: dict[str, Future[None]]) -> dict[str, str]:
        """Takes the other profiles, and says why those that failed are missing."""
        missing: dict[str, str] = {}
        for kind in (*KINDS, CPU):
            try:
                if kind in windows:
                    windows[kind].result()
                elif kind in ("churn", CPU):
                    missing[kind] = "the time was too short"
                else:
                    self._profile(kind, 0)
            except StrataError as error:
                missing[kind] = str(error)
        return missing

    def _name_functions(self) -> None:
        """Adds names to the profiles while the program's files are at hand: the folder may be read
        on another machine. Without names a profile is still worth keeping."""
        root = self._process.folder / "root"
        if not (root / "proc").exists():  # the process has gone
            root = Path("/")
        told: set[str] = set()

        def tell(message: str) -> None:
            if message not in told:
                told.add(message)
                self._warn(message)

        for kind in (*KINDS, CPU):
            path = self._folder / f"{kind}.pb.gz"
            if not path.exists():
                continue
            try:
                profile = load(path)
                dump(symbolize(profile, root, warn=tell), path)
            except StrataError as error:
                tell(f"{kind}: functions stay without names: {error}")


def spare_strange_page(folder: Path) -> None:
    """Refuses a folder whose index.html no report wrote."""
    page = folder / PAGE_FILE
    if page.exists() and PAGE_SAYS.encode() not in read_file(page):
        raise StrataError(f"{page} was not written by a report: choose another folder with -o")


def prepare(folder: Path) -> None:
    """Makes the folder, and takes away what an earlier report left in it.

    Profiles that no report wrote stay: they are somebody's, and would be taken for ours."""
    spare_strange_page(folder)
    ours = [folder / name for name in (META, SAMPLES, PAGE_FILE)]
    profiles = [folder / f"{kind}.pb.gz" for kind in (*KINDS, CPU)]
    make_folder(folder)
    strange = [path for path in profiles if path.exists() and not ours[0].exists()]
    if strange:
        raise StrataError(
            f"{strange[0]} was not written by a report: choose another folder with -o"
        )
    try:
        for path in [*profiles, *ours]:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StrataError(f"{folder}: {why_refused(error)}") from error
