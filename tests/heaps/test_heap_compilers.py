"""Python or g++, and a Rust program, on the composed heaps: the tests of tests/preload, in another
lab and somewhat shorter."""

from __future__ import annotations

import heap_lab
import pytest
from heap_lab import module_of

gxx = module_of("preload", "gxx")
python = module_of("preload", "python")
rust = module_of("preload", "rust")

PROGRAMS = ("test_gxx_object", "test_rust_result", "test_python_modules")
# They run Python, which has threads; the others run g++.
PYTHON = ("hoard", "llama", "kingsley")


def is_tried(item: pytest.Function) -> bool:
    return heap_lab.tried(item, PROGRAMS, of=3)


lab = heap_lab.lab


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads, and processes that fork while there are some; fewer rounds of churn, all of which
    an obstack keeps."""
    monkeypatch.setattr(python, "MODULES", ("test_threading", "test_thread"))
    monkeypatch.setattr(gxx, "PARTS", 5)
    monkeypatch.setattr(rust, "ROUNDS", 1)


@pytest.fixture(autouse=True)
def one_of_two(request: pytest.FixtureRequest) -> None:
    heap, test = request.node.callspec.params["lab"], request.node.originalname
    other = "test_gxx_object" if heap in PYTHON else "test_python_modules"
    if test == other:
        pytest.skip("another heap runs it")


test_python_modules = python.test_own_test_modules
test_gxx_object = gxx.test_object_is_identical
test_rust_result = rust.test_rust_program
