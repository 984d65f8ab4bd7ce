"""The edge table: what each function of the malloc API does with odd arguments.

The rows are the cases of the helper programs; all of them hold for glibc 2.36 (STRATA_LIB=none),
except where a mark says that only Strata promises it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import Lab, cases

HERE = Path(__file__).resolve().parent
OWN_RESULT = {"malloc_stats_speaks", "resolves_to"}
ONLY_STRATA = {
    "free_sized_works",
    "free_sized_after_realloc",
    "cfree_frees",
    "realloc_moves_pages",
    "large_blocks_begin_off_the_borders_of_pages",
}
MODES = pytest.mark.parametrize("mode", ["auto", "thread"])

REQUIRED = """
    malloc free calloc realloc posix_memalign memalign malloc_usable_size aligned_alloc
    valloc pvalloc cfree reallocarray free_sized free_aligned_sized malloc_trim mallinfo mallinfo2
    mallopt malloc_info malloc_stats
    __libc_malloc __libc_free __libc_calloc __libc_realloc __libc_memalign __libc_valloc
    __libc_pvalloc __libc_cfree __posix_memalign
    _Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t _ZnamSt11align_val_t
    _ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t
    _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t
    _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t
    _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t
""".split()


@MODES
@pytest.mark.parametrize("case", cases(HERE / "api_cases.c"))
def test_api(lab: Lab, case: str, mode: str) -> None:
    if case in ONLY_STRATA:
        lab.require_strata()
    lab.run(lab.build(HERE / "api_cases.c"), case, env={"STRATA_CACHE": mode}).silent()


@MODES
@pytest.mark.parametrize("case", cases(HERE / "alignment_cases.c"))
def test_alignment(lab: Lab, case: str, mode: str) -> None:
    if case in ONLY_STRATA:
        lab.require_strata()
    lab.run(lab.build(HERE / "alignment_cases.c"), case, env={"STRATA_CACHE": mode}).silent()


@pytest.mark.parametrize(
    "case", [case for case in cases(HERE / "info_cases.c") if case not in OWN_RESULT]
)
def test_info(lab: Lab, case: str) -> None:
    if case in ONLY_STRATA:
        lab.require_strata()
    lab.run(lab.build(HERE / "info_cases.c"), case).silent()


def test_mallinfo_counts_guarded_blocks(lab: Lab) -> None:
    lab.require_strata()
    cases = lab.build(HERE / "info_cases.c")
    lab.run(cases, "mallinfo_counts_every_block", env={"STRATA_GUARD": "1/1"}).silent()


def test_malloc_stats_goes_to_stderr_only(lab: Lab) -> None:
    result = lab.run(lab.build(HERE / "info_cases.c"), "malloc_stats_speaks")
    assert result.returncode == 0, result.explain()
    assert result.stdout == "", result.explain()
    assert result.stderr.strip() != "", result.explain()


@pytest.mark.parametrize("symbol", REQUIRED)
def test_symbol_is_interposed(lab: Lab, symbol: str) -> None:
    library = lab.require_strata()
    lab.run(lab.build(HERE / "info_cases.c"), "resolves_to", library.name, symbol).silent()
