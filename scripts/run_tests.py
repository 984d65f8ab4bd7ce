#!/usr/bin/env python3
"""Runs everything that `make test` promises and sums it up in one line.

Stages: the edge table, the storms and some real programs on a debug library,
which checks its lock ranks and itself; programs on the gcc
release build, and the unit tests that a sanitizer can't run the same; goldens on
clang's; programs for aarch64 under qemu-user and for musl; the unit tests
under ASan with UBSan; the source checks; unit tests of threads under TSan. A stage
that cannot build counts as one failure and the next one runs all the same. While
the tests of a stage run, what comes next is built in the time that they leave. Only
the standard library is used, so that this starts on any machine with Python 3.11.

Black-box tests drive servers and processes against the machine's clock. A few of them that failed
beside others run once more, alone; those that then pass are said and counted as flaky, and fail
nothing. Unit tests, goldens and source checks depend on no clock and get no second chance.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = ROOT / "build" / "test-summary.txt"


# More failed cases at once than this are no accident of timing.
MOST_SECOND_CHANCES = 4
SECOND_CHANCE = ["-L", "^python$", "-LE", "^golden$"]


@dataclass
class Count:
    """How many test cases passed, failed and were skipped; the flaky ones are among the passed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    flaky: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.flaky + other.flaky,
        )

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        flaky = f", {self.flaky} flaky" if self.flaky else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}{flaky}"


@dataclass(frozen=True)
class Stage:
    """One build preset, the targets to build in it and the ctest entries to run."""

    preset: str
    what: str
    targets: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    pairs: str = ""  # which part of the pairs it tries (tests/blackbox.py)
    waiting: int = 0  # as many tests more than cores: black-box tests wait a third of their time


LIBRARIES = ("strata_shared", "strata_static")
# For stages whose libraries nobody measures: folders are compiled as one (CMakeLists.txt).
UNITS = "-DSTRATA_UNITS=ON"
DEBUGGED = (
    "edge/",
    "process/test_(fork|threads)$",
    "preload/test_(redis|gxx|sqlite)$",
)
STAGES = (
    Stage(  # first, because a test of the release stage also looks at the debug library
        "debug",
        "edge table, storms and real programs, gcc debug",
        targets=LIBRARIES,
        options=(UNITS,),
        select=("-R", f"^({'|'.join(DEBUGGED)})"),
        pairs="0",
    ),
    Stage(
        "release",
        "tests of programs, gcc release",
        options=("-DSTRATA_TESTS=ON", "-DSTRATA_SAME_TESTS=OFF", "-DSTRATA_TOOL_UNITS=ON"),
        # The sanitizers run them: to compile 160 files once more would take five minutes.
        select=("-LE", "^same$"),
        pairs="1",
        waiting=2,
    ),
    Stage(
        "release-clang",
        "goldens, clang release",
        targets=LIBRARIES,
        options=(UNITS,),
        select=("-L", "^golden$"),
    ),
    Stage(
        "aarch64",
        "programs and unit tests for aarch64, under qemu-user",
        options=(UNITS,),
        targets=(*LIBRARIES, "os_side_stack_test", "os_readable_test", "lifetime_model_test"),
    ),
    Stage("musl", "programs for musl", targets=LIBRARIES, options=(UNITS,)),
    Stage(
        "asan-ubsan",
        "unit tests, ASan and UBSan",
        options=(UNITS,),
        select=("-L", "^unit$", "-LE", "^slow$"),
    ),
    Stage(
        "tsan",
        "unit tests of threads, TSan",
        options=(UNITS,),
        select=("-L", "^unit$", "-LE", "^(slow|calm)$"),
    ),
)

CHECKS = (
    ("include order", ["python3", "scripts/check_includes.py"]),
    ("file headers and sizes", ["python3", "scripts/check_files.py"]),
    ("format, ruff, mypy", ["scripts/lint.sh", "--quick"]),
)


# Whoever shares the machine goes first. Where sessions are scheduled as groups, which the black-box
# tests begin many of, a nice number counts inside of its group alone: the group has one, too.
LOW = ("sh", "-c", 'echo 19 >/proc/self/autogroup; exec nice -n 19 "$@"', "low")


def run(command: list[str], **env: str) -> bool:
    """Runs a command from the root."""
    return subprocess.run(command, cwd=ROOT, env=os.environ | env, check=False).returncode == 0


class Background:
    """Runs commands one after the other in the time that the tests leave."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._lock = Lock()  # of what follows: who stops must not miss what begins
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def submit(self, *commands: list[str], after: Future[bool] | None = None) -> Future[str]:
        """To run commands until one fails; what that one said, or nothing."""
        return self._pool.submit(self._run_all, commands, after)

    def _run_all(self, commands: tuple[list[str], ...], after: Future[bool] | None) -> str:
        if after is not None and not after.result():
            return "what it needs could not be installed"
        for command in commands:
            with self._lock:
                if self._stopped:
                    return "stopped"
                self._process = process = subprocess.Popen(
                    [*LOW, *command],
                    cwd=ROOT,
                    text=True,
                    errors="replace",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            said, _ = process.communicate()
            if process.returncode != 0:
                return f"{' '.join(command)}\n{said[-12000:]}"
        return ""

    def stop(self) -> None:
        """Ends what still runs, after an interruption."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._stopped = True
            if self._process is not None and self._process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    # ninja passes it on to its compilers, which have process groups of their own.
                    os.killpg(self._process.pid, signal.SIGTERM)


def count_cases(report: Path) -> Count:
    """Counts the cases of one JUnit file, as GoogleTest and pytest write it."""
    count = Count()
    for case in ET.parse(report).getroot().iter("testcase"):
        children = {child.tag for child in case}
        if children & {"failure", "error"}:
            count.failed += 1
        elif "skipped" in children or case.get("status") == "notrun":
            count.skipped += 1
        else:
            count.passed += 1
    return count


def failed_cases(report: Path) -> list[str]:
    """The names of those that failed; none if the entry died before it wrote its report."""
    try:
        cases = list(ET.parse(report).getroot().iter("testcase"))
    except (OSError, ET.ParseError):
        return []
    return [
        "::".join(filter(None, (case.get("classname", "").rpartition(".")[2], case.get("name"))))
        for case in cases
        if {child.tag for child in case} & {"failure", "error"}
    ]


def entries(ctest_report: Path) -> dict[str, bool]:
    """The ctest entries that ran, and whether each passed."""
    return {
        entry.get("name", ""): entry.get("status") == "run" and entry.find("failure") is None
        for entry in ET.parse(ctest_report).getroot().iter("testcase")
    }


def report_of(results: Path, entry: str) -> Path:
    """The JUnit file of a ctest entry."""
    return results / f"{entry.replace('/', '.')}.xml"


def count_entries(results: Path, ran: dict[str, bool]) -> dict[str, Count]:
    """The cases of every ctest entry; an entry that died counts at least one failure."""
    counts = {}
    for name, passed in ran.items():
        try:
            count = count_cases(report_of(results, name))
        except (OSError, ET.ParseError):
            count = Count(passed=1) if passed else Count()
        if not passed and count.failed == 0:
            count.failed = 1
        counts[name] = count
    return counts


def second_chance(stage: Stage, counts: dict[str, Count]) -> None:
    """Runs the black-box entries that failed once more, alone, and amends their counts."""
    if not 0 < sum(count.failed for count in counts.values()) <= MOST_SECOND_CHANCES:
        return
    build = ROOT / "build" / stage.preset
    # By entry, and before its report is written anew: several cases are one entry.
    failed = {
        name: failed_cases(report_of(build / "results", name)) or ["no case named"]
        for name, count in counts.items()
        if count.failed
    }
    report = build / "ctest-again.xml"
    report.unlink(missing_ok=True)
    only = "^(" + "|".join(map(re.escape, failed)) + ")$"
    print("== once more, alone:", flush=True)
    for name, cases in failed.items():
        print(f"  {name}: {', '.join(cases)}", flush=True)
    command = ["ctest", "--preset", stage.preset, "-j", "1", "--no-tests=ignore", "-R", only]
    run([*command, *SECOND_CHANCE, "--output-junit", str(report)], TEST_PAIRS=stage.pairs)
    if not report.exists():
        return
    for name, again in count_entries(build / "results", entries(report)).items():
        if again.failed == 0 and again.skipped <= counts[name].skipped:
            again.flaky = counts[name].failed
            counts[name] = again
            for case in failed[name]:
                print(f"FLAKY: {name}: {case} (failed beside others, passed alone)", flush=True)


def build_commands(stage: Stage, jobs: int) -> tuple[list[str], list[str]]:
    """What configures and builds one preset."""
    compile_command = ["cmake", "--build", "--preset", stage.preset, "-j", str(jobs)]
    if stage.targets:
        compile_command += ["--target", *stage.targets]
    return ["cmake", "--preset", stage.preset, *stage.options], compile_command


def run_stage(stage: Stage, built: Future[str], jobs: int) -> Count:
    """Tests one preset, once it is built."""
    build = ROOT / "build" / stage.preset
    results = build / "results"
    shutil.rmtree(results, ignore_errors=True)
    ctest_report = build / "ctest.xml"
    ctest_report.unlink(missing_ok=True)
    if failure := built.result():
        print(failure, flush=True)
        return Count(failed=1)
    command = ["ctest", "--preset", stage.preset, "-j", str(jobs + stage.waiting), *stage.select]
    ok = run([*command, "--output-junit", str(ctest_report)], TEST_PAIRS=stage.pairs)
    if not ctest_report.exists():
        return Count(failed=1)
    counts = count_entries(results, entries(ctest_report))
    if not ok and not any(count.failed for count in counts.values()):
        return sum(counts.values(), Count(failed=1))
    second_chance(stage, counts)
    return sum(counts.values(), Count())


def run_check(done: Future[str]) -> Count:
    """One source check, which counts as one test."""
    if failure := done.result():
        print(failure, flush=True)
        return Count(failed=1)
    return Count(passed=1)


def main() -> int:
    """Runs the chosen stages and prints the sum last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=[*(s.preset for s in STAGES), "checks"])
    parser.add_argument("--every", action="store_true", help="every pair, not a part of them")
    args = parser.parse_args()

    SUMMARY.parent.mkdir(exist_ok=True)
    SUMMARY.unlink(missing_ok=True)
    total = Count()
    lines: list[str] = []
    begin = time.monotonic()

    def note(what: str, counting: Callable[[], Count]) -> None:
        nonlocal total
        print(f"== {what}", flush=True)
        start = time.monotonic()
        count = counting()
        lines.append(f"{what}: {count} ({time.monotonic() - start:.0f} s)")
        total += count

    for end in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(end, lambda number, _: sys.exit(128 + number))
    # The first build needs no .venv, which takes the network some time.
    installed = ThreadPoolExecutor(1).submit(run, ["scripts/install-deps.sh", "test", "lint"])
    if args.only == "checks" and not installed.result():
        return 1
    background = Background()
    work: list[tuple[str, Callable[[], Count]]] = []
    for stage in STAGES:
        # Before the last build, so that they too have tests beside them.
        if stage is STAGES[-1] and args.only in (None, "checks"):
            for name, command in CHECKS:
                checked = background.submit(command, after=installed)
                work.append((name, partial(run_check, checked)))
        if args.only in (None, stage.preset):
            stage = replace(stage, pairs="" if args.every else stage.pairs)
            built = background.submit(*build_commands(stage, args.jobs))
            work.append((stage.what, partial(run_stage, stage, built, args.jobs)))
    try:
        for what, counting in work:
            if not installed.result():
                return 1
            note(what, counting)
    finally:
        background.stop()

    lines.append(f"all together: {time.monotonic() - begin:.0f} s")
    print("", *lines, sep="\n  ")
    SUMMARY.write_text(f"{total.passed} {total.failed} {total.skipped} {total.flaky}\n")
    print(total)
    return 0 if total.failed == 0 and total.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
