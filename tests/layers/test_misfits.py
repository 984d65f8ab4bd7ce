"""A layer that does not fit fails to compile, and the first error is one line that says why."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from blackbox import paired

ROOT = Path(__file__).resolve().parent.parent.parent
FLAGS = ["-std=c++20", "-Wall", "-Wextra", f"-I{ROOT}/include"]
MOST_ERRORS = 5  # the first says it; what follows from it stays on a screen

# A heap that aligns to 4 bytes, one that can't take a block back, a record with a destructor.
HELPERS = """
struct Aligned4 {
  static constexpr size_t alignment = 4;
  static constexpr bool thread_safe = false;
  void* allocate(size_t);
  void deallocate(void*, size_t);
};
struct Aligned8 : Aligned4 {
  static constexpr size_t alignment = 8;
};
struct OneWay {
  static constexpr size_t alignment = 16;
  static constexpr bool thread_safe = false;
  void* allocate(size_t);
};
struct Record {
  ~Record();
};
struct NoLayer {};
struct NoHeap {
  template <Heap Below>
  class On {};
};
"""

KEEPS_NOTHING = "PrivateHeaps: a block is freed into any of the heaps, so their layers must keep"
ONE_SIZE = "FreeList and Inbox hand out any block that they keep: put Fixed"

MISFITS = {
    "Stack<>": "a stack needs a source at least",
    "Stack<Bump<>, FreeList>": "a layer needs a heap below it",
    "Stack<FreeList>": "a layer needs a heap below it",
    "Stack<Bump<>, OneWay>": r"a source must be a heap: allocate\(size\), deallocate\(p, size\)",
    "Stack<Mmap, Bump<>, Mmap>": "all of a stack but the last must be layers",
    "Stack<NoLayer, Bump<>, Mmap>": "all of a stack but the last must be layers",
    "Stack<Bump<>, NoHeap, Mmap>": "the On of a layer must be a heap",
    "Stack<FreeList, Aligned4>": "FreeList needs a heap aligned to 8 bytes",
    "Stack<Inbox, Aligned4>": "Inbox needs a heap aligned to 8 bytes",
    "Stack<SizeHeader, Aligned4>": "SizeHeader needs a heap aligned to 8 bytes",
    "Stack<Header<Record>, Mmap>": "Header: a record without a destructor",
    "Stack<Header<__int128>, Bump<4096, 8>, Mmap>": "Header: .* aligns to less than the record",
    "Stack<Bins<int, FreeList>, Bump<>, Mmap>": "Bins: the first parameter must be size classes",
    "Stack<Bins<Steps<16, 64>, Mmap>, Bump<>, Mmap>": "all of a stack but the last",
    "Stack<Bins<PowersOfTwo<3, 96>, FreeList>, Bump<>, Mmap>": "PowersOfTwo: from one power of two",
    "Stack<Bins<Steps<16, 100>, FreeList>, Bump<>, Mmap>": "Steps: the largest must be a multiple",
    "Stack<Bins<Geometric<96>, FreeList>, Bump<>, Mmap>": "Geometric: a power of two",
    "Stack<Bins<TaggedSteps<96>, FreeList>, Coalesce<>, Mmap>": "TaggedSteps: 24, 40",
    "Stack<Bins<Steps<16, 256>, Check, FreeList>, Coalesce<>, Mmap>": "Bins: what keeps account",
    "Stack<ClassHeader, Bump<>, Mmap>": "ClassHeader needs Bins of free lists below it",
    "Stack<ClassHeader, Bins<Steps<16, 64>, Zeroed>, Bump<>, Mmap>": "ClassHeader needs Bins of",
    "Stack<OnlyLive, Bump<>, Mmap>": "OnlyLive needs a heap that knows which of its blocks",
    "Stack<DeferredPop, Bump<>, Mmap>": "DeferredPop needs a stack of objects, such as Obstack",
    "Stack<ClassHeader, Bins<Steps<16, 64>, FreeList>, Aligned8>": "ClassHeader needs blocks at",
    "Stack<ClassHeader, Bins<Steps<8, 8>, FreeList>, Bump<>, Mmap>": "ClassHeader: the last class",
    "Stack<Bump<>, Bump<4096, 8>, Mmap>": "Bump needs a heap aligned to 16 bytes",
    "Stack<Bump<4096, 4>, Mmap>": "Bump: blocks begin at or 8 bytes behind",
    "Stack<Obstack<>, Bump<4096, 8>, Mmap>": "Obstack needs a heap aligned to 16 bytes",
    "Stack<Listed, Bump<4096, 8>, Mmap>": "Listed needs a heap aligned to 16 bytes",
    "Stack<Coalesce<>, Bump<4096, 8>, Mmap>": "Coalesce needs a heap aligned to 16 bytes",
    "Stack<Coalesce<100>, Mmap>": "Coalesce: regions of whole pages",
    "Stack<Reap<>, Bump<4096, 8>, Mmap>": "Reap needs a heap aligned to 16 bytes",
    "Stack<Reap<100>, Mmap>": "Reap: chunks from one power of two",
    "Stack<Apart<65536, Mmap>, Bump<>, Mmap>": "Apart needs a heap with boundary tags",
    "Stack<Apart<65536, StaticBuffer<64>>, Coalesce<>, Mmap>": "Apart needs a source of whole",
    "Stack<Apart<65536, Bump<>>, Coalesce<>, Mmap>": "Apart: the second parameter must be a whole",
    "Stack<Nested, Fixed<8>, FreeList, Mmap>": "Nested needs a heap that can be cleared",
    "Stack<Fixed<64>, FreeList, Nested, Bump<>, Mmap>": "what is above Nested must keep nothing",
    "Stack<Fixed<64>, FreeList, TryFirst<Stack<Nested, Bump<8192>, Mmap>>, Mmap>": "what is above "
    "Nested must keep nothing",
    "Stack<Bins<Steps<16, 64>, FreeList, TryFirst<Stack<Nested, Bump<8192>, Mmap>>>, Mmap>": "what "
    "is above Nested must keep nothing",
    "Stack<Count, Bins<Steps<16, 64>, TryFirst<Stack<Nested, Bump<8192>, Mmap>>>, Mmap>": "what is "
    "above Nested must keep nothing",
    "Stack<Count, SplitAt<64, Nested, Bump<8192>>, Mmap>": "SplitAt: Nested goes above it",
    "Stack<Count, Nested, Bump<8192>, Mmap>": "what is above Nested must keep nothing",
    "Stack<Locked, Nested, Bump<8192>, Mmap>": "what is above Nested must keep nothing",
    "Stack<Count, Zeroed, Nested, Bump<8192>, Mmap>": "what is above Nested must keep nothing",
    "Stack<Count, Ref<Stack<Nested, Bump<8192>, Mmap>>>": "what is above Nested must keep nothing",
    "Stack<FreeList, Bump<>, Mmap>": ONE_SIZE,
    "Stack<Locked, BoundedFreeList<4>, Mmap>": ONE_SIZE,
    "Stack<Bins<Steps<16, 64>, FreeList>, FreeList, Bump<>, Mmap>": ONE_SIZE,
    "Stack<SplitAt<64, FreeList>, Bump<>, Mmap>": ONE_SIZE,
    "Stack<TryFirst<Stack<FreeList, StaticBuffer<64>>>, Mmap>": ONE_SIZE,
    "Stack<PrivateHeaps<2, CpuIndex, Locked, FreeList>, Locked, Mmap>": ONE_SIZE,
    "Stack<OwnedHeaps<2, CpuIndex, Locked, FreeList>, Locked, Mmap>": ONE_SIZE,
    "Stack<Inbox, Bump<>, Mmap>": ONE_SIZE,
    "Stack<Fixed<64>, Bump<>, FreeList, Mmap>": "Bump asks for chunks of many sizes: put Fixed",
    "Stack<Fixed<64>, Obstack<>, Inbox, Mmap>": "Obstack asks for chunks of many sizes: put Fixed",
    "Stack<Fixed<64>, Coalesce<>, FreeList, Mmap>": "Coalesce asks for regions of many sizes: put",
    "Stack<Fixed<64>, Reap<>, FreeList, Mmap>": "Reap asks for chunks of many sizes: put Fixed",
    "Stack<Fixed<64>, Hoard<>, Locked, FreeList, AlignedMmap<65536>>": "Hoard asks for runs of",
    "Stack<Count, PrivateHeaps<2, ThreadIndex, Nested, Bump<8192>>, Locked, Mmap>": "PrivateHeaps: "
    "Nested goes above it",
    "Stack<Fixed<0>, Mmap>": "Fixed: blocks of at least a byte",
    "Stack<GuardPages, Bump<>, Mmap>": "GuardPages needs a heap of whole pages",
    "Stack<BasicGuardPages<24>, Mmap>": "GuardPages: blocks are aligned to a power of two",
    "Stack<TryFirst<Mmap>, Mmap>": "TryFirst needs a whole heap that knows its own blocks",
    "Stack<PrivateHeaps<4, CpuIndex, Locked, FreeList>, Bump<>, Mmap>": "PrivateHeaps: the heap "
    "below is shared; it must lock",
    "Stack<PrivateHeaps<4, CpuIndex, FreeList>, Locked, Bump<>, Mmap>": "PrivateHeaps: put Locked",
    "Stack<PrivateHeaps<257, ThreadIndex, FreeList>, Locked, Bump<>, Mmap>": "PrivateHeaps: more "
    "heaps without a lock than its choice has numbers",
    "Stack<PrivateHeaps<4, int, Locked, FreeList>, Locked, Bump<>, Mmap>": "must choose a heap",
    "Stack<PrivateHeaps<2, CpuIndex, Locked, Coalesce<4096>>, Locked, Mmap>": KEEPS_NOTHING,
    "Stack<PrivateHeaps<2, CpuIndex, Locked, Bins<Steps<16, 64>, FreeList>, Coalesce<>>, "
    "Locked, Mmap>": KEEPS_NOTHING,
    "Stack<PrivateHeaps<2, CpuIndex, Locked, SplitAt<64, Reap<>>>, Locked, Mmap>": KEEPS_NOTHING,
    "Stack<PrivateHeaps<2, CpuIndex, Locked, Reap<>>, Locked, Mmap>": KEEPS_NOTHING,
    "Stack<PrivateHeaps<2, CpuIndex, Locked, Obstack<>>, Locked, Mmap>": KEEPS_NOTHING,
    "Stack<PrivateHeaps<2, CpuIndex, Locked, Listed>, Locked, Mmap>": KEEPS_NOTHING,
    "Stack<PrivateHeaps<2, CpuIndex, Locked, Check, FreeList>, Locked, Mmap>": KEEPS_NOTHING,
    "Stack<PrivateHeaps<2, CpuIndex, Locked, Count, FreeList>, Locked, Mmap>": KEEPS_NOTHING,
    "Stack<PrivateHeaps<2, CpuIndex, Locked, TryFirst<StaticBuffer<64>>>, Locked, "
    "Mmap>": KEEPS_NOTHING,
    "Stack<OwnedHeaps<4, CpuIndex, FreeList>, Locked, Bump<>, Mmap>": "put Locked on top of its",
    "Stack<Hoard<>, Mmap>": "Hoard needs runs aligned to its superblocks",
    "Stack<ThreadBuffers<>, Bump<>, Mmap>": "ThreadBuffers needs a Hoard below it",
    "Stack<LockedBy<int>, Mmap>": r"LockedBy: a lock is what has lock\(\) and unlock\(\)",
    "Stack<StaticBuffer<7>>": "StaticBuffer: a multiple of 16",
    "Allocator<int, internal::StackOf<FreeList, Mmap>::type>": "Allocator: containers ask for any",
    "Resource<internal::StackOf<FreeList, Mmap>::type>": "Resource: containers ask for any size",
    "Stack<Nested, Upstream>": "Nested needs a heap that can be cleared",
    "Stack<Hoard<>, Malloc>": "Hoard needs runs aligned to its superblocks",
    "Stack<PrivateHeaps<2, ThreadIndex, Capped<4096>, FreeList>, Locked, Mmap>": KEEPS_NOTHING,
    "PerClass<Record, FreeList, Mmap>": "PerClass: .* put Locked on top",
    # what the language itself finds
    "Stack<Bumb<>, Mmap>": "Bumb",
    "Stack<Bins, Mmap>": "mismatch at argument 1|template template argument|requires template",
}

# A heap that fits, used as it cannot be.
MISUSES = {
    "auto& count = layer<Count>(heap)": "layer: the heap has no such layer",
    "auto& first = layer<Bump<4096>>(heap)": "layer: the heap has no such layer",
    "Resource<H> words(heap)": "Resource has its heap in it; for one elsewhere write Resource",
}

COMPILERS = ("g++", "clang++-19")


def is_tried(item: pytest.Function) -> bool:
    """Each misfit is told by one of both compilers."""
    params = item.callspec.params
    heap = params.get("heap")
    if not isinstance(heap, str) or heap not in MISFITS:
        return True
    return paired([*MISFITS].index(heap) + COMPILERS.index(params["compiler"]))


class Compiler:
    """One that has read all headers once."""

    def __init__(self, name: str, work: Path) -> None:
        self.name, self.work = name, work
        self.header = work / "all.h"
        self.header.write_text("#pragma once\n#include <strata/layers.h>\n")
        made = work / ("all.h.gch" if "clang" not in name else "all.h.pch")
        command = [name, *FLAGS, "-x", "c++-header", str(self.header), "-o", str(made)]
        subprocess.run(command, check=True, timeout=120)
        self.include = ["-include-pch" if "clang" in name else "-include", str(made)]
        if "clang" not in name:
            self.include[1] = str(self.header)

    def says(self, heap: str, use: str = "") -> str:
        source = self.work / "misfit.cpp"
        source.write_text(
            f"using namespace strata::layers;\n{HELPERS}\nusing H = {heap};\n"
            f"void* Use(H& heap) {{ {use}; return heap.allocate(8); }}\n"
        )
        done = subprocess.run(
            [self.name, *FLAGS, "-fsyntax-only", *self.include, str(source)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.stderr


@pytest.fixture(scope="module", params=COMPILERS)
def compiler(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(request.param, tmp_path_factory.mktemp("misfits"))


@pytest.mark.parametrize(
    "heap",
    [
        "Stack<Bump<>, Mmap>",
        # what stands alone may be private; with owners all may
        "Stack<PrivateHeaps<2, CpuIndex, Locked, Bins<Steps<16, 64>, FreeList>, Bump<>>, "
        "Locked, Mmap>",
        "Stack<PrivateHeaps<2, CpuIndex, Locked, ClassHeader, Bins<Steps<16, 64>, "
        "BoundedFreeList<9>>, Bump<4096, 8>>, Locked, Mmap>",
        "Stack<PrivateHeaps<2, CpuIndex, LockedWhenShared, Zeroed, Log, SizeHeader, Header<long>, "
        "SplitAt<64, Fixed<64>, FreeList>, GuardPages>, "
        "Mmap>",
        "Stack<OwnedHeaps<2, CpuIndex, Locked, Check, Coalesce<>>, Mmap>",
        # what keeps nothing may stand above Nested, and one size comes from Fixed
        "Stack<Zeroed, Nested, Bump<8192>, Mmap>",
        "Stack<Locked, Fixed<64>, FreeList, Bump<>, Mmap>",
        "Stack<Fixed<64>, PrivateHeaps<2, CpuIndex, Locked, FreeList>, Locked, Mmap>",
        "Stack<OwnedHeaps<2, CpuIndex, Locked, Reap<>>, Mmap>",
        # a heap that is one thread's needs no lock
        "Stack<PrivateHeaps<64, ThreadIndex, Bins<Steps<16, 64>, FreeList>>, Locked, Mmap>",
        "Stack<Capped<65536>, Coalesce<>, Malloc>",
        "Stack<Locked, SizeHeader, Bump<>, Upstream>",
    ],
)
def test_what_fits_compiles(compiler: Compiler, heap: str) -> None:
    assert compiler.says(heap) == ""


@pytest.mark.parametrize("heap", MISFITS)
def test_a_misfit_is_told_in_one_line(compiler: Compiler, heap: str) -> None:
    said = compiler.says(heap)
    errors = [line for line in said.splitlines() if re.search(r"\berror: ", line)]
    assert errors, f"{heap} compiles"
    assert re.search(MISFITS[heap], errors[0]), said
    assert len(errors) <= MOST_ERRORS, said
    if heap not in ("Stack<Bumb<>, Mmap>", "Stack<Bins, Mmap>"):
        assert re.search(r"error: static assertion failed", errors[0]), said


@pytest.mark.parametrize("use", MISUSES)
def test_a_misuse_is_told_first(compiler: Compiler, use: str) -> None:
    said = compiler.says("Stack<Bump<>, Mmap>", use)
    errors = [line for line in said.splitlines() if re.search(r"\berror: ", line)]
    assert errors, f"{use} compiles"
    assert re.search(MISUSES[use], errors[0]), said
    assert len(errors) <= MOST_ERRORS, said
