"""The edges of malloc, limits, threads, signals and forks on the composed heaps: the tests of
tests/edge and tests/process, in another lab."""

from __future__ import annotations

import heap_lab
import pytest
from heap_lab import module_of

api = module_of("edge", "api")
hardship = module_of("edge", "hardship")
new = module_of("edge", "new")
fork = module_of("process", "fork")
threads = module_of("process", "threads")

# They take nine tenths of the time.
DEAR = (
    "test_fork_storm[60]",
    "test_fork_storm[300]",
    "test_fork_case[every_thread_forks]",
    "test_fork_while_others_flush",
    "test_api_case[calloc_zeroes_recycled]",
    "test_api_case[realloc_large_neighbours]",
    "test_api_case[realloc_grows_and_shrinks]",
    "test_api_case[realloc_shrink_gives_back]",
    "test_api_case[realloc_jumps]",
    "test_api_case[realloc_zero_frees]",
    "test_api_case[usable_size]",
    "test_alignment[wide_alignment_is_recycled]",
    "test_data_limit",
    "test_at_the_limit[threads_at_the_limit]",
    "test_at_the_limit[small_blocks_run_dry]",
    "test_limit_set_by_the_program",
    "test_threads_that_exit",
    "test_threads_case[hand_over]",
)


def is_tried(item: pytest.Function) -> bool:
    return heap_lab.tried(item, DEAR, of=3)


lab = heap_lab.lab
promised = heap_lab.promised


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """An obstack keeps all that the threads of a storm churn through, and each fork copies it.
    ROUNDS: most of what a round at the limit costs Hoard and LLAMA is zeroed hugepages."""
    monkeypatch.setattr(threads, "STORM_MILLISECONDS", 500)
    monkeypatch.setattr(fork, "FORKS_LESS", 3)
    monkeypatch.setattr(hardship, "ROUNDS", 600)


test_api_case = api.test_api
test_alignment = api.test_alignment
test_info = api.test_info
test_new_case = new.test_new
test_handler_that_frees = new.test_handler_that_frees_memory_lets_new_succeed
test_data_limit = hardship.test_data_limit
test_at_the_limit = hardship.test_at_the_limit
test_limit_set_by_the_program = hardship.test_limit_set_by_the_program

test_fork_storm = fork.test_fork_storm
test_fork_case = fork.test_fork
test_early_handlers = fork.test_handlers_of_an_earlier_library
test_vfork_and_spawn = fork.test_vfork_and_spawn
test_fork_while_others_flush = fork.test_fork_while_others_flush_and_read
test_threads_case = threads.test_threads
test_threads_that_exit = threads.test_threads_that_exit_with_full_caches
test_signal_storm = threads.test_signal_storm
