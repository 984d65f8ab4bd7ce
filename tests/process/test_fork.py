"""fork at any moment from any thread, vfork, posix_spawn: both sides allocate on."""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import Lab, cases

HERE = Path(__file__).resolve().parent
STORM = HERE / "fork_storm.c"
FORKS_LESS = 1
MODES = pytest.mark.parametrize("mode", ["auto", "thread"])


@MODES
@pytest.mark.parametrize(
    ("forks", "threads", "max_size"),
    [(300, 4, 2000), (60, 8, 1 << 20)],
    ids=["small sizes", "large sizes"],
)
def test_fork_storm(lab: Lab, forks: int, threads: int, max_size: int, mode: str) -> None:
    program = lab.build(STORM)
    args = [str(forks // FORKS_LESS), str(threads), str(max_size)]
    lab.run(program, "storm", *args, env={"STRATA_CACHE": mode}, timeout=150).silent()


@pytest.mark.parametrize("case", ["every_thread_forks", "handlers_allocate", "generations"])
def test_fork(lab: Lab, case: str) -> None:
    lab.run(lab.build(STORM), case, timeout=150).silent()


def test_handlers_of_several_threads_fork(lab: Lab) -> None:
    """A deadlock shows as the alarm's signal; glibc's fork waits for its own malloc there."""
    lab.require_strata()
    lab.run(lab.build(STORM), "handlers_of_threads_fork", timeout=60).silent()


def test_fork_while_stats_are_rewritten(lab: Lab, tmp_path: Path) -> None:
    """The background thread is at work in the parent at each fork."""
    lab.require_strata()
    env = {"STRATA_STATS": str(tmp_path / "stats"), "STRATA_STATS_INTERVAL": "1"}
    lab.run(lab.build(STORM), "storm", "60", "3", "50000", env=env, timeout=150).silent()


def test_vfork_and_spawn(lab: Lab) -> None:
    lab.run(lab.build(HERE / "spawn_cases.c"), "spawn_from_threads").silent()


@MODES
@pytest.mark.parametrize("case", cases(HERE / "vfork_cases.c"))
def test_malloc_in_the_child_of_a_vfork(lab: Lab, case: str, mode: str) -> None:
    lab.run(lab.build(HERE / "vfork_cases.c"), case, env={"STRATA_CACHE": mode}).silent()


def test_children_of_posix_spawn_do_not_allocate(lab: Lab) -> None:
    """So they need none of what is done for vfork."""
    lab.run(lab.build(HERE / "spawn_own_malloc.c"), "children_do_not_allocate").silent()


def test_fork_while_others_flush_and_read(lab: Lab) -> None:
    """A deadlock shows as the time-out."""
    lab.run(lab.build(HERE / "fork_stdio.c"), "others_flush_and_read", timeout=150).silent()


def test_handlers_of_an_earlier_library(lab: Lab) -> None:
    """They run while the allocator holds its locks; a deadlock shows as the time-out."""
    library = lab.build(HERE / "early_handlers.c", "-shared", "-fPIC", name="libearly.so")
    link = (f"-Wl,-rpath,{library.parent}", "-Wl,--no-as-needed", str(library))
    program = lab.build(HERE / "fork_early.c", *link)
    lab.run(program, "early_handlers_allocate", timeout=100).silent()
