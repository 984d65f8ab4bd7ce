"""The composed heaps run what Strata's own library runs: the tests of tests/preload, tests/edge and
tests/process themselves, with another library in their lab."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest
from blackbox import HEAPS, TESTS, Lab, find_library, heap_library

sys.path += [str(TESTS / folder) for folder in ("preload", "edge", "process")]
(
    test_api,
    test_fork,
    test_gxx,
    test_hardship,
    test_memcached,
    test_new,
    test_python,
    test_redis,
    test_sqlite,
    test_threads,
) = (
    import_module(f"test_{name}")
    for name in "api fork gxx hardship memcached new python redis sqlite threads".split()
)

STRICT = "nothing is split, joined or given back: small blocks never serve a larger request"
MAPPED = "its page heap keeps address space that it has mapped; 64 MiB more do not fit beside it"
# What a heap does not promise, by what it is.
NOT_PROMISED = {
    "hoard": {
        "test_address_space_limit[128]": MAPPED,
        "test_data_limit": MAPPED,
    },
    "kingsley": {
        "test_address_space_limit": STRICT,
        "test_data_limit": STRICT,
        "test_at_the_limit[small_blocks_run_dry]": STRICT,
    },
}
# glibc's own answer about glibc's own heap, which the composed heaps leave alone.
GLIBC_ANSWERS = {"mallinfo_follows", "malloc_trim_gives_back"}


@pytest.fixture(params=HEAPS, scope="module")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    named = os.environ.get("STRATA_BUILD_DIR")
    build = Path(named) / "blackbox" if named else tmp_path_factory.mktemp("blackbox")
    own = Lab(find_library(), build)
    return Lab(heap_library(own, request.param), build)


@pytest.fixture(autouse=True)
def promised(request: pytest.FixtureRequest) -> None:
    """Leaves out what the heap is known not to do, and the second run of tests in two modes."""
    heap = request.node.callspec.params["lab"]
    given = {str(value) for value in request.node.callspec.params.values()} - {heap}
    if "thread" in given:
        pytest.skip("one mode is enough: these heaps have no cache to choose")
    if given & GLIBC_ANSWERS:
        pytest.skip("glibc answers for its own heap")
    name = request.node.originalname
    for left_out, why in NOT_PROMISED.get(heap, {}).items():
        function, _, case = left_out.rstrip("]").partition("[")
        if name == function and (not case or case in given):
            pytest.skip(why)


@pytest.fixture(autouse=True)
def quick_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of Python's test modules: threads, and processes that fork while there are some."""
    monkeypatch.setattr(test_python, "MODULES", ("test_threading", "test_thread"))


test_redis_data = test_redis.test_data_matches_a_model
test_redis_big_values = test_redis.test_big_values
test_memcached_data = test_memcached.test_data_matches_a_model
test_sqlite_database = test_sqlite.test_database_is_whole
test_python_modules = test_python.test_own_test_modules
test_gxx_object = test_gxx.test_object_is_identical

test_api_case = test_api.test_api
test_alignment = test_api.test_alignment
test_info = test_api.test_info
test_new_case = test_new.test_new
test_handler_that_frees = test_new.test_handler_that_frees_memory_lets_new_succeed
test_address_space_limit = test_hardship.test_address_space_limit
test_data_limit = test_hardship.test_data_limit
test_at_the_limit = test_hardship.test_at_the_limit
test_limit_set_by_the_program = test_hardship.test_limit_set_by_the_program

test_fork_storm = test_fork.test_fork_storm
test_fork_case = test_fork.test_fork
test_early_handlers = test_fork.test_handlers_of_an_earlier_library
test_vfork_and_spawn = test_fork.test_vfork_and_spawn
test_fork_while_others_flush = test_fork.test_fork_while_others_flush_and_read
test_threads_case = test_threads.test_threads
test_threads_that_exit = test_threads.test_threads_that_exit_with_full_caches
test_signal_storm = test_threads.test_signal_storm
