"""A process on glibc's malloc that loads the library at run time and calls it by name.

Run by test_dlopen.py with the library's path and the flag (local or global) as arguments; it prints
nothing and ends with status 0 when all is well.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading


def load(path: str, mode: int) -> ctypes.CDLL:
    library = ctypes.CDLL(path, mode=mode)
    library.malloc.restype = ctypes.c_void_p
    library.malloc.argtypes = [ctypes.c_size_t]
    library.realloc.restype = ctypes.c_void_p
    library.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.free.restype = None
    library.free.argtypes = [ctypes.c_void_p]
    library.malloc_usable_size.restype = ctypes.c_size_t
    library.malloc_usable_size.argtypes = [ctypes.c_void_p]
    return library


def exercise(library: ctypes.CDLL, seed: int) -> None:
    held: dict[int, tuple[int, int]] = {}
    for step in range(3000):
        size = (step * 7919 + seed) % 40_000 + 1
        block = library.malloc(size)
        assert block, size
        assert library.malloc_usable_size(block) >= size
        ctypes.memset(block, step % 251, size)
        if step % 3 == 0:
            block = library.realloc(block, size * 2)
            assert block, size
        old = held.pop(step % 100, None)
        if old is not None:
            assert ctypes.string_at(old[0], 1)[0] == old[1] % 251
            library.free(old[0])
        held[step % 100] = (block, step)
    for block, _ in held.values():
        library.free(block)


def own_interface(library: ctypes.CDLL) -> None:
    library.strata_version.restype = ctypes.c_char_p
    library.strata_cache_mode.restype = ctypes.c_char_p
    library.strata_stats_json.restype = ctypes.c_size_t
    library.strata_release.restype = ctypes.c_size_t
    library.strata_release.argtypes = [ctypes.c_size_t]
    assert library.strata_version()
    assert library.strata_cache_mode().startswith(b"per-")
    length = library.strata_stats_json(None, ctypes.c_size_t(0))
    buffer = ctypes.create_string_buffer(length + 4096)
    assert library.strata_stats_json(buffer, ctypes.c_size_t(len(buffer))) > 0
    assert b'"bytes"' in buffer.value
    library.strata_release(1 << 30)


def main() -> None:
    path, flag = sys.argv[1:3]
    mode = ctypes.RTLD_GLOBAL if flag == "global" else ctypes.RTLD_LOCAL
    early = [threading.Thread(target=gate.wait) for _ in range(4)]
    for thread in early:
        thread.start()
    library = load(path, mode)
    threads = [threading.Thread(target=exercise, args=(library, seed)) for seed in range(4)]
    for thread in threads:
        thread.start()
    exercise(library, 99)
    for thread in threads:
        thread.join()
    gate.set()
    for thread in early:
        thread.join()
    if hasattr(library, "strata_version"):
        own_interface(library)
    child = os.fork()
    if child == 0:
        exercise(library, 5)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    # Modules that come later link against whatever is global now.
    import decimal
    import json
    import sqlite3

    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table t (a, b)")
        connection.executemany("insert into t values (?, ?)", [(i, "x" * i) for i in range(999)])
        assert connection.execute("select sum(a) from t").fetchone() == (498501,)
    assert json.loads(json.dumps({"a": [1, 2, 3]})) == {"a": [1, 2, 3]}
    assert decimal.Decimal(1) / 3 != 0
    again = ctypes.CDLL(path, mode=mode)
    assert again.malloc


gate = threading.Event()
if __name__ == "__main__":
    main()
