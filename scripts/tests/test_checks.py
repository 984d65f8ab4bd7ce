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
     ("cache", "heaps"), ("profile", "heaps"), ("heaps", "malloc"), ("malloc", "regions"),
     ("malloc", "report"), ("report", "control"), ("regions", "control")],
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


@pytest.mark.parametrize(("layer", "into"), [("regions", "report"), ("control", "trace")])
def test_what_stands_beside_is_out_of_reach(src: Path, layer: str, into: str) -> None:
    (found,) = messages(src, layer, f'#include "{into}/it.h"')
    assert f"{layer} must not include sideways into {into}" in found


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


def circle(src: Path) -> list[str]:
    """What the check says about circles, from the file's name on."""
    found = check_includes.cycles(src, src.parent / "public")
    return [message.removeprefix(f"{src.resolve()}/") for message in found]


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """Three headers in a circle, one that leads into it, and a public header."""
    src = tmp_path / "src"
    (src / "os").mkdir(parents=True)
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "lock.h").write_text("// Lock.\n")
    for name, to in [("a", '"b.h"'), ("b", '"os/c.h"'), ("c", '"os/a.h"'), ("in", '"os/a.h"')]:
        (src / "os" / f"{name}.h").write_text(f'// It.\n#include "lock.h"\n#include {to}\n')
    return src


def test_a_circle_is_said_once_for_each_file_in_it(ring: Path) -> None:
    assert circle(ring) == [
        "os/a.h:3: includes itself: src/os/a.h -> src/os/b.h -> src/os/c.h -> src/os/a.h",
        "os/b.h:3: includes itself: src/os/b.h -> src/os/c.h -> src/os/a.h -> src/os/b.h",
        "os/c.h:3: includes itself: src/os/c.h -> src/os/a.h -> src/os/b.h -> src/os/c.h",
    ]
    (ring / "os" / "c.h").write_text("// It.\n")
    assert circle(ring) == []


def test_a_file_that_includes_itself(ring: Path) -> None:
    (ring / "os" / "c.h").write_text('// It.\n#include "c.h"\n')
    assert circle(ring) == ["os/c.h:2: includes itself: src/os/c.h -> src/os/c.h"]


def test_a_circle_of_public_headers(ring: Path) -> None:
    (ring / "os" / "c.h").write_text("// It.\n")
    (ring.parent / "public" / "lock.h").write_text('// Lock.\n#include "lock.h"\n')
    (found,) = circle(ring)
    assert "includes itself: public/lock.h -> public/lock.h" in found


def test_file_rules() -> None:
    assert list(check_files.check("a.h", "// What.\n" + "x\n" * 499)) == []
    assert len(list(check_files.check("a.h", "// What.\n" + "x\n" * 500))) == 1
    assert len(list(check_files.check("a.h", "#pragma once\n// Late.\n"))) == 1
    assert list(check_files.check("a.py", '#!/usr/bin/env python3\n"""What."""\n')) == []
    assert len(list(check_files.check("a.py", "import sys\n"))) == 1
