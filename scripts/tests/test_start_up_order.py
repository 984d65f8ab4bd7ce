"""scripts/start_up_order.py: the load of a server, beside the process that is followed; what a fork
calls; and the order."""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from loading import SCRIPTS

FOLLOW = """
import sys
from pathlib import Path
import start_up_order as order
order.SERVER_S = 0.2
library = Path(sys.argv[2]).resolve()
traced = order.run(("sleep", "600"), library, order.Functions.of(library), sys.argv[1])
print(len(traced.called) > 5)
"""

FORK = """
import sys
from pathlib import Path
import start_up_order as order
library = Path(sys.argv[2]).resolve()
traced = order.run(("sh", "-c", "(exec true); true"), library, order.Functions.of(library))
for called in traced.called, traced.forked:
    names = order.sections_of(traced, called)
    parts = "OnLoad", "ForgetWaitersInChild"
    print([any(part in name for name in names) for part in parts])
"""
ORDER = """
import start_up_order as order
uses = order.Uses(
    small=[["start", "more", "most", "exits"], ["start", "exits"], ["start", "more", "serves"]],
    idle=[["start", "worker"], ["worker", "workers"]],
    workers=[["start", "worker", "serves"], ["worker", "workers", "large"]],
    large=[["start", "large", "larger"]],
    later=set(order.after_the_start(["start", order.LETS_GO, "exits", "rare"])),
)
sizes = {"start": 1000, "more": 7, "most": order.LITTLE + 1, "worker": 2, "large": 9}
parts = uses.in_order(sizes)
for part, names in parts.items(): print(part, *names)
"""

NAMES = """
import start_up_order as order
listed = (
    "malloc", "_ZN6strata5StartEv", "_ZN6strata12SystemKernelC2Em", "_ZN6strata4TakeEm",
    "_ZN6strata8PageRunsINS_12SystemKernelEE4GiveERNS_9PageTiersIS1_EE",
    "_ZN6strata12TransferCacheINS_5ListsELm1EE4SendEPvm",
    "_ZZN6strata5StartEvENUlPvE_4_FUNES0_",
)
print(order.section_of("_ZN6strata12SystemKernelC1Em.isra.0"))
print(*order.patterns_of(listed, [*listed, "_ZN6strata4TakeEi"]), sep="\\n")
"""

# What lies apart of the code that a small program runs. Of a run in which a sample was drawn by
# chance nothing is learned.
APART = """
import sys
from pathlib import Path
import start_up_order as order
library = Path(sys.argv[2]).resolve()
functions = order.Functions.of(library)
for _ in range(20):
    called = order.run(("cat", "/etc/passwd"), library, functions).called
    if not any("SampleTaken" in functions.names[at][0] for at in called):
        break
windows = {at // order.WINDOW for at in called}
print(len(windows))
print([functions.names[at][0] for at in called if at // order.WINDOW != min(windows)])
"""


@pytest.fixture
def library() -> Path:
    named = os.environ.get("STRATA_LIB") or SCRIPTS.parent / "build/lib/libstrata.so"
    if not Path(named).exists():
        pytest.skip(f"there is no {named} to follow")
    return Path(named)


def follow(load: str, library: Path, code: str = FOLLOW) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, load, str(library)],
        cwd=SCRIPTS,
        # Any option of ours would bring the code in that reads it.
        env={
            **{name: text for name, text in os.environ.items() if not name.startswith("STRATA_")},
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_load_that_fails_is_said(library: Path) -> None:
    done = follow("sleep 0.2; exit 3", library)
    assert (done.returncode, done.stderr) == (
        1,
        "sleep: its load ended with status 3: sleep 0.2; exit 3\n",
    )


def test_the_server_is_ended_after_its_load(library: Path, tmp_path: Path) -> None:
    done = follow(f"touch {tmp_path}/used", library)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert (tmp_path / "used").exists()


def test_a_fork_is_followed_anew(library: Path) -> None:
    done = follow("", library, FORK)
    assert done.stderr == ""
    first, forked = done.stdout.splitlines()
    assert first == "[True, True]"
    assert forked == "[False, True]"


def test_next_comes_what_the_one_lacks_that_lacks_least() -> None:
    done = follow("", Path(), ORDER)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "start_up more serves",
        "common start exits",
        "idle worker workers",
        "serving large",
        "some most",
        "large larger",
    ]


def test_a_section_is_known_by_its_name_without_parameters() -> None:
    done = follow("", Path(), NAMES)
    assert done.stderr == ""
    assert done.stdout.split() == [
        "_ZN6strata12SystemKernelC2Em",
        "malloc",
        "_ZN6strata5StartE*",
        "_ZN6strata12SystemKernelC2E*",
        "_ZN6strata4TakeEm",
        "_ZN6strata8PageRunsINS_12SystemKernelEE4GiveE*",
        "_ZN6strata12TransferCacheINS_5ListsELm1EE4SendE*",
        "_ZZN6strata5StartEvENUlPvE_4_FUNES0_",
    ]


# A small program is to have one window of the library's code in memory, or two. Where this fails,
# the list is stale: run scripts/start_up_order.py, or put the names into cmake/start_up_order.txt.
def test_what_a_small_program_runs_lies_together(library: Path) -> None:
    done = follow("", library, APART)
    assert done.stderr == ""
    windows, apart = done.stdout.splitlines()
    assert int(windows) <= 2, apart


def resident_in_cat(library: Path) -> dict[int, int]:
    """KiB of each segment of the library, by its address in the file's own count."""
    maps = subprocess.run(
        ["cat", "/proc/self/smaps"],
        env={"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    ranges = re.findall(
        r"^(\w+)-(\w+) r\S+ .*libstrata.*\n(?:\w+: .*\n)*?Rss: +(\d+) kB", maps, re.MULTILINE
    )
    base = int(ranges[0][0], 16)
    return {int(first, 16) - base: int(kib) for first, _, kib in ranges}


# The start's code, and the relocations, are in memory until the heap has grown. The relocations
# share their segment with the unwind tables, which a walk reads where a sample is drawn by chance.
def test_what_only_the_start_runs_leaves_memory(library: Path) -> None:
    table = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    once = {
        edge: int(at, 16)
        for at, edge in re.findall(r"^(\w+) [rt] strata_once_(begin|end)$", table, re.MULTILINE)
    }
    assert len(once) == 2, "the linker script names what only the start needs"
    for _ in range(20):
        resident = resident_in_cat(library)
        relocations = resident[max(at for at in resident if at <= once["begin"])]
        code = resident[max(at for at in resident if at < once["end"])]
        assert code == 0
        assert resident[0] > 0
        if relocations == 0:
            break
    assert relocations == 0


def test_each_file_that_the_order_names_is_there() -> None:
    """A section that goes by the name of a file that is gone is empty, and no linker says so."""
    root = SCRIPTS.parent
    order = (root / "cmake/StrataOrder.cmake").read_text()
    listed = re.search(r"set\(STRATA_READ_AT_START ([^)]*)\)", order)
    assert listed is not None
    names = [f"*{name}.cpp" for name in listed[1].split()]
    names += [f"*{name}" for name in re.findall(r"\*([\w/]+\.cpp)\.o\b", order)]
    assert len(names) > 10
    sources = [str(path.relative_to(root)) for path in (root / "src").rglob("*.cpp")]
    assert [name for name in names if not fnmatch.filter(("/" + s for s in sources), name)] == []


def test_what_is_large_begins_with_what_is_in_use(library: Path) -> None:
    large = {
        name
        for path in (SCRIPTS.parent / "src").rglob("*.cpp")
        for name in re.findall(r"\bSTRATA_LARGE [^;{]*?\b(g_\w+)", path.read_text())
    }
    table = subprocess.run(["nm", "-nC", library], capture_output=True, text=True, check=True)
    lie = re.findall(r" [bB] (?:.*::)?(g_\w+)$", table.stdout, re.MULTILINE)
    assert set(lie[-len(large) :]) == large
    assert lie[-len(large)] == "g_metadata"


def test_what_lacks_is_said_first(library: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPTS / "start_up_order.py", "--library", library],
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("not found ")
    assert "ab, redis-benchmark\n" in done.stderr
    assert done.stdout == ""
