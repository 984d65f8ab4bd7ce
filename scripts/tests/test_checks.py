"""The source checks can fail: each rule is broken once and must be reported at its line."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent


def load(name: str) -> ModuleType:
    """Imports one script by its path."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


check_includes = load("check_includes")
check_files = load("check_files")
run_tests = load("run_tests")


@pytest.fixture
def src(tmp_path: Path) -> Path:
    """A source tree with one header in every layer."""
    for layer in check_includes.RANK:
        (tmp_path / layer).mkdir()
        (tmp_path / layer / "it.h").write_text("// It.\n")
    (tmp_path / "os" / "fake_it.h").write_text("// Fake.\n#include <vector>\n")
    return tmp_path


def messages(src: Path, layer: str, *lines: str) -> list[str]:
    """What the check says about one file, from its name on."""
    path = src / layer / "file.cpp"
    path.write_text("// File.\n" + "".join(f"{line}\n" for line in lines))
    return [message.removeprefix(f"{src}/") for message in check_includes.check(src)]


@pytest.mark.parametrize(
    ("layer", "into"),
    [("base", "os"), ("os", "hugepage"), ("hugepage", "span"), ("span", "cache"),
     ("cache", "heaps"), ("profile", "heaps"), ("heaps", "malloc")],
)  # fmt: skip
def test_up_is_wrong_and_down_is_right(src: Path, layer: str, into: str) -> None:
    found = messages(src, layer, "#include <cstdint>", f'#include "{into}/it.h"')
    assert len(found) == 1
    assert found[0].startswith(f"{layer}/file.cpp:3: ")
    assert " up " in found[0]
    (src / layer / "file.cpp").unlink()
    assert messages(src, into, f'#include "{layer}/it.h"', '#include "it.h"') == []


def test_sideways_is_wrong(src: Path) -> None:
    (found,) = messages(src, "cache", ' #  include "profile/it.h"')
    assert "sideways" in found


@pytest.mark.parametrize(
    "line",
    ["#include <vector>", "#include <iostream>", '#include "os/fake_it.h"', '#include "gone.h"',
     '#include "os/gone.h"', '#include "tests/it.h"'],
)  # fmt: skip
def test_what_no_layer_may_include(src: Path, line: str) -> None:
    assert len(messages(src, "heaps", line)) == 1


def test_a_folder_that_is_no_layer(src: Path) -> None:
    (src / "extra").mkdir()
    assert "extra is not a layer" in messages(src, "extra")[0]


def test_fakes_may_include_fakes_and_containers(src: Path) -> None:
    (src / "hugepage" / "fake_b.h").write_text('// B.\n#include "os/fake_it.h"\n#include <map>\n')
    assert messages(src, "base") == []


def test_file_rules() -> None:
    assert list(check_files.check("a.h", "// What.\n" + "x\n" * 499)) == []
    assert len(list(check_files.check("a.h", "// What.\n" + "x\n" * 500))) == 1
    assert len(list(check_files.check("a.h", "#pragma once\n// Late.\n"))) == 1
    assert list(check_files.check("a.py", '#!/usr/bin/env python3\n"""What."""\n')) == []
    assert len(list(check_files.check("a.py", "import sys\n"))) == 1


def write_ctest(path: Path, *entries: tuple[str, str]) -> None:
    """A report as ctest --output-junit writes it."""
    cases = "".join(f'<testcase name="{name}" status="{status}"/>' for name, status in entries)
    path.write_text(f"<testsuite>{cases}</testsuite>")


def test_counts_sum_up_and_crashes_count(tmp_path: Path) -> None:
    report = tmp_path / "ctest.xml"
    write_ctest(report, ("a/good", "run"), ("a/crashed", "fail"), ("a/silent", "run"))
    (tmp_path / "a.good.xml").write_text(
        '<testsuites><testsuite><testcase name="1"/><testcase name="2"><skipped/></testcase>'
        "</testsuite></testsuites>"
    )
    (tmp_path / "a.crashed.xml").write_text('<testsuites><testcase name="1"/></testsuites>')
    count = run_tests.count_stage(tmp_path, report)
    assert str(count) == "3 passed, 1 failed, 1 skipped"


def test_a_failed_case_counts_once(tmp_path: Path) -> None:
    report = tmp_path / "ctest.xml"
    write_ctest(report, ("a/bad", "fail"))
    (tmp_path / "a.bad.xml").write_text(
        '<testsuites><testcase name="1"><failure/></testcase><testcase name="2"/></testsuites>'
    )
    assert str(run_tests.count_stage(tmp_path, report)) == "1 passed, 1 failed"
