"""What libstrata.so shows to the world: its exported names, its needs, its TLS, its flags.

The names must equal tests/golden/exports.txt exactly; `make golden` rewrites it.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIB = Path(os.environ.get("STRATA_LIB", HERE.parent.parent / "build/lib/libstrata.so"))
GOLDEN = HERE / "exports.txt"
ELF_CODE = HERE.parent.parent / "src/profile/unwind/elf_code.h"
TLS_LIMIT = 64  # design rule: every dlopen of the library takes this from glibc's spare static TLS


def tool(*command: str) -> str:
    """What a binutils command says about the library."""
    command = (*command, str(LIB))
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def dynamic(tag: str) -> list[str]:
    """The values of one tag of the dynamic section."""
    return re.findall(rf"\({tag}\)\s+(.+)", tool("readelf", "-dW"))


def test_exports_equal_golden() -> None:
    listing = tool("nm", "-D", "--defined-only", "--format=posix").splitlines()
    found = "".join(f"{name}\n" for name in sorted(line.split()[0] for line in listing))
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text(), "if this is meant, run `make golden` and commit its diff"


def test_golden_holds_the_whole_api() -> None:
    """A rewritten golden may gain names, but not lose one that programs call."""
    names = set(GOLDEN.read_text().split())
    c_api = (
        "malloc free calloc realloc posix_memalign aligned_alloc memalign valloc pvalloc cfree "
        "malloc_usable_size reallocarray free_sized free_aligned_sized malloc_trim mallinfo "
        "mallinfo2 mallopt malloc_info malloc_stats __libc_malloc __libc_free "
        "__libc_calloc __libc_realloc __libc_memalign __libc_valloc __libc_pvalloc __libc_cfree "
        "__posix_memalign strata_stats strata_stats_json strata_release strata_version "
        "strata_cache_mode"
    )
    placements = ("", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t")
    sized = ("m", "mSt11align_val_t")
    news = {f"_Zn{kind}m{placement}" for kind in "wa" for placement in placements}
    deletes = {f"_Zd{kind}Pv{tail}" for kind in "la" for tail in (*placements, *sized)}
    assert len(news | deletes) == 20
    assert (set(c_api.split()) | news | deletes) - names == set()


def test_every_exported_function_is_code() -> None:
    """A version script with a stray name could export data that nobody meant."""
    listing = tool("nm", "-D", "--defined-only", "--format=posix").splitlines()
    data = {line.split()[0] for line in listing if line.split()[1] not in "TtWi"}
    hooks = {"__malloc_hook", "__free_hook", "__realloc_hook", "__memalign_hook"}
    assert data - hooks == {"strata_reap_layout_1"}  # programs that reach into handles need it


def test_needs_only_libc() -> None:
    needed = {re.sub(r".*\[(.+)\]", r"\1", value) for value in dynamic("NEEDED")}
    assert needed - {"ld-linux-x86-64.so.2"} == {"libc.so.6"}


def test_soname_and_binding() -> None:
    assert dynamic("SONAME") == ["Library soname: [libstrata.so.0]"]
    flags = " ".join(dynamic("FLAGS") + dynamic("FLAGS_1"))
    assert "NOW" in flags
    assert "NODELETE" in flags
    assert not dynamic("TEXTREL")
    assert not dynamic("RPATH") + dynamic("RUNPATH")
    assert "GNU_RELRO" in tool("readelf", "-lW")
    assert re.search(r"GNU_STACK.* RW ", tool("readelf", "-lW"))


def test_undefined_names_are_versioned_or_weak() -> None:
    """A strong name without a version is one that no library was found for at link time."""
    listing = tool("nm", "-D", "--undefined-only").splitlines()
    strong = [line.split()[-1] for line in listing if line.split()[-2] == "U"]
    assert strong, "an allocator that calls nothing of libc was not disassembled"
    assert [name for name in strong if "@" not in name] == []


def test_needs_no_newer_glibc_than_the_docs_say() -> None:
    """The linker refuses a library for a missing version, even of a weak name."""
    found = re.findall(r"Name: GLIBC_2\.(\d+)", tool("readelf", "-VW"))
    assert max(map(int, found)) <= 34


def test_never_calls_what_allocates() -> None:
    """Functions of libc that call malloc have no place in it (fprintf is malloc_info's)."""
    undefined = {
        line.split()[-1].split("@")[0] for line in tool("nm", "-D", "--undefined-only").splitlines()
    }
    allocating = (
        "fopen fdopen opendir getline asprintf vasprintf printf puts setvbuf "
        "qsort getcwd realpath strdup __tls_get_addr "
        "__cxa_thread_atexit_impl"
    )
    assert undefined & set(allocating.split()) == set()


def test_tls_is_small_and_static() -> None:
    segments = re.findall(r"^\s*TLS\s+\S+ \S+ \S+ \S+ (\S+)", tool("readelf", "-lW"), re.MULTILINE)
    assert len(segments) <= 1
    assert sum(int(size, 16) for size in segments) <= TLS_LIMIT


def test_stacks_reach_all_of_its_code() -> None:
    """The unwinder leaves out the executable segments of a file beyond so many."""
    most = re.search(r"kMaxRanges = (\d+);", ELF_CODE.read_text())
    assert most is not None
    loaded = [line for line in tool("readelf", "-lW").splitlines() if line.split()[:1] == ["LOAD"]]
    executable = [line for line in loaded if "E" in line.split()[6:-1]]
    assert 0 < len(executable) <= int(most[1])
