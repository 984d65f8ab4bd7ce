"""Bad frees and nonsense in options: one clear line, the documented end, no corruption."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from blackbox import ROOT, Lab, cases

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "bad_free_cases.c"
IGNORE = {"STRATA_ON_ERROR": "ignore"}

ONLY_DEBUG = {"wrong_sized_free"}
SPECIAL = {"many", "usable_size_of_foreign"} | ONLY_DEBUG
ABORTS = [case for case in cases(SOURCE) if case not in SPECIAL]


@pytest.mark.parametrize("case", ABORTS)
def test_bad_free_aborts_with_one_line(lab: Lab, case: str) -> None:
    lab.require_strata()
    result = lab.run(lab.build(SOURCE), case)
    assert result.returncode == -signal.SIGABRT, result.explain()
    assert result.stdout == "", result.explain()
    assert len(result.strata_lines()) == 1, result.explain()
    assert len(result.stderr.splitlines()) == 1, result.explain()


@pytest.mark.parametrize("case", ABORTS)
def test_bad_free_is_ignored_when_asked(lab: Lab, case: str) -> None:
    lab.require_strata()
    result = lab.run(lab.build(SOURCE), case, env=IGNORE)
    assert result.returncode == 0, result.explain()
    assert result.stdout == "", result.explain()
    assert 1 <= len(result.strata_lines()) <= 2, result.explain()
    assert len(result.stderr.splitlines()) == len(result.strata_lines()), result.explain()


def test_many_bad_frees_do_not_flood(lab: Lab) -> None:
    lab.require_strata()
    result = lab.run(lab.build(SOURCE), "many", env=IGNORE)
    assert result.returncode == 0, result.explain()
    assert 1 <= len(result.strata_lines()) <= 10, result.explain()


def test_usable_size_of_foreign_pointer(lab: Lab) -> None:
    lab.require_strata()
    result = lab.run(lab.build(SOURCE), "usable_size_of_foreign", env=IGNORE)
    assert result.returncode == 0, result.explain()


@pytest.mark.parametrize("case", sorted(ONLY_DEBUG))
def test_debug_library_finds_more(lab: Lab, case: str) -> None:
    """STRATA_DEBUG_LIB names a debug build, by default the newest of the debug presets'."""
    lab.require_strata()
    named = os.environ.get("STRATA_DEBUG_LIB")
    found = [Path(named)] if named else list((ROOT / "build").glob("debug*/libstrata.so"))
    if not found:
        pytest.skip("no debug library has been built")
    newest = max(found, key=lambda path: path.stat().st_mtime)
    result = lab.run(lab.build(SOURCE), case, env={"LD_PRELOAD": str(newest)})
    assert result.returncode == -signal.SIGABRT, result.explain()
    assert len(result.strata_lines()) >= 1, result.explain()


# ---- options

NONSENSE = [
    ("STRATA_CACHE", "banana"),
    ("STRATA_CACHE", ""),
    ("STRATA_CACHE", "CPU,THREAD"),
    ("STRATA_RELEASE", "maybe"),
    ("STRATA_HUGEPAGES", "2"),
    ("STRATA_BACKGROUND", "perhaps"),
    ("STRATA_ON_ERROR", "explode"),
    ("STRATA_VERBOSE", "very"),
    ("STRATA_CPU_CACHE_BYTES", "-5"),
    ("STRATA_CPU_CACHE_BYTES", "12Q"),
    ("STRATA_CPU_CACHE_BYTES", "K"),
    ("STRATA_CPU_CACHE_BYTES", "1M more"),
    ("STRATA_CPU_CACHE_BYTES", "99999999999999999999999999"),
    ("STRATA_HEAP_LIMIT", "lots"),
    ("STRATA_HEAP_LIMIT", "18446744073709551615G"),
    ("STRATA_HEAP_LIMIT", "0x10"),
    ("STRATA_STATS_INTERVAL", "abc"),
    ("STRATA_STATS_INTERVAL", "-1"),
    ("STRATA_RELEASE_SHORT_MS", "soon"),
    ("STRATA_RELEASE_LONG_MS", "1e99"),
    ("STRATA_RELEASE_PEAK_MS", "-10"),
    ("STRATA_RELEASE_PEAK_MS", "\t"),
    ("STRATA_NO_SUCH_OPTION", "1"),
    ("STRATA_", "1"),
    ("STRATA_CACHEX", "cpu"),
    ("STRATA_CACHE", "x" * 100_000),
    ("STRATA_" + "Y" * 10_000, "1"),
    ("STRATA_CACHE", "%s%n%s\x1b[31m"),
]


@pytest.mark.parametrize(("name", "value"), NONSENSE, ids=lambda text: repr(text[:24]))
def test_nonsense_option_gives_one_line_and_the_default(
    lab: Lab, tmp_path: Path, name: str, value: str
) -> None:
    lab.require_strata()
    program = lab.build(HERE / "hardship_cases.c")
    lab.run(program, "ordinary", env={"STRATA_STATS": str(tmp_path / "default")}).silent()
    env = {name: value, "STRATA_STATS": str(tmp_path / "nonsense")}
    result = lab.run(program, "ordinary", env=env)
    assert result.returncode == 0 and result.stdout == "", result.explain()
    assert len(result.strata_lines()) == 1, result.explain()
    assert len(result.stderr.splitlines()) == 1, result.explain()
    assert name[:20] in result.stderr, result.explain()
    assert len(result.stderr) < 1000, "the whole value was printed"
    assert "\x1b" not in result.stderr, "control characters were printed"
    reports = [json.loads((tmp_path / kind).read_text()) for kind in ("default", "nonsense")]
    assert reports[0]["cache_mode"] == reports[1]["cache_mode"]


GOOD = [
    ("STRATA_CACHE", "auto"),
    ("STRATA_CACHE", "thread"),
    ("STRATA_RELEASE", "off"),
    ("STRATA_RELEASE", "on"),
    ("STRATA_HUGEPAGES", "off"),
    ("STRATA_BACKGROUND", "off"),
    ("STRATA_ON_ERROR", "ignore"),
    ("STRATA_CPU_CACHE_BYTES", "0"),
    ("STRATA_CPU_CACHE_BYTES", "64K"),
    ("STRATA_CPU_CACHE_BYTES", "1g"),
    ("STRATA_HEAP_LIMIT", "2G"),
    ("STRATA_RELEASE_SHORT_MS", "100"),
    ("STRATA_RELEASE_LONG_MS", "1000"),
    ("STRATA_RELEASE_PEAK_MS", "2000"),
]


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_good_option_is_silent(lab: Lab, name: str, value: str) -> None:
    lab.require_strata()
    program = lab.build(HERE / "hardship_cases.c")
    lab.run(program, "ordinary_threads", env={name: value}).silent()


def test_several_nonsense_options_give_a_line_each(lab: Lab) -> None:
    lab.require_strata()
    env = {"STRATA_CACHE": "banana", "STRATA_RELEASE": "maybe", "STRATA_NOPE": "1"}
    result = lab.run(lab.build(HERE / "hardship_cases.c"), "ordinary", env=env)
    assert result.returncode == 0 and result.stdout == "", result.explain()
    assert len(result.strata_lines()) == 3, result.explain()


def test_stats_path_that_cannot_be_written(lab: Lab) -> None:
    lab.require_strata()
    env = {"STRATA_STATS": "/proc/no/such/dir/stats.json"}
    result = lab.run(lab.build(HERE / "hardship_cases.c"), "ordinary", env=env)
    assert result.returncode == 0 and result.stdout == "", result.explain()
    assert len(result.stderr.splitlines()) == len(result.strata_lines()) == 1, result.explain()


def test_stats_at_exit_spare_a_file_that_took_their_descriptor(lab: Lab, tmp_path: Path) -> None:
    """Daemons close every descriptor, and then their own files get the numbers."""
    lab.require_strata()
    data = tmp_path / "data"
    script = (
        "import os, sys; os.closerange(3, 1024); fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT);"
        "os.write(fd, b'data'); [os.dup2(fd, other) for other in range(100, 400)]"
    )
    env = {"STRATA_STATS": "exit"}
    result = lab.run("/usr/bin/python3", "-c", script, str(data), env=env)
    assert result.returncode == 0, result.explain()
    assert data.read_bytes() == b"data"
    assert "per-" in result.stderr, result.explain()


def test_stats_at_exit_go_to_stderr(lab: Lab) -> None:
    lab.require_strata()
    result = lab.run("/bin/echo", "hello", env={"STRATA_STATS": "exit"})
    assert result.returncode == 0 and result.stdout == "hello\n", result.explain()
    assert "per-" in result.stderr, result.explain()
