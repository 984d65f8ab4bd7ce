"""RTLD_DEEPBIND does not split malloc from free: plugins loaded so, and the caller's RUNPATH."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from blackbox import HEAPS, Lab, heap_library, need

HERE = Path(__file__).resolve().parent
SAID = "strata: RTLD_DEEPBIND is left out of a load"


@pytest.fixture(scope="module")
def plugin(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin, and in another folder, which only its own RUNPATH names, its friend."""
    folder = tmp_path_factory.mktemp("deep")
    (folder / "friends").mkdir()
    source = HERE / "deep_plugin.c"
    shared = ("-shared", "-fPIC")
    friend = lab.build(source, *shared, "-DFRIEND", name="libdeep_friend")
    shutil.copy(friend, folder / "friends" / "libdeep_friend.so")
    run_path = ("-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/friends")
    shutil.copy(lab.build(source, *shared, *run_path, name="libdeep_plugin"), folder / "plugin.so")
    return folder / "plugin.so"


@pytest.mark.parametrize("way", ["dlopen", "dlmopen", "namespace"])
def test_blocks_pass_both_ways(lab: Lab, plugin: Path, way: str) -> None:
    host = lab.build(HERE / "deep_host.c")
    assert lab.run(host, plugin, way).ok().stdout == "friend\ndone\n"


def test_said_once_when_verbose(lab: Lab, plugin: Path) -> None:
    lab.require_strata()
    host = lab.build(HERE / "deep_host.c")
    result = lab.run(host, plugin, "dlopen", env={"STRATA_VERBOSE": "1"})
    assert result.returncode == 0, result.explain()
    assert [line.startswith(SAID) for line in result.strata_lines()].count(True) == 1


@pytest.mark.parametrize("heap", HEAPS)
def test_every_heap(lab: Lab, plugin: Path, heap: str) -> None:
    library = str(heap_library(lab, heap))
    host = lab.build(HERE / "deep_host.c")
    result = lab.run(host, plugin, "dlopen", env={"LD_PRELOAD": library})
    assert result.ok().stdout == "friend\ndone\n"


@pytest.mark.parametrize("flags", [(), ("-static",)], ids=["dynamic", "static"])
def test_linked_archive(lab: Lab, plugin: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """In a program that holds the archive, dlopen is the archive's too."""
    archive = lab.require_strata().with_name("libstrata.a")
    host = tmp_path / "host"
    source = (HERE / "deep_host.c", archive)
    subprocess.run([need("gcc"), "-w", "-pthread", *flags, "-o", host, *source], check=True)
    # In a static program the plugin has a libc, and a malloc, of its own.
    way, expected = ("whose", "plugin\n") if flags else ("dlopen", "friend\ndone\n")
    assert lab.run(host, plugin, way, preload=False).ok().stdout == expected


def test_passes_untouched_where_malloc_is_the_programs(lab: Lab, plugin: Path) -> None:
    host = lab.build(HERE / "deep_host.c", "-rdynamic", "-DOWN_MALLOC", name="deep_host_own")
    assert lab.run(host, plugin, "whose").ok().stdout == "plugin\n"


def test_passes_untouched_when_stood_down(lab: Lab, plugin: Path) -> None:
    """Beside a sanitizer every call goes to it, and deep loads are as deep as without us."""
    lab.require_strata()
    flags = ("-rdynamic",)
    host = lab.build(HERE / "deep_host.c", *flags, name="deep_host_exports")
    assert lab.run(host, plugin, "whose", preload=False).ok().stdout == "plugin\n"
    assert lab.run(host, plugin, "whose").ok().stdout == "host\n"
    checked = lab.build(HERE / "deep_host.c", *flags, "-fsanitize=leak", name="deep_host_lsan")
    result = lab.run(checked, plugin, "whose", env={"LSAN_OPTIONS": "detect_leaks=0"})
    assert result.ok().stdout == "plugin\n"
