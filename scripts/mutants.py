#!/usr/bin/env python3
"""Runs the hand-made mutants of tests/mutants and prints which of them the tests notice.

A mutant is one small mistake: a line of the source, what it becomes, and the tests that should
fail then. Each file tests/mutants/AREA.toml is a list of them:

    [[file]]
    path = "src/span/span.h"
    tests = ["span/span_test"]        # the ctest entries of all mutants of this file

    [[file.mutant]]
    name = "the-freed-bit-is-forgotten"
    find = "word |= bit;"             # stands in the file once, or once behind `after`
    replace = ""
    after = "size_t GiveRun("         # optional: stands in the file once
    tests = ["span/central_test"]     # optional: instead of the file's
    equivalent = "why no test could notice"    # optional

A test is the ctest entry of a GoogleTest program, or a file for pytest behind the target that it
tests: "strata_lint_engine: tests/lint/test_engine.py".

The tree is copied to build/mutants, one copy a job, and each copy is changed, built and put right
again for one mutant after the other; the working tree is never touched. A mutant is killed when a
test fails, crashes or does not end, or one of its static assertions does not hold. One that
survives without a reason fails the run, and so does a list that is wrong: a mutant that no longer
applies or does not compile, tests that fail without it, or a mutant that is called equivalent and
is killed. Only the standard library is used.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import queue
import resource
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests" / "mutants"
BUILD = ROOT / "build" / "mutants"

# Checks on, as the sanitizers' builds have them. A mutant may leave a variable unused.
CONFIGURE = (
    "-GNinja",
    "-DCMAKE_C_COMPILER=gcc",
    "-DCMAKE_CXX_COMPILER=g++",
    "-DCMAKE_BUILD_TYPE=Mutants",
    "-DCMAKE_CXX_FLAGS_MUTANTS=-O1 -DSTRATA_DEBUG=1 -w",
    "-DSTRATA_TESTS=ON",
)
# A mutant has this many times what the tests take without it, and no less than so many seconds.
PATIENCE = 10
LEAST_SECONDS = 10
MOST_BYTES = 12 << 30  # of data, for a mutant that allocates without end
CHUNK = 6  # mutants of one test that a job takes at a time


class ListError(Exception):
    """A list that does not say what to do."""


@dataclass(frozen=True)
class Mutant:
    """One mistake, as a list has it."""

    area: str
    path: str
    name: str
    find: str
    replace: str
    tests: tuple[str, ...]
    after: str = ""
    equivalent: str = ""

    def apply_in(self, root: Path) -> str | None:
        """The same for the file under a root; nothing if there is no such file."""
        path = root / self.path
        return self.apply(path.read_text()) if path.is_file() else None

    def apply(self, text: str) -> str | None:
        """The changed text of the file, or nothing if the place is not there or not alone."""
        start = 0
        if self.after:
            if text.count(self.after) != 1:
                return None
            start = text.index(self.after) + len(self.after)
        elif text.count(self.find) != 1:
            return None
        at = text.find(self.find, start)
        if at < 0:
            return None
        changed = text[:at] + self.replace + text[at + len(self.find) :]
        return changed if changed != text else None


class Verdict(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    EQUIVALENT = "equivalent"
    SURVIVED = "SURVIVED"
    STALE = "STALE"
    BROKEN = "BROKEN"
    WRONG = "WRONG"


FINE = frozenset({Verdict.KILLED, Verdict.EQUIVALENT})
WHAT = {
    Verdict.STALE: "no longer applies to the file",
    Verdict.BROKEN: "can't be run",
    Verdict.WRONG: "is called equivalent, but was killed",
}


def texts(table: dict[str, object], key: str, where: str) -> tuple[str, ...]:
    """A list of strings that is not empty."""
    value = table.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise ListError(f"{where}: `{key}` is not a list of names")
    return tuple(value)


def mutant_of(area: str, path: str, entry: dict[str, object], tests: tuple[str, ...]) -> Mutant:
    """One entry of a list."""
    where = f"{area}: {path}: {entry.get('name', 'a mutant without a name')}"
    allowed = {"name", "find", "replace", "after", "tests", "equivalent"}
    if unknown := entry.keys() - allowed:
        raise ListError(f"{where}: unknown `{sorted(unknown)[0]}`")
    found = {}
    for key in allowed - {"tests"}:
        value = entry.get(key, "" if key in ("after", "equivalent") else None)
        if not isinstance(value, str) or (value == "" and key in ("name", "find")):
            raise ListError(f"{where}: `{key}` is missing")
        found[key] = value
    if "tests" in entry:
        tests = texts(entry, "tests", where)
    return Mutant(area=area, path=path, tests=tests, **found)


def read_list(path: Path) -> list[Mutant]:
    """The mutants of one area."""
    area = path.stem
    mutants = []
    for table in tomllib.loads(path.read_text()).get("file", []):
        file = str(table.get("path", ""))
        tests = texts(table, "tests", f"{area}: {file}")
        mutants += [mutant_of(area, file, entry, tests) for entry in table.get("mutant", [])]
    names = Counter(mutant.name for mutant in mutants)
    for name, count in names.items():
        if count > 1:
            raise ListError(f"{area}: two mutants are called {name}")
    if not mutants:
        raise ListError(f"{area}: no mutants")
    return mutants


def chunks(mutants: Iterable[Mutant]) -> list[list[Mutant]]:
    """Some mutants of the same tests each, so that few jobs build the same; most work first."""
    by_tests: dict[tuple[str, ...], list[Mutant]] = {}
    for mutant in mutants:
        by_tests.setdefault(mutant.tests, []).append(mutant)
    pieces = [
        group[i : i + CHUNK] for group in by_tests.values() for i in range(0, len(group), CHUNK)
    ]
    return sorted(pieces, key=len, reverse=True)


def limit_resources() -> None:
    """For a child that may do anything."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))


def write_if_other(path: Path, data: bytes) -> None:
    """Leaves a file that is right alone, so that nothing is built anew for it."""
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def fails_assertions_alone(message: str) -> bool:
    """Whether the compiler found nothing but static assertions that do not hold."""
    errors = [line for line in message.splitlines() if " error: " in line]
    return bool(errors) and all("static assertion failed" in line for line in errors)


class Tree:
    """One copy of the project with a build of its own."""

    def __init__(self, root: Path, where: Path) -> None:
        self.root = root
        self.source = where / "tree"
        self.build = where / "build"
        self.seconds: dict[str, float] = {}  # of tests that passed without any mutant

    def copy(self) -> None:
        """Makes the copy what the working tree is, and configures it."""
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=self.root,
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        names = {name for name in listing.decode().split("\0") if name}
        files = {name for name in names if (self.root / name).is_file()}
        for name in files:
            write_if_other(self.source / name, (self.root / name).read_bytes())
        for path in sorted(self.source.rglob("*")):
            if path.is_file() and str(path.relative_to(self.source)) not in files:
                path.unlink()
        # What the tests in Python look for at their root.
        for name, target in (("build", self.build), (".venv", self.root / ".venv")):
            link = self.source / name
            if not link.is_symlink():
                link.symlink_to(target, target_is_directory=True)
        # Without a folder for libraries cmake/StrataLint.cmake makes no engine.
        libraries = f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={self.build / 'lib'}"
        self.check(["cmake", "-S", str(self.source), "-B", str(self.build), libraries, *CONFIGURE])

    def check(self, command: list[str]) -> None:
        """Runs a command without which nothing else can be done."""
        done = subprocess.run(
            command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if done.returncode != 0:
            raise ListError(f"{' '.join(command)}\n{done.stdout[-4000:]}")

    def compile(self, test: str) -> str | None:
        """Builds one test; what the compiler says if it can't."""
        target, _, file = test.partition(": ")
        done = subprocess.run(
            ["ninja", "-C", str(self.build), "-j1", target if file else test.replace("/", "_")],
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return None if done.returncode == 0 else done.stdout

    def command(self, test: str) -> list[str]:
        """How a test that is built is run, until it first fails."""
        _, _, file = test.partition(": ")
        if not file:
            return [str(self.build / "tests" / test), "--gtest_brief=1", "--gtest_fail_fast"]
        python = self.source / ".venv" / "bin" / "python"
        return [
            str(python),
            "-m",
            "pytest",
            "-qx",
            "-p",
            "no:cacheprovider",
            str(self.source / file),
        ]

    def passes(self, test: str, seconds: float) -> bool:
        """Whether a test that is built ends well and in time."""
        try:
            done = subprocess.run(
                self.command(test),
                cwd=self.build,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=seconds,
                preexec_fn=limit_resources,  # takes no lock
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def prepare(self, test: str) -> None:
        """Sees to it that a test passes as the tree stands, and how long it takes."""
        if test in self.seconds:
            return
        if (message := self.compile(test)) is not None:
            raise ListError(f"{test} does not build:\n{message[-4000:]}")
        begin = time.monotonic()
        if not self.passes(test, 600):
            raise ListError(f"{test} fails without any mutant")
        self.seconds[test] = time.monotonic() - begin

    def judge(self, mutant: Mutant) -> tuple[Verdict, str]:
        """What the tests say of a mutant, and which of them killed it."""
        path = self.source / mutant.path
        text = path.read_text() if path.is_file() else ""
        changed = mutant.apply(text)
        if changed is None:
            return Verdict.STALE, ""
        try:
            for test in mutant.tests:
                self.prepare(test)
        except ListError as error:
            return Verdict.BROKEN, str(error)
        path.write_text(changed)
        try:
            return self.run_tests(mutant)
        finally:
            path.write_text(text)

    def run_tests(self, mutant: Mutant) -> tuple[Verdict, str]:
        for test in mutant.tests:
            message = self.compile(test)
            if message is not None and not fails_assertions_alone(message):
                return Verdict.BROKEN, message[-2000:]
            if message is not None or not self.passes(
                test, max(LEAST_SECONDS, PATIENCE * self.seconds[test])
            ):
                return (Verdict.WRONG if mutant.equivalent else Verdict.KILLED), test
        return (Verdict.EQUIVALENT if mutant.equivalent else Verdict.SURVIVED), ""


def line_for(mutant: Mutant, verdict: Verdict, detail: str, seconds: float) -> str:
    """What is printed of one mutant."""
    more = ""
    if verdict in (Verdict.KILLED, Verdict.WRONG):
        more = f"by {detail}"
    elif verdict == Verdict.EQUIVALENT:
        more = mutant.equivalent
    if what := WHAT.get(verdict):
        more = f"{what} {more}".strip()
    line = f"{verdict.value:<10} {mutant.area}/{mutant.name} ({seconds:.0f} s) {more}".rstrip()
    return f"{line}\n{detail}" if verdict == Verdict.BROKEN else line


def summary(results: Iterable[tuple[Mutant, Verdict]]) -> list[str]:
    """The totals of each area and of all."""
    by_area: dict[str, Counter[Verdict]] = {}
    for mutant, verdict in results:
        by_area.setdefault(mutant.area, Counter())[verdict] += 1
    lines = []
    everything: Counter[Verdict] = Counter()
    for area, counts in [*sorted(by_area.items()), ("all", everything)]:
        if counts is not everything:
            everything += counts
        total = sum(counts.values())
        parts = [f"{counts[v]} {v.value.lower()}" for v in Verdict if counts[v]]
        share = 100 * counts[Verdict.KILLED] / total if total else 0
        lines.append(f"{area}: {total} mutants, {', '.join(parts)} ({share:.1f} % killed)")
    return lines


class Run:
    """The jobs, each with its tree, that empty one queue of mutants."""

    def __init__(self, mutants: list[Mutant], root: Path, build: Path) -> None:
        self.root, self.build = root, build
        self.work: queue.SimpleQueue[list[Mutant]] = queue.SimpleQueue()
        for chunk in chunks(mutants):
            self.work.put(chunk)
        self.lock = threading.Lock()
        self.results: list[tuple[Mutant, Verdict]] = []
        self.errors: list[str] = []

    def job(self, number: int) -> None:
        try:
            tree = Tree(self.root, self.build / f"job{number}")
            tree.copy()
            while not self.errors:
                for mutant in self.work.get_nowait():
                    self.one(tree, mutant)
        except queue.Empty:
            pass
        except ListError as error:
            self.errors.append(str(error))

    def one(self, tree: Tree, mutant: Mutant) -> None:
        begin = time.monotonic()
        verdict, detail = tree.judge(mutant)
        with self.lock:
            self.results.append((mutant, verdict))
            print(line_for(mutant, verdict, detail, time.monotonic() - begin), flush=True)

    def all(self, jobs: int) -> bool:
        """Whether all went as the lists say."""
        threads = [threading.Thread(target=self.job, args=(i,)) for i in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print("", *summary(self.results), sep="\n")
        for verdict in (v for v in Verdict if v not in FINE):
            names = sorted(f"{m.area}/{m.name}" for m, v in self.results if v == verdict)
            if names:
                print(f"{verdict.value}: {', '.join(names)}")
        print(*self.errors, sep="\n", end="\n" if self.errors else "", file=sys.stderr)
        return not self.errors and all(verdict in FINE for _, verdict in self.results)


def select(mutants: Iterable[Mutant], areas: list[str], only: list[str]) -> list[Mutant]:
    """Those of the areas, or all, whose name one of the patterns fits."""
    return [
        mutant
        for mutant in mutants
        if (not areas or mutant.area in areas)
        and (
            not only
            or any(fnmatch.fnmatch(f"{mutant.area}/{mutant.name}", f"*{one}*") for one in only)
        )
    ]


def main() -> int:
    """Runs the chosen mutants."""
    parser = argparse.ArgumentParser(description="Runs the mutants of tests/mutants.")
    parser.add_argument("--area", action="append", default=[], help="a list's name, repeatable")
    parser.add_argument(
        "--only", action="append", default=[], help="a part of AREA/NAME, or a glob"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--check", action="store_true", help="build nothing: only what is stale")
    args = parser.parse_args()
    try:
        mutants = [mutant for path in sorted(LISTS.glob("*.toml")) for mutant in read_list(path)]
    except (ListError, tomllib.TOMLDecodeError) as error:
        print(error, file=sys.stderr)
        return 1
    mutants = select(mutants, args.area, args.only)
    if not mutants:
        print("no such mutants", file=sys.stderr)
        return 1
    if args.check:
        stale = [m for m in mutants if m.apply_in(ROOT) is None]
        for mutant in stale:
            print(line_for(mutant, Verdict.STALE, "", 0))
        print(f"{len(mutants)} mutants, {len(stale)} stale")
        return 1 if stale else 0
    return 0 if Run(mutants, ROOT, BUILD).all(args.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
