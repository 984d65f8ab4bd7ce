"""What the tests of tests/preload, tests/edge and tests/process need to run on the composed heaps:
a lab for each of them, and what each heap does not promise. Test files name the fixtures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

import pytest
from blackbox import HEAPS, TESTS, Lab, find_library, heap_library, helpers, paired

STRICT = "nothing is split, joined or given back: small blocks never serve a larger request"
NESTED = "what is freed waits for all that lies above it: with threads there is always something"
LEARNS = "its predictions are still changing a fifth into the run; test_llama.py runs it longer"
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
    "llama": {"test_threads_that_exit": LEARNS},
    "obstack": {"test_threads_that_exit": NESTED},
}
# glibc's own answer about glibc's own heap, which the composed heaps leave alone.
GLIBC_ANSWERS = {"mallinfo_follows", "mallinfo_counts_every_block", "malloc_trim_gives_back"}


def module_of(area: str, name: str) -> ModuleType:
    """The module tests/AREA/test_NAME.py."""
    folder = str(TESTS / area)
    if folder not in sys.path:
        sys.path.append(folder)
    return import_module(f"test_{name}")


@pytest.fixture(params=HEAPS, scope="module")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    build = helpers(tmp_path_factory)
    own = Lab(find_library(), build)
    return Lab(heap_library(own, request.param), build)


def is_one_of(name: str, case: set[str], names: Sequence[str]) -> int | None:
    """The place of a test in a list of names, which may name a case: test_x[case]."""
    for number, wanted in enumerate(names):
        function, _, one = wanted.rstrip("]").partition("[")
        if name == function and (not one or one in case):
            return number
    return None


def tried(item: pytest.Function, names: Sequence[str], of: int) -> bool:
    """Whether a heap runs one of the dear tests: each runs on one of so many heaps in a row, and
    no two heaps share all of theirs."""
    heap = item.callspec.params["lab"]
    case = {str(value) for value in item.callspec.params.values()} - {heap}
    number = is_one_of(item.originalname, case, names)
    if number is None:
        return True
    turn = HEAPS.index(heap)
    return paired(number + turn + number // of * (turn // of), of)


@pytest.fixture(autouse=True)
def promised(request: pytest.FixtureRequest) -> None:
    """Leaves out what the heap is known not to do, and the second run of tests in two modes."""
    heap = request.node.callspec.params["lab"]
    given = {str(value) for value in request.node.callspec.params.values()} - {heap}
    if "thread" in given:
        pytest.skip("one mode is enough: these heaps have no cache to choose")
    if given & GLIBC_ANSWERS:
        pytest.skip("glibc answers for its own heap")
    for left_out, why in NOT_PROMISED.get(heap, {}).items():
        if is_one_of(request.node.originalname, given, [left_out]) is not None:
            pytest.skip(why)
