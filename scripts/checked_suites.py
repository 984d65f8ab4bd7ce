#!/usr/bin/env python3
"""Runs the test suites of Redis, SQLite and Python under STRATA_CHECK=on: `make checked-suites`.

    scripts/checked_suites.py [redis] [sqlite] [python] [--only PATTERN]... [--lib PATH]

Each runs twice, on glibc's malloc and in a checked run, and what fails only there is named: that
is either a fault of Strata's or one of theirs that nobody has seen. Sources come from Debian (tests
of Redis drive Debian's own server; SQLite's need a program of their own, which is built once) and
stay in build/suites. All of it takes over an hour; PATTERN (as the shell has them) picks from the
units of Redis, the files of SQLite and the modules of Python. Exits with 1 if a test fails in the
checked run alone, or if Strata reports an error.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "suites"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# A unit of Redis's suite that fills gigabytes, and tests that judge the server's memory to a few
# percent or its latency in milliseconds.
REDIS_LEFT_OUT = ("unit/memefficiency", "integration/corrupt-dump-fuzzer")
PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class Outcome:
    passed: int
    failed: frozenset[str]
    complaints: tuple[str, ...]  # what Strata said
    seconds: float


def run(command: list[str], folder: Path, env: dict[str, str] | None = None) -> str:
    """What a command says on both streams, however it ends."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | (env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return COLOUR.sub("", done.stdout.decode(errors="replace"))


def complaints(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("strata: ")]


def debian_source(name: str) -> Path:
    """The unpacked source of Debian's package, fetched once; apt's own state is left alone."""
    found = sorted(WORK.glob(f"{name}-[0-9]*/"))
    if found:
        return found[0]
    lists = WORK / "apt"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    sources = WORK / "sources.list"
    sources.write_text(
        f"deb-src [signed-by={KEYRING}] http://deb.debian.org/debian bookworm main\n"
        f"deb-src [signed-by={KEYRING}] http://deb.debian.org/debian-security"
        " bookworm-security main\n"
    )
    apt = ["apt-get", "-qq", "-o", f"Dir::Etc::SourceList={sources}"]
    apt += ["-o", "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State::Lists={lists}"]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "source", name], check=True, cwd=WORK, stdout=subprocess.DEVNULL)
    return next(WORK.glob(f"{name}-[0-9]*/"))


# ---- Redis: its suite with Debian's server


def prepare_redis() -> Path:
    source = debian_source("redis")
    for name in ("redis-benchmark", "redis-check-aof", "redis-check-rdb", "redis-cli"):
        link = source / "src" / name
        link.unlink(missing_ok=True)
        link.symlink_to(shutil.which(name) or f"/usr/bin/{name}")
    server = source / "src/redis-server"  # so that the suite's tclsh runs without
    server.unlink(missing_ok=True)
    server.write_text('#!/bin/sh\nexec env $SUITE_ENV /usr/bin/redis-server "$@"\n')
    server.chmod(0o755)
    return source


def redis_units(source: Path) -> list[str]:
    listed = re.search(
        r"set ::all_tests \{(.*?)\}", (source / "tests/test_helper.tcl").read_text(), re.DOTALL
    )
    assert listed is not None
    return [unit for unit in listed[1].split() if unit not in REDIS_LEFT_OUT]


def run_redis(source: Path, units: list[str], env: dict[str, str]) -> Outcome:
    """Each unit in a run of its own, which a test that does not fit Debian's server ends."""
    began = time.monotonic()
    command = ["./runtest", "--clients", "1", "--baseport", "23111", "--portcount", "2000"]
    command += ["--dont-clean", "--timeout", "600", "--single"]
    words = " ".join(f"{name}={value}" for name, value in env.items())
    text = "".join(run([*command, unit], source, {"SUITE_ENV": words}) for unit in units)
    said = complaints(text)
    for file in (source / "tests/tmp").glob("server.*/std*"):
        said += complaints(file.read_text(errors="replace"))
    shutil.rmtree(source / "tests/tmp")
    (source / "tests/tmp").mkdir()
    (WORK / f"redis{'-checked' if env else ''}.log").write_text(text)
    return Outcome(
        len(re.findall(r"^\[ok\]:", text, re.MULTILINE)),
        frozenset(re.findall(r"^\[(?:err|exception)\]: (.*)$", text, re.MULTILINE)),
        tuple(said),
        time.monotonic() - began,
    )


# ---- SQLite: its Tcl tests, in the program that they need


def prepare_sqlite() -> Path:
    source = debian_source("sqlite3")
    if not (source / "testfixture").exists():
        subprocess.run(["./configure"], cwd=source, check=True, stdout=subprocess.DEVNULL)
        jobs = f"-j{os.cpu_count()}"
        subprocess.run(
            ["make", jobs, "testfixture"], cwd=source, check=True, stdout=subprocess.DEVNULL
        )
    return source


def sqlite_files(source: Path) -> list[str]:
    """Those that SQLite counts as "veryquick", as its own list has them: with every file, those
    that make each allocation fail in turn among them, a run takes many hours."""
    script = WORK / "veryquick.tcl"
    script.write_text(
        f"set argv0 {source}/test/list\n"  # by which it finds its files
        f"source {source}/test/permutations.test\n"
        "array set suite $::testspec(veryquick)\n"
        'foreach file $suite(-files) { puts "file [file tail $file]" }\n'
    )
    folder = WORK / "sqlite-list"
    folder.mkdir(exist_ok=True)
    text = run([f"{source}/testfixture", str(script)], folder)
    return sorted(re.findall(r"^file (\S+\.test)$", text, re.MULTILINE))


def run_sqlite(source: Path, files: list[str], env: dict[str, str]) -> Outcome:
    began = time.monotonic()
    folder = WORK / "sqlite-run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command = [f"{source}/testfixture", f"{source}/test/permutations.test", "veryquick"]
    if os.geteuid() == 0:  # whose rights some tests must not have
        folder.chmod(0o777)
        command = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]
    text = run([*command, *files], folder, env)
    (WORK / f"sqlite{'-checked' if env else ''}.log").write_text(text)
    ended = re.search(r"^(\d+) errors out of (\d+) tests", text, re.MULTILINE)
    failed = re.search(r"^!Failures on these tests: (.*)$", text, re.MULTILINE)
    names = set(failed[1].split()) if failed is not None else set()
    if ended is None:
        names.add(f"(it did not end: {text.splitlines()[-1:]})")
    passed = int(ended[2]) - int(ended[1]) if ended is not None else 0
    return Outcome(passed, frozenset(names), tuple(complaints(text)), time.monotonic() - began)


# ---- Python: its modules, every object a malloc


def python_modules(_: Path) -> list[str]:
    listed = subprocess.run(
        [PYTHON, "-m", "test", "--list-tests"], check=True, capture_output=True, text=True
    )
    return listed.stdout.split()


def run_python(folder: Path, modules: list[str], env: dict[str, str]) -> Outcome:
    began = time.monotonic()
    results = folder / "python.xml"
    results.unlink(missing_ok=True)
    command = [PYTHON, "-m", "test", "-j2", "--timeout", "600", "--junit-xml", str(results)]
    text = run([*command, *modules], folder, {"PYTHONMALLOC": "malloc"} | env)
    (WORK / f"python{'-checked' if env else ''}.log").write_text(text)
    passed = 0
    failed = set(re.findall(r"^test (\w+) crashed", text, re.MULTILINE))
    if results.exists():
        for case in xml.etree.ElementTree.parse(results).iter("testcase"):
            bad = case.find("failure") is not None or case.find("error") is not None
            if bad:
                failed.add(case.get("name", "?"))
            else:
                passed += 1
    for line in re.findall(r"^\d+ tests? failed:\n((?:    .*\n)+)", text, re.MULTILINE):
        failed |= set(line.split())
    return Outcome(passed, frozenset(failed), tuple(complaints(text)), time.monotonic() - began)


@dataclass(frozen=True)
class Suite:
    prepare: Callable[[], Path]
    parts: Callable[[Path], list[str]]
    run: Callable[[Path, list[str], dict[str, str]], Outcome]


SUITES = {
    "redis": Suite(prepare_redis, redis_units, run_redis),
    "sqlite": Suite(prepare_sqlite, sqlite_files, run_sqlite),
    "python": Suite(lambda: WORK, python_modules, run_python),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)}; all")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--lib", type=Path, default=ROOT / "build/lib/libstrata.so")
    args = parser.parse_args()
    if unknown := set(args.suites) - set(SUITES):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    checked = {"LD_PRELOAD": str(args.lib.absolute()), "STRATA_CHECK": "on"}
    if not args.lib.exists():
        parser.error(f"{args.lib}: not there; `make lib` builds it")
    WORK.mkdir(parents=True, exist_ok=True)
    found = False
    for name in args.suites or SUITES:
        suite = SUITES[name]
        folder = suite.prepare()
        parts = suite.parts(folder)
        if args.only:
            parts = [p for p in parts if any(fnmatch.fnmatch(p, one) for one in args.only)]
        if not parts:
            continue
        plain = suite.run(folder, parts, {})
        strict = suite.run(folder, parts, checked)
        for way, got in (("glibc", plain), ("checked", strict)):
            print(
                f"{name:7} {way:8} {len(parts)} parts, {got.passed} tests passed,"
                f" {len(got.failed)} failed, {got.seconds:.0f} s",
                flush=True,
            )
        for test in sorted(plain.failed & strict.failed):
            print(f"  fails in both: {test}")
        for test in sorted(strict.failed - plain.failed):
            print(f"  FAILS IN THE CHECKED RUN ALONE: {test}")
        for line in strict.complaints:
            print(f"  Strata said: {line}")
        found = found or bool(strict.failed - plain.failed or strict.complaints)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
