"""The source checks can fail: each rule is broken once and must be reported at its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from loading import load

check_includes = load("check_includes")
check_files = load("check_files")


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
