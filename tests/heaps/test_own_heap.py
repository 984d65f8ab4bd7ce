"""A heap of one's own as a process's malloc: the file and the command of docs/heaps.md."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, paired
from strata.trace.analyze import live_bytes, objects
from strata.trace.read import read_trace

PAGE = (ROOT / "docs/heaps.md").read_text()
PROGRAM = """
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void* Work(void* size) {
  for (int i = 0; i < 10000; ++i) free(realloc(malloc((size_t)size), 2 * (size_t)size));
  return NULL;
}
int main(void) {
  pthread_t threads[4];
  for (size_t t = 0; t < 4; ++t) pthread_create(&threads[t], NULL, Work, (void*)(1000 + t));
  const int child = fork();
  for (int i = 0; child == 0 && i < 10000; ++i) free(malloc(7777));
  if (child == 0) exit(0);
  int status;
  waitpid(child, &status, 0);
  for (size_t t = 0; t < 4; ++t) pthread_join(threads[t], NULL);
  void* aligned;
  if (posix_memalign(&aligned, 4096, 5000) != 0 || (size_t)aligned % 4096 != 0) return 1;
  free(aligned);
  return status;
}
"""


def command(compiler: str, source: Path, output: Path) -> list[str]:
    """The page's, with these files in the place of its own."""
    found = re.search(r"^    (g\+\+ .*?libmine\.so)$", PAGE, re.M | re.S)
    assert found is not None
    words = found[1].replace("\\\n", " ").split()
    assert words[0] == "g++"
    words[0] = compiler
    names = {"mine.cpp": [str(source)], "libmine.so": [str(output)]}
    names["src/heaps/preload/*.cpp"] = [str(p) for p in (ROOT / "src/heaps/preload").glob("*.cpp")]
    return [name for word in words for name in names.get(word, [word])]


COMPILERS = ("g++", "clang++-19")


def is_tried(item: pytest.Function) -> bool:
    """Each message comes from one of both compilers."""
    params = item.callspec.params
    if "message" not in params:
        return True
    return paired(len(str(params["heap"])) + COMPILERS.index(params["compiler"]))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_heap_of_the_page(tmp_path: Path, compiler: str) -> None:
    program = re.search(r"```cpp\n(.*?)```", PAGE, re.S)
    assert program is not None
    source, library = tmp_path / "mine.cpp", tmp_path / "libmine.so"
    source.write_text(program[1])
    subprocess.run(command(compiler, source, library), cwd=ROOT, check=True, timeout=120)
    (tmp_path / "p.c").write_text(PROGRAM)
    built = tmp_path / "p"
    subprocess.run(["gcc", "-O0", str(tmp_path / "p.c"), "-o", str(built), "-pthread"], check=True)
    env = {"LD_PRELOAD": str(library), "MINE_TRACE": str(tmp_path / "t"), "MINE_REPORT": "1"}
    done = subprocess.run(
        [built], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "call site" in done.stderr
    of_child, counted = re.findall(r"^(\d+) blocks, (\d+) bytes at most$", done.stderr, re.M)
    assert int(of_child[0]) >= 10_000
    assert int(counted[0]) >= 80_000
    traces = list(tmp_path.glob("t.*"))
    assert len(traces) == 1, "the forked child opens none of its own"
    recorded = read_trace(traces[0])
    assert recorded.damage is None, "the child wrote to its parent's file"
    assert recorded.totals is not None
    table = objects(recorded)
    for size in (1000, 1001, 1002, 1003, 2000, 2002, 2004, 2006):
        blocks = table.filter(table["size"] == size)
        assert len(blocks) == 10_000
        assert blocks["died"].null_count() == 0
    assert table.filter(table["size"] == 7777).is_empty(), "the child's are not the parent's"
    assert 0 <= int(live_bytes(recorded).max()) <= int(counted[1])


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("heap", "message"),
    [
        ("Stack<SizeHeader, Bump<>, Mmap>", "put Locked or LockedWhenShared on top"),
        ("Stack<Locked, Bump<>, Mmap>", "put SizeHeader or ClassHeader below the lock"),
        ("Stack<Locked, Header<long>, Listed, Mmap>", "Front needs a heap that aligns"),
        ("Stack<Locked, SizeHeader, Bump<4096, 8>, Mmap>", "blocks aligned to 16 bytes"),
    ],
)
def test_what_is_no_malloc_is_told_in_one_line(
    tmp_path: Path, compiler: str, heap: str, message: str
) -> None:
    source = tmp_path / "mine.cpp"
    source.write_text(
        f"""#include <strata/layers.h>
#include "heaps/preload/front.h"
using namespace strata::layers;
using Front = strata::preload::Front<{heap}>;
void* Use() {{ return Front::Allocate(8); }}
"""
    )
    words = [compiler, "-std=c++20", "-fsyntax-only", "-Isrc", "-Iinclude", str(source)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    errors = [line for line in done.stderr.splitlines() if "error: " in line]
    assert errors, f"{heap} compiles"
    assert "static assertion failed" in errors[0], done.stderr
    assert message in errors[0], done.stderr
