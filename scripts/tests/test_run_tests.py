"""The sum of `make test`: failures count once; a second chance is given to few, and said."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from loading import load

run_tests = load("run_tests")
Project = Callable[..., str]


def write_ctest(path: Path, *entries: tuple[str, str]) -> None:
    """A report as ctest --output-junit writes it."""
    cases = "".join(f'<testcase name="{name}" status="{status}"/>' for name, status in entries)
    path.write_text(f"<testsuite>{cases}</testsuite>")


def total(results: Path, report: Path) -> object:
    counts = run_tests.count_entries(results, run_tests.entries(report))
    return sum(counts.values(), run_tests.Count())


def test_counts_sum_up_and_crashes_count(tmp_path: Path) -> None:
    report = tmp_path / "ctest.xml"
    write_ctest(report, ("a/good", "run"), ("a/crashed", "fail"), ("a/silent", "run"))
    (tmp_path / "a.good.xml").write_text(
        '<testsuites><testsuite><testcase name="1"/><testcase name="2"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    (tmp_path / "a.crashed.xml").write_text('<testsuites><testcase name="1"/></testsuites>')
    assert str(total(tmp_path, report)) == "3 passed, 1 failed, 1 skipped"


def test_a_failed_case_counts_once(tmp_path: Path) -> None:
    report = tmp_path / "ctest.xml"
    write_ctest(report, ("a/bad", "fail"))
    (tmp_path / "a.bad.xml").write_text(
        '<testsuites><testcase name="1"><failure/></testcase><testcase name="2"/></testsuites>'
    )
    assert str(total(tmp_path, report)) == "1 passed, 1 failed"


# ---- a second chance, with a real ctest

BROKEN = "false"
ONCE = "test -e {name}.seen || { touch {name}.seen; exit 1; }"  # fails beside others, passes alone
ONCE_THEN_SKIPPED = (
    "test -e {name}.seen && mkdir -p results &&"
    " echo '<a><testcase><skipped/></testcase></a>' >results/{file}.xml ||"
    " { touch {name}.seen; exit 1; }"
)
GOOD = "true"


def several_fail_once(many: int) -> str:
    """An entry of many cases that fail the first time, and one that does not."""

    def report(inside: str) -> str:
        cases = "".join(
            f'<testcase classname="tests.edge.test_{i}" name="ask[{i}]">{inside}</testcase>'
            for i in range(many)
        )
        good = '<testcase classname="tests.edge.test_x" name="good"/>'
        return f"echo '<a>{cases}{good}</a>' >results/{{file}}.xml"

    first = f"{{ touch {{name}}.seen; {report('<failure/>')}; exit 1; }}"
    return f"mkdir -p results; test -e {{name}}.seen && {report('')} || {first}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Makes a project whose ctest entries are shell commands, and runs its one stage."""
    if shutil.which("ctest") is None or shutil.which("ninja") is None:
        pytest.skip("ctest or ninja is not installed")
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    preset = {"name": "p", "generator": "Ninja", "binaryDir": "${sourceDir}/build/p"}
    follow = [{"name": "p", "configurePreset": "p"}]
    presets = {"version": 6, "configurePresets": [preset], "buildPresets": follow,
               "testPresets": follow}  # fmt: skip
    (tmp_path / "CMakePresets.json").write_text(json.dumps(presets))

    def run(*tests: tuple[str, str, str]) -> str:
        lines = ["cmake_minimum_required(VERSION 3.25)", "project(p LANGUAGES NONE)"]
        lines.append("enable_testing()")
        for name, labels, command in tests:
            shell = command.replace("{name}", name.replace("/", "_"))
            shell = shell.replace("{file}", name.replace("/", "."))
            lines.append(f"add_test(NAME {name} COMMAND sh -c [==[{shell}]==])")
            lines.append(f'set_tests_properties({name} PROPERTIES LABELS "{labels}")')
        (tmp_path / "CMakeLists.txt").write_text("\n".join(lines))
        (tmp_path / "build/p/results").mkdir(parents=True)
        stage = run_tests.Stage("p", "a stage")
        with monkeypatch.context() as beside:
            beside.setattr(run_tests, "LOW", ())  # beside other tests that would take minutes
            built = run_tests.Background().submit(*run_tests.build_commands(stage, 2))
            assert built.result(60) == ""
        return str(run_tests.run_stage(stage, built, 2))

    return run


def test_what_passes_alone_is_flaky_and_said(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    sum_line = project(
        ("process/test_a+b", "process;python", ONCE), ("process/test_c", "process;python", GOOD)
    )
    assert sum_line == "2 passed, 0 failed, 1 flaky"
    said = [line for line in capfd.readouterr().out.splitlines() if "FLAKY" in line]
    assert said == ["FLAKY: process/test_a+b: no case named (failed beside others, passed alone)"]


def test_of_several_cases_those_that_failed_are_named(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    entry = ("edge/test_short", "edge;python", several_fail_once(2))
    assert project(entry) == "3 passed, 0 failed, 2 flaky"
    said = capfd.readouterr().out.splitlines()
    assert said.index("  edge/test_short: test_0::ask[0], test_1::ask[1]") < len(said) - 2
    assert [line for line in said if "FLAKY" in line] == [
        f"FLAKY: edge/test_short: test_{i}::ask[{i}] (failed beside others, passed alone)"
        for i in range(2)
    ]


def test_many_failures_of_one_entry_are_no_accident(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    many = run_tests.MOST_SECOND_CHANCES + 1
    entry = ("edge/test_short", "edge;python", several_fail_once(many))
    assert project(entry) == f"1 passed, {many} failed"
    assert "once more" not in capfd.readouterr().out


def test_what_fails_twice_has_failed(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    assert project(("process/test_a", "process;python", BROKEN)) == "0 passed, 1 failed"
    assert "FLAKY" not in capfd.readouterr().out


@pytest.mark.parametrize("labels", ["base;unit", "golden;python"])
def test_units_and_goldens_get_no_second_chance(project: Project, labels: str) -> None:
    entries = (("a/b", labels, ONCE), ("edge/test_c", "edge;python", ONCE))
    assert project(*entries) == "1 passed, 1 failed, 1 flaky"


def test_many_failures_are_no_accident(project: Project) -> None:
    many = run_tests.MOST_SECOND_CHANCES + 1
    entries = [(f"edge/test_{i}", "edge;python", ONCE) for i in range(many)]
    assert project(*entries) == f"0 passed, {many} failed"


def test_a_failure_that_is_skipped_the_second_time_has_failed(project: Project) -> None:
    assert project(("edge/test_a", "edge;python", ONCE_THEN_SKIPPED)) == "0 passed, 1 failed"


# ---- what is built beside the tests of the stage before


def test_what_cannot_be_built_counts_once_and_says_why(
    project: Project, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    project(("a/b", "unit", GOOD))
    failing = ["sh", "-c", "nice; exit 1"]
    built = run_tests.Background().submit(failing, ["touch", str(tmp_path / "next")])
    stage = run_tests.Stage("p", "a stage")
    assert str(run_tests.run_stage(stage, built, 2)) == "0 passed, 1 failed"
    assert "nice; exit 1\n19\n" in capfd.readouterr().out, "it steps back for who tests"
    assert not (tmp_path / "next").exists()
    assert str(run_tests.run_check(built)) == "0 passed, 1 failed"


def test_an_interruption_ends_what_is_built(tmp_path: Path) -> None:
    background = run_tests.Background()
    started = tmp_path / "started"
    built = background.submit(["sh", "-c", f"touch {started}; sleep 1000 & wait"])
    waiting = background.submit(["true"])
    while not started.exists():
        time.sleep(0.01)
    background.stop()
    assert "sleep 1000" in built.result(60)
    assert waiting.cancelled()


def test_a_check_waits_for_what_it_needs() -> None:
    background = run_tests.Background()
    missing: Future[bool] = Future()
    checked = background.submit(["true"], after=missing)
    missing.set_result(False)
    assert "could not be installed" in checked.result(60)
    assert background.submit(["true"]).result(60) == ""
